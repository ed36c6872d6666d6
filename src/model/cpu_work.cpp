#include "model/cpu_work.h"

#include <algorithm>
#include <cmath>

#include "model/cpu_terms.h"
#include "model/product_terms.h"
#include "model/view_memo.h"

namespace tessera {
namespace {

// Families of convolutions alone, whose terms count C too.
struct Convolution {
  Family family;
  void (*add)(const CpuTerms&);
};
constexpr Convolution kConvolutions[] = {{Family::cpu_groups, add_groups_work},
                                         {Family::cpu_winograd, add_winograd_work},
                                         {Family::cpu_winograd_weight, add_winograd_weight_work},
                                         {Family::cpu_scatter, add_scatter_work},
                                         {Family::cpu_planes, add_planes_work}};

}  // namespace

void add_cpu_work(const GemmView& v, const KernelConfig& c, const ArchSpec& a, const CostTable& costs,
                  const Instruction& inst, ViewMemo& memo, Work& w) {
  const ProductTerms cpu{{v, c, a, costs, inst, memo, w}};
  if (memo.cpu.inst != &inst || memo.cpu.swapped != (c.swap_ab != 0)) cpu.find_facts();
  const double outputs = w.rows * w.cols;
  const double vectors = w.rows * std::ceil(w.cols / cpu.lanes());
  const int steps = v.epilogue.count;
  w.epilogue = vectors * (costs.store_per_vector + steps * costs.step_per_vector);
  w.overhead = w.row_tiles * w.col_tiles * costs.tile_overhead;
  const auto found = std::ranges::find(kConvolutions, c.family_id(), &Convolution::family);
  if (found != std::end(kConvolutions)) {
    found->add(cpu);
  } else {
    switch (c.family_id()) {
      case Family::cpu_amx: add_amx_work(cpu); break;
      case Family::cpu_dot: add_dot_work(cpu); break;
      case Family::cpu_direct: add_direct_work(cpu); break;
      default: add_packed_work(cpu); break;
    }
    w.memory += cpu.f.read_c;
  }
  w.ideal_math = outputs * w.depth * 2 / inst.flops_per_cycle;
  w.overhead += costs.unhidden_share * std::min(w.math, w.memory);
  for (double* part : {&w.math, &w.ideal_math, &w.pack_a, &w.pack_b, &w.epilogue, &w.memory, &w.overhead}) {
    *part *= w.groups;
  }
  w.serial += costs.call;
  w.tasks = w.groups * std::max(w.row_tiles, w.col_tiles) * std::max(c.split_k, 1);
  // Parts of k, where a kernel without packing has several, are what its threads take.
  const bool unpacked = c.family_id() == Family::cpu_dot || c.family_id() == Family::cpu_direct;
  const double shares = unpacked && c.split_k > 1 ? c.split_k : w.shares > 0 ? w.shares : w.tasks;
  const bool threads = v.worth_threads() && (!unpacked || v.worth_threads_unpacked());
  w.parallel = std::min<double>(threads ? a.compute_units : 1, shares);
  if (a.compute_units > 1 && threads) {
    w.parallel = shares / std::ceil(shares / w.parallel);
    w.serial += costs.fork_join;
    if (c.split_k > 1) w.serial += outputs * (c.split_k - 1) / cpu.lanes() * 2;
  }
}

}  // namespace tessera
