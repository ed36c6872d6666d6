#include "backend/cpu/packed_plan.h"

#include <algorithm>

#include "backend/cpu/pack.h"
#include "backend/cpu/streamed_rows.h"
#include "core/cache_line.h"
#include "core/caches.h"
#include "core/packed_shape.h"

namespace tessera {
namespace {

// Bounds of what a thread keeps: packed B of a block, sums between blocks of k.
constexpr int64_t kMostPackedB = int64_t{8} << 20, kMostSums = int64_t{8} << 20;
// Bytes of a table of where patches lie: it is read beside A and B.
constexpr int64_t kMostTable = 65536;
// Rows of C, each on its own page, that the TLB holds beside A and B; bytes of C that stay in L1.
constexpr int64_t kRowsAtHand = 32, kRowBytesAtHand = 32768;

// Of k, done before the first line of C would be there that was fetched at their beginning.
constexpr int64_t kFewSteps = 64;

// Dot products of 16-bit pairs that the processor has under way at a time.
constexpr int kSumsInFlight = 12;

// Rows of C that are worth packing B for once more.
constexpr int64_t kRowsWorthPacking = 128;

int64_t blocks(int64_t extent, int64_t block) { return ceil_div(std::max<int64_t>(extent, 1), block); }

}  // namespace

PackedPlan::PackedPlan(const GemmView& view, const KernelConfig& config, const Instruction& inst,
                       const ArchSpec& arch, int threads, bool flip)
    : group(inst.k),
      tile_m(config.tile_m),
      tile_n(config.tile_n),
      edge_words(words_at_edge(view, config, arch)),
      edge(columns_apart(view, config, arch)),
      n(view.n - edge),
      flip_a(flip),
      taps_in_place(view.a.patches && !config.pack_a),
      b_in_place(!config.pack_b),
      by_blocks(shares_lines(view)),
      copies_b(!view.b_prepacked && (!b_in_place || n % tile_n != 0)) {
  all_rows = packs_all_rows(view);
  odd_words = odd_words_in_place(view, config, arch);
  pack_a = !taps_in_place && !odd_words && (config.pack_a || flip_a || !a_fits_in_place(view, inst));
  make_tasks(view, config.split_k, arch, threads);
  for (const PackedTask& t : tasks) {
    most_m = std::max(most_m, t.m1 - t.m0);
    most_n = std::max(most_n, t.n1 - t.n0);
    most_k = std::max(most_k, t.k1 - t.k0);
  }
  far_c = how_far_c(view, arch);
  choose_depth(view, config);
  far_b = past_caches(view.b.extent * bytes_of(view.b.type), arch);
  fetches_b = fetch_pays(view, arch);
  buffers_c = buffer_pays(view, config, inst, arch);
  fetches_a = far_a(view, arch);
  evens = inst.name == "dpbf16" && inst.n == kLanes && tile_m < kSumsInFlight && tile_n > 2 * kLanes &&
          copies_b && !b_in_place && !by_blocks && !buffers_c;
  few_registers = arch.vector_registers <= 16;
  choose_rows(view, config, arch);
  choose_cols(view, config, arch);
  strip = cols;
  if (by_blocks && blocks(most_m, rows) == 1)
    strip = std::min(cols, std::max<int64_t>(arch.l2.bytes / 2 / panel_b(depth), 1) * tile_n);
  count_bytes(view, config.split_k);
  one_block = tasks.size() == 1 && !pack_a && !copies_b && most_k <= depth && !view.c_rows &&
              edge_bytes + a_table_bytes + a_rest_bytes + c_bytes + part_bytes == 0;
}

// Rows of B that several panels take parts of, or so much of that a panel's part is a run of lines; of
// patches, which lie close to one another, much is worked out for all panels at once.
bool PackedPlan::shares_lines(const GemmView& view) const {
  const int size = bytes_of(view.b.type);
  return view.b.row_major() && view.b.row_stride != 1 && !view.b_prepacked && !flip_a &&
         (view.b.patches || size == 4 || tile_n * size < kCacheLine);
}

// Whether the kernel can take its words of A from where they lie: 32-bit words of whole k groups, a whole
// tile of rows.
bool PackedPlan::a_fits_in_place(const GemmView& view, const Instruction& inst) const {
  if (view.m < tile_m || !view.a.plain()) return false;
  if (group == 1) return view.a.type == DType::f32;
  return compute_type(view.a.type, inst) == view.a.type && bytes_of(view.a.type) * group == 4 &&
         view.a.row_major() && view.k % group == 0;
}

// Columns of B side by side in memory, each as long as a block of k, that are not in L2 when they are packed,
// and a panel of them small beside what is kept there.
bool PackedPlan::fetch_pays(const GemmView& view, const ArchSpec& arch) const {
  const Operand& b = view.b;
  const int64_t column = b.col_stride * bytes_of(b.type);
  return copies_b && !b_in_place && b.plain() && b.row_stride == 1 && b.col_stride < 2 * depth &&
         column * view.n > arch.l2.bytes / 2 && column * tile_n <= arch.l2.bytes / 8;
}

// Rows of A side by side in memory, so many that they come from beyond the caches, or nearly so, and each
// used for few panels.
bool PackedPlan::far_a(const GemmView& view, const ArchSpec& arch) const {
  const Operand& a = view.a;
  return a.plain() && a.row_major() && a.row_stride < 2 * depth && most_n <= 4 * tile_n &&
         most_m * a.row_stride * bytes_of(a.type) > arch.l3.bytes / 8;
}

// C is far beyond L2. What is left of it in half of the last-level cache is not worth reading its lines
// before they are written. Else they are asked for where a row tile's are no run that the processor sees
// coming: more panels than one, or narrow rows amid those of other groups, or rows of one strided part. Of
// tiles of few steps several are under way at a time, and the stores of one wait while others multiply: to
// fetch for the next would come no earlier, unless the last-level cache is slow.
tsr::FarC PackedPlan::how_far_c(const GemmView& view, const ArchSpec& arch) const {
  const bool scattered = view.c_rows || (n <= tile_n && view.groups > 1 && view.c.row_stride > view.n);
  const int64_t row = view.c.row_stride * bytes_of(view.c.type), bytes = row * (scattered ? view.m : most_m);
  if (bytes <= arch.l2.bytes) return tsr::kFarIgnored;
  if (scattered) return tsr::kFarFetched;
  const bool past = c_past_caches(view, arch);
  if (past && row % kCacheLine == 0) return tsr::kFarStreamed;
  if (n <= tile_n) return tsr::kFarIgnored;
  const bool soon = most_k <= kFewSteps * group && last_level_is_fast(arch);
  return soon && !past ? tsr::kFarIgnored : tsr::kFarFetched;
}

// A core's share of the last-level cache holds twice as much while others leave theirs.
bool PackedPlan::c_past_caches(const GemmView& view, const ArchSpec& arch) const {
  const int64_t bytes = most_m * view.c.row_stride * bytes_of(view.c.type);
  return past_caches(bytes, arch) || bytes > 2 * own_last_level(arch);
}

// Rows of such a C that are no lines: lines would be read before parts of them are written, for longer than
// its elements are computed. To move what was computed apart costs about as much for one line as for three.
bool PackedPlan::buffer_pays(const GemmView& view, const KernelConfig& config, const Instruction& inst,
                             const ArchSpec& arch) const {
  const double k = static_cast<double>(most_k), size = bytes_of(view.c.type);
  const int64_t lines = tile_n * bytes_of(view.c.type) / kCacheLine;  // of a panel's row
  const double worth = static_cast<double>(std::min<int64_t>(lines, 3)) / 2;
  return k * arch.dram.bytes_per_cycle < worth * size * inst.flops_per_cycle && far_c == tsr::kFarFetched &&
         c_past_caches(view, arch) && !view.c_rows && most_n > tile_n &&
         view.c.row_stride * bytes_of(view.c.type) % kCacheLine != 0 && arch.vector_bits == 512 &&
         config.split_k == 1 && config.block_m == 0 && depth >= most_k && !b_in_place &&
         panel_b(depth) * ceil_div(most_n, tile_n) <= arch.l2.bytes * 3 / 4;
}

// The grid of pieces that costs the slowest thread least. Packing an element costs about as much as kPackCost
// multiply-adds, reading it where it lies half of that; every piece does so for itself. Smaller pieces, of
// which threads take some each, are worth it where these come out more even.
PackedPlan::Grid PackedPlan::choose_grid(const GemmView& view, int64_t others, int64_t threads) const {
  constexpr double kPackCost = 8, kReadCost = 4, kWorth = 0.85;
  constexpr int64_t kMostRounds = 8;
  const int64_t most_tiles = std::max<int64_t>(view.m / tile_m, 1), panels = ceil_div(n, tile_n);
  const auto cost = [&](const Grid& grid) {
    const double height = static_cast<double>(round_up(ceil_div(view.m, grid.m), tile_m)),
                 width = static_cast<double>(ceil_div(panels, grid.n) * tile_n);
    return static_cast<double>(ceil_div(others * grid.m * grid.n, threads)) *
           (height * width + (view.b_prepacked ? kReadCost : kPackCost) * width +
            (pack_a ? kPackCost : kReadCost) * height);
  };
  Grid best{1, 1};
  double worth = cost(best);
  for (int64_t rounds = 1; rounds <= kMostRounds; ++rounds) {
    Grid of_rounds = best;
    const int64_t pieces = threads * rounds / others;
    for (int64_t m = 1; m <= std::min(pieces, most_tiles); ++m) {
      const Grid grid{m, std::min(pieces / m, panels)};
      if (cost(grid) < cost(of_rounds)) of_rounds = grid;
    }
    if (cost(of_rounds) < worth) {
      best = of_rounds;
      worth = kWorth * cost(best);
    }
  }
  return best;
}

// Groups of patches share lines of memory, of A and of C. They take their turns over so many rows at a time
// that these lines stay in L2, and so do strided parts, whose pieces of rows are therefore as many.
int64_t PackedPlan::row_pieces(const GemmView& view, const ArchSpec& arch) const {
  const int64_t pixel = view.a.patches ? view.window->channels * bytes_of(view.a.type) : 0;
  if (view.groups == 1 || pixel % kCacheLine == 0 || pixel > 2 * kCacheLine) return 1;
  int64_t all = view.m, least = view.m;  // rows of C, and about those of a part
  if (view.c_rows) {
    all = least = view.window->images;
    for (size_t i = 0; i < ConvShape::kAxes; ++i) {
      all *= view.c_rows->whole[i];
      least *= view.c_rows->whole[i] / view.c_rows->step[i];
    }
  }
  const int64_t bytes =
      view.a.extent * bytes_of(view.a.type) + all * view.groups * view.n * bytes_of(view.c.type);
  return std::clamp<int64_t>(least / kRowsWorthPacking, 1, blocks(bytes, arch.l2.bytes / 2));
}

void PackedPlan::make_tasks(const GemmView& view, int split_k, const ArchSpec& arch, int threads) {
  const int64_t parts = std::max<int64_t>(std::min<int64_t>(split_k, ceil_div(view.k, group)), 1);
  const Grid grid = threads > 1 ? choose_grid(view, view.groups * parts, threads) : Grid{1, 1};
  grid_m = std::max(grid.m, row_pieces(view, arch));
  const int64_t panels = ceil_div(n, tile_n), steps = ceil_div(view.k, group);
  for (int64_t i = 0; i < grid_m; ++i) {
    for (int64_t g = 0; g < view.groups; ++g) {
      for (int64_t p = 0; p < parts; ++p) {
        for (int64_t j = 0; j < grid.n; ++j) {
          tasks.push_back({g, view.m * i / grid_m, view.m * (i + 1) / grid_m, panels * j / grid.n * tile_n,
                           std::min(panels * (j + 1) / grid.n * tile_n, n), steps * p / parts * group,
                           std::min(steps * (p + 1) / parts * group, view.k), static_cast<int>(p)});
        }
      }
    }
  }
}

// Whole k groups, of patches in place whole taps.
void PackedPlan::choose_depth(const GemmView& view, const KernelConfig& c) {
  const int64_t k = std::max<int64_t>(most_k, 1);
  depth = round_up(k, group);
  if (c.block_k > 0) {
    depth = std::min<int64_t>(round_up(c.block_k, group), depth);
  } else if (b_in_place) {
    if (view.b.row_stride * 4 >= kPageBytes / 4) depth = std::min(depth, kInPlaceDepth);
  } else if (!view.b_prepacked) {  // a panel of a very deep B
    const int64_t most = kMostPackedB / (tile_n * 4) * group;
    depth = std::min(depth, round_up(ceil_div(k, ceil_div(k, most)), group));
  }
  if (taps_in_place) depth = std::max<int64_t>(depth / view.window->channels, 1) * view.window->channels;
}

// Whole tiles; where the config leaves it open, so that a block of A stays in three quarters of L2 while the
// panels of B pass over it, or in a third of that between the only panel and the columns past it, or while
// the next block is fetched.
void PackedPlan::choose_rows(const GemmView& view, const KernelConfig& c, const ArchSpec& arch) {
  rows = round_up(c.block_m > 0 ? c.block_m : most_m, tile_m);
  if (taps_in_place) {
    rows = std::min(rows, std::max<int64_t>(kMostTable / table_row_bytes(view) / tile_m, 1) * tile_m);
  }
  if (c.block_m == 0 && (pack_a || most_n > tile_n || edge > 0 || fetches_a)) {
    const int64_t kept = arch.l2.bytes * 3 / 4 / ((edge > 0 || fetches_a) && most_n <= tile_n ? 3 : 1);
    const int64_t fit = kept / (ceil_div(depth, group) * 4) / tile_m * tile_m;
    rows = std::min(rows, std::max<int64_t>(fit, tile_m));
  }
  // Where all of packed B stays in L2, few rows at a time: a row of C that is not in L2, or lies on pages
  // of its own, is then written while its lines and pages are at hand.
  const int64_t c_row = view.c.row_stride * bytes_of(view.c.type);
  const bool far_rows = c_row >= kPageBytes || (far_c != tsr::kFarIgnored && most_n > tile_n);
  if (c.block_m == 0 && far_rows && !b_in_place && depth >= most_k &&
      panel_b(depth) * ceil_div(most_n, tile_n) <= arch.l2.bytes * 3 / 4) {
    // Of rows side by side in memory whole lines.
    const int64_t in_line = view.a.row_major() ? 1 : kCacheLine / bytes_of(view.a.type) + tile_m - 1;
    const int64_t at_hand = std::max({kRowsAtHand, kRowBytesAtHand / std::max<int64_t>(c_row, 1), in_line});
    rows = std::min(rows, std::max(at_hand / tile_m, int64_t{1}) * tile_m);
  }
  rows = round_up(ceil_div(most_m, blocks(most_m, rows)), tile_m);  // blocks of equal size
}

// Whole panels; where the config leaves it open, one, used as soon as it is packed, as many as stay in L2
// where lines of memory run across panels, and all within the bounds above where they serve several blocks.
void PackedPlan::choose_cols(const GemmView& view, const KernelConfig& c, const ArchSpec& arch) {
  cols = round_up(most_n, tile_n);
  if (c.block_n > 0) {
    cols = std::min(cols, round_up(c.block_n, tile_n));
    return;
  }
  const bool one_row_block = blocks(most_m, rows) == 1;
  if (one_row_block && !pack_a) {
    const int64_t panels = by_blocks ? arch.l2.bytes / 2 / panel_b(depth) : 1;
    cols = std::min(cols, std::max<int64_t>(panels, 1) * tile_n);
  }
  if (!one_row_block && !view.b_prepacked) {
    cols = std::min(cols, std::max<int64_t>(kMostPackedB / panel_b(depth), 1) * tile_n);
  }
  if (blocks(most_k, depth) > 1) {
    cols = std::min(cols, std::max<int64_t>(kMostSums / (most_m * 4) / tile_n * tile_n, tile_n));
  }
}

void PackedPlan::count_bytes(const GemmView& view, int split_k) {
  auto lines = [](int64_t bytes) { return round_up(bytes, kCacheLine); };
  if (pack_a) {
    a_bytes = lines(view.a.row_major() ? most_rows() * a_row_bytes(depth)
                    : all_rows         ? ceil_div(depth, group) * a_step_bytes()
                                       : ceil_div(most_rows(), tile_m) * a_panel_bytes(depth));
  }
  if (copies_b) b_bytes = lines(panel_b(depth) * (keeps_b(most_m) ? strip / tile_n : 1));
  if (most_k > depth && split_k == 1) sums_bytes = lines(most_m * cols * 4);
  if (view.c_rows) c_table_bytes = lines(most_rows() * static_cast<int64_t>(sizeof(long long)));
  if (edge > 0 && view.b.row_stride != 1 && !view.b_prepacked)
    edge_bytes = lines(edge * view.k * bytes_of(view.b.type));
  if (taps_in_place) a_table_bytes = lines(most_rows() * table_row_bytes(view));
  if (odd_words && view.k % group != 0) a_rest_bytes = lines(most_rows() * 4);
  if (buffers_c) c_bytes = lines(most_rows() * StreamedRows::row_bytes(view, tile_n));
  if (split_k > 1) part_bytes = thread_share(view.m * round_up(view.n, tile_n) * 4);
}

int64_t PackedPlan::panel_b(int64_t k) const {
  return static_cast<int64_t>(panel_bytes({k, tile_n, tile_n, flip_a}, group));
}

int64_t PackedPlan::a_row_bytes(int64_t k) const {
  const int64_t bytes = ceil_div(k, group) * 4;
  // Rows a page apart would share few cache sets.
  return bytes % kPageBytes == 0 ? bytes + kCacheLine : bytes;
}

int64_t PackedPlan::a_panel_bytes(int64_t k) const {
  return static_cast<int64_t>(panel_bytes({k, tile_m, tile_m, false}, group));
}

// What the taps of a row of patches take in the table of where they lie.
int64_t PackedPlan::table_row_bytes(const GemmView& view) const {
  return depth / view.window->channels * static_cast<int64_t>(sizeof(char*));
}

}  // namespace tessera
