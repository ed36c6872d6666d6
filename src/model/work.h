// Work: what running one configuration costs, taken apart. Features are projections of it, the analytic model
// its sum.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/arch_spec.h"
#include "core/gemm_view.h"
#include "tessera/kernel_config.h"

namespace tessera {

// Costs of one core in clock cycles, from ArchSpec::costs: what no data sheet tells. Fitted by
// bench/model_fit.
#define TESSERA_COSTS(X)                                                                                  \
  X(issue_share, "share of the instruction peak that a register tile reaches")                            \
  X(fma_latency, "before an accumulator can be used again")                                               \
  X(vector_load, "a vector load or broadcast beside the arithmetic")                                      \
  X(load_convert, "extra for a load that converts its elements")                                          \
  X(tile_overhead, "per register tile: set-up, first loads, loop exit")                                   \
  X(store_per_vector, "epilogue of one accumulator vector")                                               \
  X(step_per_vector, "one epilogue step on one vector")                                                   \
  X(reduce_per_acc, "horizontal sum of one accumulator vector")                                           \
  X(unhidden_share, "of arithmetic and memory traffic, share of the lesser that the other does not hide") \
  X(stream_penalty, "share of bandwidth lost for each line of memory read side by side")                  \
  X(far_step, "a step of k, read in place, on a page of its own")                                         \
  X(page_in_place, "a page of A read in place while prepacked B streams past")                            \
  X(split_loads, "a vector read in place across two cache lines")                                         \
  X(pack_copy, "packing k across memory, per byte of panel")                                              \
  X(pack_transpose, "packing k along memory, per byte of panel")                                          \
  X(pack_convert, "extra when the element type changes, per byte of panel")                               \
  X(gather_piece, "a run of memory that patches are gathered from")                                       \
  X(gather_line, "the same on a line of memory that other groups share")                                  \
  X(tap_call, "a tap of a register tile whose patches are read in place")                                 \
  X(tap_row, "looking up where a tap of a row lies")                                                      \
  X(spilled_weight, "a weight without a register, every time a column of few channels takes it")          \
  X(spilled_alone, "a weight without a register, where each channel is a group of its own")               \
  X(spread_share, "of a shuffle that chooses channels, where all lanes take the same one")                \
  X(stage_copy, "pack_copy, inside the direct kernel")                                                    \
  X(stage_transpose, "pack_transpose, inside the direct kernel")                                          \
  X(stage_interleave, "extra to stage_copy for words of several rows")                                    \
  X(amx_load, "one tile load")                                                                            \
  X(amx_in_place, "times that for rows far apart")                                                        \
  X(amx_sums, "keeping one tile of sums between chunks of k")                                             \
  X(amx_config, "configuring and releasing the tiles, per run")                                           \
  X(amx_pack, "times pack_copy and pack_transpose for words of tiles")                                    \
  X(amx_turn, "times pack_transpose for tiles of a left operand that k runs across")                      \
  X(amx_swapped, "times the epilogue of C stored across its rows")                                        \
  X(call, "one run, whatever it computes")                                                                \
  X(block_call, "one call from the driver into the generated unit")                                       \
  X(fork_join, "starting and joining the threads of a run")

struct CostTable {
  explicit CostTable(const ArchSpec& a);  // Error(internal) when the file lacks one; zeros for a GPU
#define TESSERA_COST(name, doc) double name;
  TESSERA_COSTS(TESSERA_COST)
#undef TESSERA_COST
};

struct CostRow {
  std::string_view name;
  double CostTable::*member;
};
std::span<const CostRow> cost_rows();

struct Work {
  // Shape: the view as the kernel walks it (m and n exchanged under swap_ab).
  double rows = 0, cols = 0, depth = 0, groups = 1;
  double tile_m = 0, tile_n = 0;        // of C per register tile (CPU) or workgroup (GPU)
  double row_tiles = 0, col_tiles = 0;  // per group
  double fill_m = 0, fill_n = 0, fill_k = 0;
  double tasks = 0;     // pieces that can run at once
  double shares = 0;    // that threads take, where a family's driver has other ones; 0: tasks
  double parallel = 1;  // compute units busy on average
  double passes_k = 1;  // blocks along k

  // Time on one unit, in cycles, before `parallel` divides it.
  double math = 0;        // instruction issue, with edge waste and latency
  double ideal_math = 0;  // the same without waste
  double pack_a = 0, pack_b = 0;
  double epilogue = 0;
  double memory = 0;    // operand traffic from the level each lives in
  double overhead = 0;  // calls, tile set-up
  double serial = 0;    // not divided by `parallel`
  double bytes_a = 0, bytes_b = 0, bytes_c = 0;
  double staged = 0;  // bytes of panels or shared memory in use

  double cycles = 0;  // of the whole run on the device
};

class ViewMemo;

// `c` must be legal, `memo` of the same view and architecture. No allocation.
Work work_of(const GemmView& v, const KernelConfig& c, const ArchSpec& a, const CostTable& costs,
             ViewMemo& memo);

}  // namespace tessera
