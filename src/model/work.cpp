#include "model/work.h"

#include <algorithm>
#include <cmath>

#include "core/tile_math.h"
#include "model/cpu_work.h"
#include "model/view_memo.h"

namespace tessera {
namespace {

// Workgroups in rounds over the compute units; each round as long as one block's math or its share of memory
// traffic.
void add_gpu_work(const GemmView& v, const KernelConfig& c, const ArchSpec& a, const Instruction* inst,
                  Work& w) {
  const double rate =
      inst && inst->flops_per_cycle > 0 ? inst->flops_per_cycle : 4.0 * std::max(a.wave_size, 1);
  const double parts = static_cast<double>(std::max(c.split_k, 1)) * std::max(c.cluster_k, 1);
  const double blocks = w.row_tiles * w.col_tiles * w.groups * parts;
  const double depth = std::ceil(w.depth / parts / std::max(c.block_k, 1)) * std::max(c.block_k, 1);
  const double one = 2.0 * w.tile_m * w.tile_n * depth / rate;
  const double fill_pipeline =
      600.0 / std::max(c.stages, 1) + 400.0;  // first loads, and the store at the end
  w.tasks = blocks;
  w.parallel = blocks / std::ceil(blocks / a.compute_units);
  w.math = blocks * one;
  w.ideal_math = 2.0 * w.rows * w.cols * w.depth * w.groups / rate;
  w.overhead = blocks * fill_pipeline;
  // Neighbouring blocks share operand tiles in L2: about a square of blocks is in flight.
  const double in_flight = std::min<double>(blocks, a.compute_units);
  const double side = std::max(1.0, std::sqrt(in_flight));
  const double traffic =
      (w.bytes_a * w.col_tiles + w.bytes_b * w.row_tiles) / side * w.groups + w.bytes_c * w.groups;
  const double least = (w.bytes_a + w.bytes_b + w.bytes_c) * w.groups;
  const double bandwidth = a.dram.bytes_per_cycle > 0 ? a.dram.bytes_per_cycle : 16.0 * a.compute_units;
  w.memory = std::max(traffic, least) / bandwidth * w.parallel;
  if (c.split_k > 1) w.serial = w.rows * w.cols * w.groups * 4.0 * c.split_k * 2 / bandwidth;
  w.serial += 4000;  // launch
  w.staged = static_cast<double>(staged_bytes(v, c));
}

}  // namespace

CostTable::CostTable(const ArchSpec& a) {
  for (const CostRow& row : cost_rows())
    this->*row.member = a.backend == BackendKind::cpu ? a.cost(row.name) : 0.0;
}

std::span<const CostRow> cost_rows() {
  static constexpr CostRow kRows[] = {
#define TESSERA_COST_ROW(name, doc) {#name, &CostTable::name},
      TESSERA_COSTS(TESSERA_COST_ROW)
#undef TESSERA_COST_ROW
  };
  return kRows;
}

namespace {

// Of a tile of C `tile_m` x `tile_n`, and of steps along k.
Work shape_of(const GemmView& v, const KernelConfig& c, int tile_m, int tile_n, int step_k) {
  Work w;
  w.rows = static_cast<double>(rows_of(v, c));
  w.cols = static_cast<double>(cols_of(v, c));
  w.depth = v.depth();
  w.groups = static_cast<double>(v.groups);
  w.tile_m = std::max(tile_m, 1);
  w.tile_n = std::max(tile_n, 1);
  w.row_tiles = std::ceil(w.rows / w.tile_m);
  w.col_tiles = std::ceil(w.cols / w.tile_n);
  w.fill_m = w.rows / (w.row_tiles * w.tile_m);
  w.fill_n = w.cols / (w.col_tiles * w.tile_n);
  const double k_step = std::max(step_k, 1);
  w.fill_k = w.depth > 0 ? w.depth / (std::ceil(w.depth / k_step) * k_step) : 1.0;
  const Operand& left = c.swap_ab ? v.b : v.a;
  const Operand& right = c.swap_ab ? v.a : v.b;
  w.bytes_a = w.rows * w.depth * bytes_of(left.type);
  w.bytes_b = w.cols * w.depth * bytes_of(right.type);
  w.bytes_c = w.rows * w.cols * bytes_of(v.c.type);
  return w;
}

}  // namespace

Work work_of(const GemmView& v, const KernelConfig& c, const ArchSpec& a, const CostTable& costs,
             ViewMemo& memo) {
  const bool cpu = a.backend == BackendKind::cpu;
  const int tile_m = cpu ? c.tile_m : c.block_m, tile_n = cpu ? c.tile_n : c.block_n,
            step_k = cpu ? c.inst_k : c.block_k;
  Work w =
      memo.shape({c.swap_ab, tile_m, tile_n, step_k}, [&] { return shape_of(v, c, tile_m, tile_n, step_k); });
  w.passes_k = c.block_k > 0 ? std::ceil(w.depth / c.block_k) : 1.0;
  const Instruction* inst = memo.instruction(c);
  if (cpu && inst) {
    add_cpu_work(v, c, a, costs, *inst, memo, w);
  } else {
    add_gpu_work(v, c, a, inst, w);
  }
  const double spread = std::max(w.math, w.memory) + w.pack_a + w.pack_b + w.epilogue + w.overhead;
  w.cycles = spread / std::max(w.parallel, 1e-3) + w.serial;
  return w;
}

}  // namespace tessera
