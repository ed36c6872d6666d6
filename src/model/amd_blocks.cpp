#include "model/amd_blocks.h"

#include <algorithm>
#include <cmath>

#include "core/family.h"
#include "core/tile_math.h"

namespace tessera {
namespace {

constexpr double kVector = 16;     // bytes of the widest load of a lane
constexpr double kOther = 40;      // registers of a lane for addresses and the like
constexpr double kLineOfL2 = 128;  // bytes of L2
constexpr double kSumBytes = 4;
constexpr double kOverlap = 4;  // how well memory hides behind the work: the exponent of their norm

// How a pipeline keeps the units busy, from CK Tile's descriptions of them.
struct PipelineWay {
  Pipeline pipeline;
  double ahead;     // steps that loads are asked for before they are needed, through registers or not
  bool beside;      // operands come from shared memory while others are multiplied
  double barriers;  // of a step
  bool passes;      // loads go to shared memory without a lane's registers
};
constexpr PipelineWay kPipelines[] = {
    {Pipeline::basic_v1, 0, false, 2, false}, {Pipeline::mem, 2, false, 2, false},
    {Pipeline::compv3, 1, true, 2, false},    {Pipeline::compv4, 1, true, 1, false},
    {Pipeline::compv5, 1, true, 1, false},    {Pipeline::compv6, 1, true, 1, false},
    {Pipeline::wavelet, 1, true, 2, false},   {Pipeline::preshufflev2, 1, true, 1, false},
    {Pipeline::comp_async, 1, true, 1, true}, {Pipeline::basic_async_v1, 0, false, 2, true},
};

const PipelineWay& way_of(int pipeline) {
  for (const PipelineWay& w : kPipelines) {
    if (static_cast<int>(w.pipeline) == pipeline) return w;
  }
  return kPipelines[0];
}

// One workgroup: cycles of a step along k and of what comes before and after, alone, and the part of each
// that the workgroups of a compute unit cannot overlap.
struct Workgroup {
  double together = 1;  // on one compute unit
  double step = 0, step_busy = 0;
  double ends = 0, ends_busy = 0;
};

struct AmdBlock {
  const GemmView& v;
  const KernelConfig& c;
  const ArchSpec& a;
  const AmdCosts& t;
  const Instruction& inst;
  const PipelineWay& way = way_of(c.pipeline);

  double waves() const { return static_cast<double>(c.wave_m) * c.wave_n * c.wave_k; }
  double threads() const { return waves() * a.wave_size; }
  double sums() const { return static_cast<double>(c.block_m) * c.block_n; }
  double bytes_of_a() const { return static_cast<double>(c.block_m) * c.block_k * bytes_of(v.a.type); }
  double bytes_of_b() const { return static_cast<double>(c.block_n) * c.block_k * bytes_of(v.b.type); }
  bool staged_b() const { return !c.preshuffle; }

  // Lanes hold sums, what they multiply next, and loads on their way to shared memory.
  double registers() const {
    const double rows = static_cast<double>(c.block_m) / c.wave_m,
                 cols = static_cast<double>(c.block_n) / c.wave_n;
    const double depth = static_cast<double>(c.block_k) / c.wave_k;
    const double operands =
        (rows * bytes_of(v.a.type) + cols * bytes_of(v.b.type)) * depth / kSumBytes / a.wave_size;
    const double passing = way.passes ? 0 : (bytes_of_a() + bytes_of_b()) / kSumBytes / threads();
    return kOther + sums() * c.wave_k / threads() + operands + passing * std::max(way.ahead, 1.0);
  }

  double together(double registers) const {
    const double shared = (bytes_of_a() + (staged_b() ? bytes_of_b() : 0)) * (1 + c.double_buffer);
    const double per_unit = std::floor(std::min(t.amd_registers / registers, t.amd_waves));
    return std::max(1.0, std::min(std::floor(per_unit * t.amd_units / waves()),
                                  std::floor(static_cast<double>(a.smem_bytes) / std::max(shared, 1024.0))));
  }

  // Bytes per cycle of one compute unit.
  double from_l2() const {
    return std::min(t.amd_l2_share * a.l2.bytes_per_cycle / a.compute_units, a.l1.bytes_per_cycle);
  }

  double narrow(const Operand& o, int vec) const {
    return 1 + t.amd_narrow * std::log2(kVector / (static_cast<double>(vec) * bytes_of(o.type)));
  }

