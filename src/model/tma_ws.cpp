#include "model/tma_ws.h"

#include <algorithm>
#include <cmath>

#include "core/tile_math.h"
#include "core/tma_ws_shape.h"

namespace tessera {
namespace {

constexpr double kWarpgroupRows = 64;
constexpr double kRowBytes = 128;         // of k in a stage
constexpr double kInstructionBytes = 32;  // of k in one wgmma
constexpr double kReferenceBlock = 128 * 256;

}  // namespace

TmaCosts::TmaCosts(const ArchSpec& a) {
  if (!a.runs(Family::tma_ws)) return;
#define TESSERA_TMA_COST(name, doc) name = a.cost(#name);
  TESSERA_TMA_COSTS(TESSERA_TMA_COST)
#undef TESSERA_TMA_COST
  for (size_t blocks = 1; blocks < served.size(); ++blocks)
    served[blocks] = std::pow(static_cast<double>(blocks), -tma_served_share);
}

namespace {

TmaFacts find_facts(const GemmView& v, const KernelConfig& c, const TmaCosts& t, const ViewMemo& memo) {
  TmaFacts f;
  f.swapped = c.swap_ab;
  const Operand right = tma_b(v);
  // Rows that TMA cannot walk are copied to where it likes them.
  const auto ragged = [&](const Operand& o) {
    const bool lines = o.leading() * bytes_of(o.type) % kTmaLine == 0 || !tma_walks(o, v.groups);
    return lines ? 1.0 : t.tma_ragged;
  };
  f.ragged_a = ragged(c.swap_ab ? right : v.a);
  f.ragged_b = ragged(c.swap_ab ? v.a : right);
  f.a_along_k = c.swap_ab ? v.b.row_stride == 1 : v.a.col_stride == 1;
  f.b_along_k = c.swap_ab ? v.a.col_stride == 1 : v.b.row_stride == 1;
  // Operands that TMA cannot walk are read and written once more, by a kernel of its own.
  double copied = 0;
  for (const Operand* o : {&v.a, &right}) {
    if (tma_walks(*o, v.groups)) continue;
    const double line = static_cast<double>(o->contiguous()) * bytes_of(o->type);
    const double lines = static_cast<double>(v.groups) * (o->row_major() ? o->rows : o->cols);
    copied += 2 * lines * std::max(line, t.tma_copy_line);
  }
  f.copy = copied > 0 ? t.tma_copy + copied / t.tma_dram_bytes : 0;
  f.memory = memo.bytes() / t.tma_dram_bytes;
  return f;
}

// What depends on how C is cut into slices, which parts of k in a cluster change.
void add_slices(const GemmView& v, const KernelConfig& c, const TmaCosts& t, bool general, TmaBlock& b) {
  const tsr::TmaWsShape shape = tma_ws_shape(v, c);
  b.slices = b.area / (kWarpgroupRows * shape.epilogue_slice());
  // Slices leave one after the other, those of a tile's warpgroups beside each other.
  const double in_a_row = shape.blocks_m() * (static_cast<double>(c.block_n) /
                                              (general ? shape.epilogue_slice() : shape.slice()));
  b.leaving = t.tma_store * b.area / kReferenceBlock + t.tma_slice * in_a_row;
}

void find_block(const GemmView& v, const KernelConfig& c, const TmaCosts& t, const TmaFacts& f, TmaBlock& b) {
  b.tiles_m = ceil_div(rows_of(v, c), c.block_m);
  b.tiles_n = ceil_div(cols_of(v, c), c.block_n);
  b.steps = ceil_div(v.k, c.block_k);
  // In rows of 128 bytes of k, of which a step has one or two.
  b.step_rows = c.block_k * bytes_of(v.a.type) / kRowBytes;
  // An instruction is bound by its arithmetic or, when narrow, by reading A and B from shared memory.
  const bool pingpong = c.wave_groups > 1;
  const double instruction = std::max(c.block_n / 2.0, t.tma_narrow + c.block_n / 4.0);
  const double slower = pingpong ? t.tma_pingpong : c.wave_m > 4 ? t.tma_cooperative : t.tma_single;
  b.math = kRowBytes / kInstructionBytes * (c.block_m / kWarpgroupRows) * instruction * slower;
  // Of an operand along k only what is there is loaded; columns that lie side by side, 64 at a time.
  const int64_t m = f.a_along_k ? std::min<int64_t>(c.block_m, round_up(rows_of(v, c), 8)) : c.block_m,
                n = f.b_along_k ? std::min<int64_t>(c.block_n, round_up(cols_of(v, c), 8))
                                : round_up(c.block_n, 64);
  b.loaded_m = static_cast<double>(m);
  b.loaded_n = static_cast<double>(n);
  b.area = static_cast<double>(c.block_m) * c.block_n;
  const bool apart = v.acc == DType::f32 && bytes_of(v.a.type) == 1;
  b.adding = apart ? t.tma_f8_step + b.area / 128 * t.tma_f8_sums : 0;
}

// ceil_div by what mostly is 1.
int64_t parts_of(int64_t x, int64_t y) { return y == 1 ? x : ceil_div(x, y); }

}  // namespace

double tma_ws_cycles(const GemmView& v, const KernelConfig& c, const ArchSpec& a, const TmaCosts& t,
                     ViewMemo& memo) {
  if (memo.tma.swapped != c.swap_ab) {
    memo.tma = find_facts(v, c, t, memo);
    memo.block.key[0] = -1;
  }
  const TmaFacts& f = memo.tma;
  const bool general = c.store == static_cast<int>(Store::direct) || !v.epilogue.empty();
  const std::array<int, 6> key = {c.block_m, c.block_n, c.block_k, c.wave_m, c.wave_groups, c.store};
  const bool other = !same_knobs(memo.block.key, key);
  if (other) {
    memo.block.key = key;
    find_block(v, c, t, f, memo.block);
  }
  if (other || memo.block.cluster_k != c.cluster_k) {
    memo.block.cluster_k = c.cluster_k;
    add_slices(v, c, t, general, memo.block);
  }
  const TmaBlock& b = memo.block;
  const int64_t sharing = int64_t{c.cluster_m} * c.cluster_n, cluster = sharing * c.cluster_k;
  const int64_t clusters_m = parts_of(b.tiles_m, c.cluster_m), clusters_n = parts_of(b.tiles_n, c.cluster_n),
                clusters = clusters_m * clusters_n;
  const int64_t work = clusters * cluster * v.groups * std::max(c.split_k, 1);
  // Multiprocessors come in groups that clusters of more than two do not divide.
  const double whole =
      a.compute_units / static_cast<double>(cluster) * (cluster > 2 ? t.tma_cluster_share : 1.0);
  const int64_t units = std::max<int64_t>(static_cast<int64_t>(whole), 1) * cluster;
  const auto rounds = static_cast<double>(ceil_div(work, units));
  const auto active = static_cast<double>(std::min(work, units));
  double steps = static_cast<double>(parts_of(b.steps, int64_t{std::max(c.split_k, 1)} * c.cluster_k));

  const bool pingpong = c.wave_groups > 1;
  const double bytes_a = b.loaded_m / c.cluster_n * kRowBytes * f.ragged_a,
               bytes_b = b.loaded_n / c.cluster_m * kRowBytes * f.ragged_b;
  const auto served = [&](int64_t blocks) {
    return t.served[std::min(static_cast<size_t>(blocks), t.served.size() - 1)];
  };
  const double from_l2 = (bytes_a * served(clusters_n) + bytes_b * served(clusters_m)) * active;
  const double load = std::max((bytes_a + bytes_b) / t.tma_unit_bytes, from_l2 / t.tma_l2_bytes) *
                      (sharing > 1 ? t.tma_cluster : 1.0);
  // One stage is being multiplied, the one before is freed only then.
  const double ahead = std::max(c.stages - t.tma_held, 0.5);
  const double step =
      std::max({b.step_rows * (b.math + b.adding) + t.tma_step, b.step_rows * load, t.tma_latency / ahead});

  // Blocks that add up parts of a tile store a share of it each.
  const double own = c.cluster_k > 1 ? std::ceil(b.slices / c.cluster_k) / b.slices : 1.0;
  const double store = own * b.leaving * (general ? t.tma_store_general : 1.0);
  const double between = pingpong ? t.tma_store_hidden * b.area / kReferenceBlock : store;
  // Steps that are dealt out come to the same for all, and most tiles in two or three parts.
  if (c.stream_k) steps = static_cast<double>(b.steps) * static_cast<double>(work) / (rounds * active);
  // What all store at the end, when nothing else is left to do.
  const double leaving = active * own * b.area * bytes_of(v.c.type) / t.tma_c_bytes;
  double run = rounds * (steps * step + between) + std::max(store, leaving) - between;
  const int parts = c.stream_k ? 3 : c.split_k;
  if (parts > 1) run += t.tma_split + own * (parts + 1) * b.area * 4 / t.tma_split_bytes;
  if (c.cluster_k > 1) run += t.tma_exchange + own * (c.cluster_k - 1) * b.area * 4 / t.tma_exchange_bytes;
  const double work_time = memo.overlapped(run, f.memory, t.tma_overlap);
  return t.tma_launch + t.tma_fill + (cluster > 1 ? t.tma_cluster_launch : 0) + f.copy + work_time;
}

}  // namespace tessera
