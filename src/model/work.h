// Work: what running one configuration costs, taken apart. Features are projections of it, the analytic model
// its sum.
#pragma once

#include <cstdint>

#include "core/arch_spec.h"
#include "core/gemm_view.h"
#include "tessera/kernel_config.h"

namespace tessera {

// Costs of one core (CPU) or compute unit (GPU) in clock cycles, from ArchSpec::costs. Each is described in
// docs/selection.md.
struct CostTable {
  explicit CostTable(const ArchSpec& a);

  double fma_latency;       // cycles before an accumulator can be used again
  double loads_per_cycle;   // vector loads
  double tile_overhead;     // per register tile and pass over k: set-up, first loads, store
  double store_per_vector;  // epilogue cycles per accumulator vector
  double step_per_vector;   // one element-wise epilogue step on one vector
  double reduce_per_acc;    // horizontal sum of one accumulator vector (dot products)
  double pack_copy;         // packing with rows in memory order: cycles per element byte
  double pack_transpose;    // packing across memory order
  double pack_convert;      // extra when the element type changes on the way
  double amx_load;          // one tile load from L1 or L2
  double amx_config;        // tile configuration and release of one call
  double call;              // one run, whatever it computes
  double block_call;        // one call from the driver into the generated unit
  double fork_join;         // starting and joining the threads of a run
};

struct Work {
  // Shape: the view as the kernel walks it (m and n exchanged under swap_ab).
  double rows = 0, cols = 0, depth = 0, groups = 1;
  double tile_m = 0, tile_n = 0;        // of C per register tile (CPU) or workgroup (GPU)
  double row_tiles = 0, col_tiles = 0;  // per group
  double fill_m = 0, fill_n = 0, fill_k = 0;
  double tasks = 0;     // pieces that can run at once
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
};

// `c` must be legal. No allocation.
Work work_of(const GemmView& v, const KernelConfig& c, const ArchSpec& a, const CostTable& costs);

// Cycles of the whole run on the device.
double total_cycles(const Work& w);

}  // namespace tessera