  Workgroup cost() const {
    Workgroup g;
    const double need = registers();
    g.together = together(need);
    // Of one unit; a workgroup with fewer waves leaves the others idle.
    const double rate = inst.flops_per_cycle / t.amd_units;
    const double one = 2.0 * inst.m * inst.n * inst.k;
    const double fill = (one / rate + t.amd_issue) / (one / rate);
    // Sums that no register holds go by memory and back.
    const double spilled = std::max(1.0, need / a.registers_per_thread);
    const double math = 2 * sums() * c.block_k / inst.flops_per_cycle * fill * spilled * spilled;
    const double math_alone = math * std::max(1.0, t.amd_units / waves());
    const double load =
        (bytes_of_a() * narrow(v.a, c.vec_a) + bytes_of_b() * narrow(v.b, c.vec_b)) / from_l2();
    // Every wave reads its rows of A and its columns of B; a prepacked B comes from L2 straight to registers.
    double shared = bytes_of_a() * (c.wave_n + 1);
    if (staged_b()) shared += bytes_of_b() * (c.wave_m + 1);
    const double lds = shared / t.amd_lds_bytes;
    const double fetched = load + (staged_b() ? 0 : bytes_of_b() * (c.wave_m - 1) / from_l2());
    const double barriers = way.barriers * t.amd_barrier;
    // Waves of one unit that take turns hide a part of what one of them waits for.
    const double turns = std::min(g.together * waves() / t.amd_units, 4.0);
    const bool takes_turns = c.scheduler == static_cast<int>(Scheduler::interwave);
    const double apart = way.beside ? 0 : takes_turns && turns >= 2 ? 0.5 : 1;
    const double work = std::max(math_alone, lds) + apart * std::min(math_alone, lds);
    const double waited = way.ahead > 0 ? std::max(t.amd_latency - way.ahead * (work + barriers), 0.0)
                                        : t.amd_latency + fetched;
    g.step = std::max(work, fetched) + barriers + waited;
    g.step_busy = std::max({math, lds, fetched}) + barriers / g.together;
    const double out = sums() * bytes_of(v.c.type);
    // Lanes of an instruction store runs of its columns; shuffled, whole lines.
    const bool shuffled = c.store == static_cast<int>(Store::cshuffle);
    const double run = static_cast<double>(inst.n) * bytes_of(v.c.type);
    const double stored =
        (shuffled ? out * narrow(v.c, c.vec_c) : out * std::max(1.0, kLineOfL2 / run)) / from_l2();
    const double through = shuffled ? 2 * out / t.amd_lds_bytes + 2 * t.amd_barrier : 0;
    const double start = c.persistent ? 0 : t.amd_workgroup;
    const double operations = sums() * v.epilogue.count / (32 * t.amd_units);
    g.ends_busy = stored + through + operations + start;
    g.ends = g.ends_busy + t.amd_latency;
    return g;
  }
};

}  // namespace

AmdCosts::AmdCosts(const ArchSpec& a) {
  if (!a.runs(Family::mfma) && !a.runs(Family::wmma)) return;
#define TESSERA_AMD_COST(name, doc) name = a.cost(#name);
  TESSERA_AMD_COSTS(TESSERA_AMD_COST)
#undef TESSERA_AMD_COST
}

double amd_cycles(const GemmView& v, const KernelConfig& c, const ArchSpec& a, const AmdCosts& t,
                  ViewMemo& memo) {
  const Workgroup g = AmdBlock{v, c, a, t, *memo.instruction(c)}.cost();
  const double rows = std::ceil(static_cast<double>(v.m) / c.block_m),
               cols = std::ceil(static_cast<double>(v.n) / c.block_n);
  const double steps_all = std::max(1.0, std::ceil(static_cast<double>(v.k) / c.block_k));
  const double steps = std::ceil(steps_all / std::max(c.split_k, 1)), parts = std::ceil(steps_all / steps);
  const double groups = static_cast<double>(v.groups), blocks = rows * cols * groups * parts;
  // A compute unit's workgroups run side by side: as long as the slowest alone, or as the work of all.
  const double each = std::ceil(blocks / a.compute_units);
  const double alone = std::ceil(each / g.together) * (steps * g.step + g.ends);
  double run = std::max(alone, each * (steps * g.step_busy + g.ends_busy));
  if (c.persistent) run += t.amd_workgroup;
  // Workgroups in flight share what they read, about a square of them.
  const double flight = std::min(blocks, a.compute_units * g.together);
  const double side = std::max(1.0, std::sqrt(flight / parts));
  const auto read = [&](const Operand& o, double across, double extent) {
    const double once = extent * static_cast<double>(v.k) * bytes_of(o.type) * groups;
    const bool again = once > static_cast<double>(a.l2.bytes);
    return again ? once * across / std::min(side, across) : once;
  };
  const double bytes = read(v.a, cols, static_cast<double>(v.m)) + read(v.b, rows, static_cast<double>(v.n)) +
                       static_cast<double>(v.m) * static_cast<double>(v.n) * groups *
                           (bytes_of(v.c.type) + (parts > 1 ? 2 * kSumBytes * parts : 0));
  return t.amd_launch + memo.overlapped(run, bytes / a.dram.bytes_per_cycle, kOverlap);
}

}  // namespace tessera
