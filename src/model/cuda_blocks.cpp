#include "model/cuda_blocks.h"

#include <algorithm>
#include <cmath>

#include "core/tile_math.h"

namespace tessera {
namespace {

constexpr double kWordBytes = 4;
constexpr double kPiece = 16;       // bytes that a thread of cp_async brings at a time
constexpr double kUnits = 4;        // of a multiprocessor, each of which issues for its own warps
constexpr double kLanes = 512;      // threads of a multiprocessor that hide each other's waiting
constexpr double kGemvLoad = 4096;  // bytes that a wave of gemv asks for at once, 16 columns of them

// A block of one tile.
struct CudaBlock {
  double threads = 32, shared = 0, registers = 64;  // registers of a thread
  double rows = 1, cols = 1;                        // of C as the kernel sees it
  double sums = 1;
  double depth = 1;  // of k a step takes
  double step = 0;   // cycles of one step of the block alone
  double busy = 0;   // the share of it that blocks of one multiprocessor cannot overlap
};

bool aligned(const Operand& o, int vec) { return vec * bytes_of(o.type) == 16; }

CudaBlock gemv_block(const GemmView& v, const KernelConfig& c, const BlockCosts& t) {
  const bool along = c.swap_ab ? v.a.col_stride == 1 : v.b.row_stride == 1;
  const bool narrow_along = c.swap_ab ? v.b.row_stride == 1 : v.a.col_stride == 1;
  const Operand &wide = c.swap_ab ? v.a : v.b, &narrow = c.swap_ab ? v.b : v.a;
  const double waves = c.wave_n * c.wave_k, element = bytes_of(wide.type);
  const double wave_bytes = along ? kGemvLoad * c.tile_n / 16 : kGemvLoad;
  double extra = aligned(wide, c.swap_ab ? c.vec_a : c.vec_b) ? 1 : t.gemv_unaligned;
  CudaBlock b;
  b.threads = 32 * waves;
  b.shared = waves * c.tile_m * c.tile_n * kWordBytes;
  const double fragments = c.tile_m / 8.0 * (c.tile_n / 16.0);
  b.registers = fragments <= 2 && c.tile_n == 16 ? 80 : fragments <= 4 || !along ? 128 : 255;
  b.rows = c.tile_m;
  b.cols = static_cast<double>(c.tile_n) * c.wave_n;
  b.sums = b.rows * b.cols;
  b.depth = (along ? 256 / element : 32) * c.wave_k;
  // The narrow operand comes from L1, once for each wave.
  double loads = wave_bytes * extra;
  const double narrow_bytes = c.tile_m * (along ? 256.0 : 64.0) * t.gemv_narrow;
  loads +=
      narrow_bytes *
      (narrow_along ? aligned(narrow, c.swap_ab ? c.vec_b : c.vec_a) ? 1 : t.gemv_unaligned : t.gemv_gather);
  if (info(wide.type).is_float && element == 1) loads += t.gemv_convert * (wave_bytes + narrow_bytes);
  if (!along) loads *= t.gemv_across;
  b.busy = waves * loads / t.gemv_unit_bytes;
  b.step = t.gemv_latency + b.busy;
  return b;
}

CudaBlock tile_block(const GemmView& v, const KernelConfig& c, const BlockCosts& t, ViewMemo& memo) {
  const bool simt = c.family_id() == Family::simt;
  CudaBlock b;
  b.rows = c.block_m;
  b.cols = c.block_n;
  b.sums = b.rows * b.cols;
  b.depth = c.block_k;
  b.threads = simt ? b.sums / (c.tile_m * c.tile_n) : 32.0 * c.wave_m * c.wave_n;
  const double in_shared = v.acc == DType::i32 ? 1 : simt ? 4 : 2;
  b.shared = (b.rows + b.cols) * c.block_k * in_shared * c.stages;
  b.registers = std::min(255.0, 48 + 1.5 * b.sums / b.threads);
  const Instruction* inst = memo.instruction(c);
  const double rate = inst && inst->flops_per_cycle > 0 ? inst->flops_per_cycle : 256;
  double math = 2 * b.sums * c.block_k / rate * (simt ? t.block_fma : t.block_mma);
  // Each sum needs operands from shared memory: small tiles of a thread or warp are bound by these.
  if (simt)
    math *= 1 + 2.0 / c.tile_m + 2.0 / c.tile_n;
  else
    math *= 0.5 + 8.0 * c.wave_m / c.block_m + 8.0 * c.wave_n / c.block_n;
  double bytes = 0;
  bytes += b.rows * c.block_k * bytes_of(v.a.type) * (simt || aligned(v.a, c.vec_a) ? 1 : t.block_unaligned);
  bytes += b.cols * c.block_k * bytes_of(v.b.type) * (simt || aligned(v.b, c.vec_b) ? 1 : t.block_unaligned);
  if (simt) bytes *= 4.0 / std::min(4, std::min(c.vec_a, c.vec_b));
  const double load = bytes / t.block_unit_bytes;
  // Pieces that go through registers on their way are work for the threads that bring them.
  double brought = 0;
  if (!simt) {
    const bool converts = info(v.a.type).is_float && bytes_of(v.a.type) == 1;
    const auto work = [&](double lines, const Operand& o, int vec) {
      return lines * c.block_k * bytes_of(o.type) / kPiece *
             ((converts ? t.block_convert : 0) + (aligned(o, vec) ? 0 : t.block_combine));
    };
    brought = work(b.rows, v.a, c.vec_a) + work(b.cols, v.b, c.vec_b);
  }
  // A warp has one of the multiprocessor's units.
  const double alone = std::max(1.0, kUnits * 32 / b.threads);
  b.busy = std::max(math, load) + brought / kLanes;
  b.step = std::max({simt ? math : math * alone, load, t.block_latency / std::max(c.stages - 1, 1)}) +
           (simt ? math : brought / std::min(b.threads, kLanes));
  return b;
}

}  // namespace

BlockCosts::BlockCosts(const ArchSpec& a) {
  if (!a.runs(Family::gemv) && !a.runs(Family::simt) && !a.runs(Family::cp_async)) return;
#define TESSERA_BLOCK_COST(name, doc) name = a.cost(#name);
  TESSERA_BLOCK_COSTS(TESSERA_BLOCK_COST)
#undef TESSERA_BLOCK_COST
}

double block_cycles(const GemmView& v, const KernelConfig& c, const ArchSpec& a, const BlockCosts& t,
                    ViewMemo& memo) {
  const bool gemv = c.family_id() == Family::gemv;
  const CudaBlock b = gemv ? gemv_block(v, c, t) : tile_block(v, c, t, memo);
  const double tiles = std::ceil(static_cast<double>(rows_of(v, c)) / b.rows) *
                       std::ceil(static_cast<double>(cols_of(v, c)) / b.cols) * static_cast<double>(v.groups);
  const double steps_all = std::max(1.0, std::ceil(static_cast<double>(v.k) / b.depth));
  const double steps = std::ceil(steps_all / std::max(c.split_k, 1)), parts = std::ceil(steps_all / steps);
  const double blocks = tiles * parts;

  const double by_registers = std::floor(65536 / (b.registers * b.threads));
  const double by_shared = std::floor(static_cast<double>(a.smem_bytes) / std::max(b.shared, 1024.0));
  const double together =
      std::max(1.0, std::min({by_registers, by_shared, std::floor(2048 / b.threads), 32.0}));
  // A multiprocessor's blocks run side by side: as long as the slowest alone, or as the work of all.
  const double each = std::ceil(blocks / a.compute_units);
  const double turns = std::ceil(each / together);
  const double alone = turns * steps * b.step;
  const double run = std::max(alone, each * steps * b.busy);
  // Multiprocessors without a block leave their share of the bandwidth to nobody.
  const double busy_units = std::min(1.0, blocks / a.compute_units);
  const double memory = memo.bytes() / (gemv ? t.gemv_dram_bytes * busy_units : t.block_dram_bytes);
  const double overlap = gemv ? t.gemv_overlap : t.block_overlap;
  double cycles = (gemv ? t.gemv_launch : t.block_launch) + memo.overlapped(run, memory, overlap);
  if (parts > 1) {
    const double bytes = (parts + 1) * b.sums * kWordBytes;
    cycles += gemv ? t.gemv_split + bytes / t.gemv_split_bytes : t.block_split + bytes / t.block_split_bytes;
  }
  return cycles;
}

}  // namespace tessera
