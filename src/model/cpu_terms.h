// What the costs of the CPU families share.
#pragma once

#include <algorithm>
#include <cmath>

#include "core/cache_line.h"
#include "model/view_memo.h"
#include "model/work.h"

namespace tessera {

// A register tile of `accs` accumulators fed by `loads` vector loads: cycles of one step along k.
inline double step_cycles(double accs, double loads, double issue_per_cycle, const CostTable& t) {
  return std::max(accs / issue_per_cycle + loads * t.vector_load, t.fma_latency);
}

struct CpuTerms {
  const GemmView& v;
  const KernelConfig& c;
  const ArchSpec& a;
  const CostTable& t;
  const Instruction& inst;
  ViewMemo& memo;
  Work& w;

  static constexpr double kCacheLine = tessera::kCacheLine;
  // Cycles of a vector of which not all lanes are stored: it leaves the registers by way of memory.
  static constexpr double kPartOfLanes = 8;

  double lanes() const { return memo.cpu.lanes; }

  // Cycles for one core to read `bytes` that live in the smallest level holding `footprint` bytes.
  double read(double bytes, double footprint) const {
    const CacheLevel& level = footprint <= memo.limits[0]   ? a.l1
                              : footprint <= memo.limits[1] ? a.l2
                              : footprint <= memo.limits[2] ? a.l3
                                                            : a.dram;
    return bytes / level.bytes_per_cycle;
  }

  double issue_per_cycle() const { return memo.cpu.issue_per_cycle; }

  // Cycles of a step of k of a register tile with so many rows and live columns, where the last vector of
  // columns takes half an instruction if that is enough (half_edge). `more`: loads beside those of both.
  double product_step(double rows, double cols, double more = 0) const {
    const double vectors = std::ceil(cols / inst.n);
    const double issued =
        memo.cpu.halves && 2 * (vectors * inst.n - cols) >= inst.n ? vectors - 0.5 : vectors;
    return step_cycles(rows * issued, rows + vectors + more, issue_per_cycle(), t);
  }
};

// Adds what cpu_groups costs, all groups and operands at once; what is set is the share of one group.
void add_groups_work(const CpuTerms& terms);

// What one group costs cpu_winograd, and cpu_winograd_weight.
void add_winograd_work(const CpuTerms& terms);
void add_winograd_weight_work(const CpuTerms& terms);

// What the only group costs cpu_scatter.
void add_scatter_work(const CpuTerms& terms);

// Sets what cpu_planes costs: the share of one group.
void add_planes_work(const CpuTerms& terms);

}  // namespace tessera
