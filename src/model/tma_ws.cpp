#include "model/tma_ws.h"

#include <algorithm>
#include <cmath>

#include "core/tile_math.h"

namespace tessera {
namespace {

constexpr double kWarpgroupRows = 64;
constexpr double kRowBytes = 128;         // of k in a stage
constexpr double kInstructionBytes = 32;  // of k in one wgmma
constexpr double kShortLine = 1024;       // bytes: shorter lines are copied no faster
constexpr double kReferenceBlock = 128 * 256;

}  // namespace

TmaCosts::TmaCosts(const ArchSpec& a) {
  if (!a.runs(Family::tma_ws)) return;
#define TESSERA_TMA_COST(name, doc) name = a.cost(#name);
  TESSERA_TMA_COSTS(TESSERA_TMA_COST)
#undef TESSERA_TMA_COST
}

double tma_ws_cycles(const GemmView& v, const KernelConfig& c, const ArchSpec& a, const TmaCosts& t) {
  const int64_t cluster = int64_t{c.cluster_m} * c.cluster_n;
  const int64_t clusters = ceil_div(ceil_div(rows_of(v, c), c.block_m), c.cluster_m) *
                           ceil_div(ceil_div(cols_of(v, c), c.block_n), c.cluster_n);
  const int64_t work = clusters * cluster * v.groups * std::max(c.split_k, 1);
  const int64_t units = std::max<int64_t>(a.compute_units / cluster * cluster, 1);
  const auto rounds = static_cast<double>(ceil_div(work, units));
  const auto active = static_cast<double>(std::min(work, units));
  const auto steps = static_cast<double>(ceil_div(ceil_div(v.k, c.block_k), std::max(c.split_k, 1)));

  // An instruction is bound by its arithmetic or, when narrow, by reading A and B from shared memory.
  const bool pingpong = c.wave_groups > 1;
  const double instruction = std::max(c.block_n / 2.0, t.tma_narrow + c.block_n / 4.0);
  const double slower = pingpong ? t.tma_pingpong : c.wave_m > 4 ? t.tma_cooperative : t.tma_single;
  const double math = kRowBytes / kInstructionBytes * (c.block_m / kWarpgroupRows) * instruction * slower;
  // Rows and columns beyond C are not loaded.
  const auto live_m = static_cast<double>(std::min<int64_t>(c.block_m, rows_of(v, c)));
  const auto live_n = static_cast<double>(std::min<int64_t>(c.block_n, cols_of(v, c)));
  const double bytes = (live_m / c.cluster_n + live_n / c.cluster_m) * kRowBytes;
  const double load =
      bytes / std::min(t.tma_unit_bytes, t.tma_l2_bytes / active) * (cluster > 1 ? t.tma_cluster : 1.0);
  const double step = std::max({math, load, t.tma_latency / c.stages});

  const double block = static_cast<double>(c.block_m) * c.block_n;
  const bool general = c.store == static_cast<int>(Store::direct) || !v.epilogue.empty();
  const double store = t.tma_store * block / kReferenceBlock * (general ? t.tma_store_general : 1.0);
  const double between = pingpong ? t.tma_store_hidden * block / kReferenceBlock : store;
  double run = rounds * (steps * step + between) + store - between;
  if (c.split_k > 1) run += t.tma_split + (c.split_k + 1) * block * 4 / t.tma_split_bytes;
  // Operands that TMA cannot walk are read and written once more, by a kernel of its own.
  double copied = 0;
  for (const Operand* o : {&v.a, &v.b}) {
    if (tma_walks(*o, v.groups)) continue;
    const double line = static_cast<double>(o->contiguous()) * bytes_of(o->type);
    const double lines = static_cast<double>(v.groups) * (o->row_major() ? o->rows : o->cols);
    copied += 2 * lines * std::max(line, kShortLine);
  }
  const double copy = copied > 0 ? t.tma_launch + copied / t.tma_dram_bytes : 0;
  const double memory = v.bytes() / t.tma_dram_bytes;
  const double work_time =
      std::pow(std::pow(run, t.tma_overlap) + std::pow(memory, t.tma_overlap), 1 / t.tma_overlap);
  return t.tma_launch + t.tma_fill + (cluster > 1 ? t.tma_cluster_launch : 0) + copy + work_time;
}

}  // namespace tessera
