// What a kernel of the tma_ws family costs. Blocks are persistent and pipelined, so a block's step takes as
// long as the slowest of its parts, and blocks come in rounds.
#pragma once

#include <array>

#include "core/arch_spec.h"
#include "core/gemm_view.h"
#include "model/view_memo.h"
#include "tessera/kernel_config.h"

namespace tessera {

// In clock cycles of one multiprocessor, from ArchSpec::costs. Fitted to measurements of every kernel on a
// sample of problems (bench_gpu_gemm configs=N).
#define TESSERA_TMA_COSTS(X)                                                                    \
  X(tma_launch, "a launch before its first load")                                               \
  X(tma_fill, "first loads, last store")                                                        \
  X(tma_step, "of a stage, beside its multiplication")                                          \
  X(tma_held, "stages that are no longer, or not yet, on their way")                            \
  X(tma_served_share, "how far blocks that share lines of L2 are served together: an exponent") \
  X(tma_ragged, "times a load of rows that start at no multiples of 128 bytes")                 \
  X(tma_copy, "a launch that copies what TMA cannot walk")                                      \
  X(tma_copy_line, "bytes: shorter lines are copied no faster")                                 \
  X(tma_latency, "from asking for a stage to having it")                                        \
  X(tma_l2_bytes, "per cycle that all multiprocessors together load")                           \
  X(tma_unit_bytes, "the same, one of them")                                                    \
  X(tma_dram_bytes, "per cycle from memory")                                                    \
  X(tma_single, "times the ideal multiplication with one warpgroup")                            \
  X(tma_cooperative, "the same with warpgroups that share a block")                             \
  X(tma_pingpong, "the same with two that alternate")                                           \
  X(tma_f8_step, "of a stage whose sums are kept apart until it is done")                       \
  X(tma_f8_sums, "the same, for each 128 sums")                                                 \
  X(tma_narrow, "of 64 rows of A from shared memory, for each instruction")                     \
  X(tma_cluster, "times a load that is shared in a cluster")                                    \
  X(tma_cluster_launch, "starting clusters")                                                    \
  X(tma_cluster_share, "of the multiprocessors that clusters of four reach")                    \
  X(tma_overlap, "how well arithmetic hides memory: the exponent of their norm")                \
  X(tma_store, "a 128x256 block of C")                                                          \
  X(tma_slice, "one of the slices of a block that leave in turn")                               \
  X(tma_c_bytes, "per cycle of C from all multiprocessors")                                     \
  X(tma_store_hidden, "the same behind the other team's multiplication")                        \
  X(tma_store_general, "times a store that does not go through TMA")                            \
  X(tma_exchange, "meeting of the parts of k that a cluster has")                               \
  X(tma_exchange_bytes, "per cycle of sums from another block of the cluster")                  \
  X(tma_split, "meeting of the parts of k")                                                     \
  X(tma_split_bytes, "per cycle of partial sums")

struct TmaCosts {
  explicit TmaCosts(
      const ArchSpec& a);  // zeros where the family does not run; Error(internal) when one is missing
#define TESSERA_TMA_COST(name, doc) double name = 0;
  TESSERA_TMA_COSTS(TESSERA_TMA_COST)
#undef TESSERA_TMA_COST
  // Share of a block's loads that is left when so many blocks ask for the same lines at the same time.
  std::array<double, 33> served{};
};

// `c` must be legal. No allocation.
double tma_ws_cycles(const GemmView& v, const KernelConfig& c, const ArchSpec& a, const TmaCosts& t,
                     ViewMemo& memo);

}  // namespace tessera
