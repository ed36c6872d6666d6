#include "backend/cpu/amx_plan.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "backend/cpu/tile_configuration.h"
#include "core/cache_line.h"
#include "core/caches.h"

namespace tessera {
namespace {

// The resident operand has at least this many lanes, so that the other one, streaming from beyond L2, meets
// enough multiplications per byte.
constexpr int64_t kLeastLanes = 256;
constexpr int64_t kMostKeptSums = int64_t{16} << 20;
// Packed right operand that several row blocks read, and a group of panels packed together for one row block.
constexpr int64_t kBlockBytes = int64_t{4} << 20, kGroupBytes = int64_t{256} << 10;
constexpr int64_t kShallowRows = 128;
// Columns of a block of tiles that multiplies as many tiles as it loads, or more.
constexpr int kLeastWide = 32;
// A row block that all panels pass stays in a third of L1.
constexpr int64_t kRowBlockBytes = int64_t{16} << 10;
// Panels that pass a row block, for copying its rows to be worth it.
constexpr int64_t kLeastPanels = 4;

// Whether some set of L1 gets more lines than it has ways, of `rows` so far apart and as many bytes of each.
bool crowds_sets(int64_t rows, int64_t apart, int64_t bytes, const ArchSpec& arch) {
  constexpr int64_t kSets = kPageBytes / kCacheLine;
  std::array<int64_t, kSets> lines{};
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t line = 0; line < bytes / kCacheLine; ++line)
      ++lines[static_cast<size_t>((row * apart / kCacheLine + line) % kSets)];
  }
  return *std::max_element(lines.begin(), lines.end()) > arch.l1.bytes / kPageBytes;
}
// Rows of which every step lies in two lines.
bool splits_lines(int64_t row_bytes) { return row_bytes % kCacheLine != 0; }

}  // namespace

bool streams_c(const GemmView& view, const KernelConfig& config, const ArchSpec& arch) {
  const Operand& c = view.c;
  const int64_t size = bytes_of(c.type);
  return c.type == DType::bf16 && view.epilogue.empty() && !config.swap_ab &&
         result_past_caches(view, arch) && c.row_stride * size % kCacheLine == 0 &&
         c.group_stride * size % kCacheLine == 0 && config.tile_n * size % kCacheLine == 0;
}

tsr::FarC far_c(bool streams, const void* c) {
  return streams && reinterpret_cast<uintptr_t>(c) % kCacheLine == 0 ? tsr::kFarStreamed : tsr::kFarIgnored;
}

AmxPlan::AmxPlan(const GemmView& view, const KernelConfig& config, const Instruction& inst,
                 const ArchSpec& arch, int threads)
    : swap(config.swap_ab),
      left{view.a.type, view.a.col_stride, view.a.row_stride, view.a.group_stride},
      right{view.b.type, view.b.row_stride, view.b.col_stride, view.b.group_stride},
      rows(view.m),
      cols(view.n),
      k(view.k),
      group(bytes_of(view.a.type) == 1 && !info(view.a.type).is_float ? 4 : 2),
      step(inst.k),
      tile_m(config.tile_m),
      tile_n(config.tile_n) {
  if (swap) {
    std::swap(left, right);
    std::swap(rows, cols);
  }
  choose_blocks(view, config, arch, threads);
  for (const AmxPiece& p : thread_pieces(view, config, threads)) {
    for (int64_t row = p.row0; row < p.row1; row += most_rows())
      pieces.push_back({row, std::min(row + most_rows(), p.row1), p.col0, p.col1});
  }

  sums_bytes =
      std::max(sums_stride() * panels() * (deep() ? ceil_div(std::min(rows, most_rows()), block_rows) : 1),
               2 * int64_t{tile_m} * tile_n * 4);
  // Packed: all of a row block. In place: the last row tile, and the tails of k.
  const int64_t tiles = ceil_div(block_rows, 16), steps = steps_of(depth);
  left_bytes = view.a.patches ? round_up(block_rows, 16) * patch_stride(depth)
                              : (config.pack_a ? tiles * steps : steps + tiles) * kTileBytes;
  copy_bytes = copies_left ? tiles * steps * kTileBytes : 0;
  right_bytes = view.b_prepacked ? 0 : panel_bytes_of(depth) * panels();
  table_bytes = view.c_rows ? round_up(block_rows * static_cast<int64_t>(sizeof(long long)), 64) : 0;
}

int64_t AmxPlan::sums_stride() const { return round_up(block_rows, 16) * tile_n * 4; }

int64_t AmxPlan::most_rows() const {
  return deep() ? std::max<int64_t>(kMostKeptSums / (sums_stride() * panels()), 1) * block_rows : rows;
}

// A block of one operand is resident: it stays in a quarter of L2 while the other operand streams past in
// blocks that stay in L1, chunk by chunk of k, and what is read once for each of those blocks passes L1 by.
// That is the right one, since C is then written along its rows; but a left operand that has to be packed
// would be packed again for every block of it. Where a wide right one meets many rows half of L2 serves, if
// the other half does not belong to another hyper-thread. block_n and block_m of the config set the extent of
// a resident right and left block.
void AmxPlan::choose_blocks(const GemmView& view, const KernelConfig& config, const ArchSpec& arch,
                            int threads) {
  const int64_t all = std::max<int64_t>(k, 1);
  int64_t cache = arch.l2.bytes / 4;
  // A row-major right operand that few rows use is packed in shallow blocks: long runs of its rows, and
  // with those the packing goes at the speed of memory.
  const bool shallow = !view.b_prepacked && right.k_stride != 1 && rows <= kShallowRows &&
                       config.block_m == 0 && config.block_n == 0;
  const bool one_block = cols * round_up(all, step) * 64 <= cache * step;
  const int64_t size = bytes_of(right.type);
  far_right = all * cols * size > arch.l2.bytes && right.k_stride * size >= kPageBytes;
  // Panels from beyond L2 that few rows use are read as they lie in memory, one behind the other.
  fetches_right = view.b_prepacked && packed_group_bytes() > arch.l2.bytes;
  const bool few =
      fetches_right && rows <= kShallowRows && (rows % 16 == 0 || overlaps(rows)) && tile_n >= kLeastWide;
  // One block of packed rows stays in L1 while panels from L2 pass.
  const bool one_row_block = config.pack_a && view.b_prepacked && !fetches_right && rows <= tile_m;
  right_resident =
      config.block_n > 0 ||
      (config.block_m == 0 && (shallow || one_block || one_row_block || (!config.pack_a && !few)));
  const bool many = right_resident && rows > kShallowRows && cols >= kLeastLanes && tile_n >= kLeastWide;
  if (many && threads == 1) cache *= 2;
  const int64_t lanes = right_resident ? cols : rows, unit = right_resident ? tile_n : tile_m;
  const int64_t least = std::clamp<int64_t>(round_up(lanes, 16), 16, kLeastLanes);
  const int64_t deepest = std::max<int64_t>(cache / (least * 64), 1) * step;
  depth = config.block_k > 0 ? round_up(config.block_k, step) : deepest;
  if (shallow && config.block_k == 0) depth = step * (rows <= kShallowRows / 4 ? 4 : 8) / (far_right ? 2 : 1);
  depth = ceil_div(all, ceil_div(all, depth));
  depth = std::min(round_up(depth, step), round_up(all, step));
  const int64_t steps = depth / step;
  int64_t block = right_resident ? config.block_n : config.block_m;
  if (block == 0) block = std::max<int64_t>(cache / (steps * 64), unit);
  block = round_up(ceil_div(lanes, ceil_div(lanes, round_up(block, unit))), unit);  // blocks of equal size

  const int64_t panel = panel_bytes_of(depth), row_bytes = left.lane_stride * bytes_of(left.type);
  const bool far = rows * row_bytes > cache;
  if (right_resident) {
    block_cols = block;
    block_rows = std::max<int64_t>(kRowBlockBytes / (steps * 64) / tile_m, 1) * tile_m;
    prefetch = !config.pack_a && !view.a.patches && far && block_rows == tile_m;
  } else {
    block_rows = block;
    const int64_t bytes = rows <= block_rows ? kGroupBytes : kBlockBytes;
    block_cols = std::max<int64_t>(bytes / panel, 1) * tile_n;
  }
  block_rows = std::min(block_rows, round_up(rows, 16));
  block_cols = std::min(block_cols, round_up(cols, tile_n));
  if (!right_resident) {
    if (block_rows > tile_m) passing = tsr::kLeftPasses;
  } else if (block_rows == tile_m) {
    if (block_cols > tile_n)
      passing = tsr::kRightPasses;
    else if (far && panel <= arch.l1.bytes * 3 / 4)
      passing = tsr::kLeftPasses;
  }
  const int64_t kept = passing == tsr::kRightPasses  ? tile_m
                       : passing == tsr::kLeftPasses ? tile_n
                                                     : tile_m + tile_n;
  chunk_steps = std::max<int64_t>(arch.l1.bytes * 3 / 4 / (kept * 64), 1);
  copies_left = right_resident && !config.pack_a && !view.a.patches && panels() >= kLeastPanels &&
                (crowds_sets(block_rows, row_bytes, std::min(chunk_steps, steps) * 64, arch) ||
                 (many && splits_lines(row_bytes)));
  // Rows of a block are one run of memory as far as its columns are theirs.
  fetches_c = right_resident && !swap && !view.c_rows && block_cols * 2 > view.c.row_stride &&
              view.bytes() > static_cast<double>(arch.l2.bytes);
}

std::vector<AmxPiece> AmxPlan::thread_pieces(const GemmView& view, const KernelConfig& config,
                                             int threads) const {
  const int64_t row_tiles = ceil_div(rows, tile_m), col_tiles = ceil_div(cols, tile_n);
  if (threads == 1 || view.groups >= threads) return {{0, rows, 0, cols}};
  const auto [down, across] = thread_grid(config.pack_a || view.a.patches, !view.b_prepacked, threads);
  std::vector<AmxPiece> out;
  for (int64_t r = 0; r < down; ++r) {
    for (int64_t c = 0; c < across; ++c) {
      out.push_back({row_tiles * r / down * tile_m, std::min(row_tiles * (r + 1) / down * tile_m, rows),
                     col_tiles * c / across * tile_n, std::min(col_tiles * (c + 1) / across * tile_n, cols)});
    }
  }
  return out;
}

// Pieces, rows by columns, each of which reads and packs what it needs for itself: those of which the largest
// takes least. In cycles of a step of k: tiles that are multiplied, tiles that are read where they lie, tiles
// that are packed, and tiles of the left operand that k runs across, which are turned.
std::pair<int64_t, int64_t> AmxPlan::thread_grid(bool packs_left, bool packs_right, int threads) const {
  constexpr int64_t kMultiplied = 20, kRead = 20, kPacked = 100, kTurned = 400;
  const int64_t left_cost = !packs_left          ? kRead
                            : left.k_stride == 1 ? kPacked
                                                 : kTurned,
                right_cost = packs_right ? kPacked : kRead;
  const int64_t row_tiles = ceil_div(rows, tile_m), col_tiles = ceil_div(cols, tile_n);
  std::pair<int64_t, int64_t> best;
  int64_t least = 0;
  for (int64_t across = 1; across <= std::min<int64_t>(threads, col_tiles); ++across) {
    const int64_t down = std::min<int64_t>(threads / across, row_tiles);
    const int64_t high = ceil_div(row_tiles, down) * tile_m / 16,
                  wide = ceil_div(col_tiles, across) * tile_n / 16;
    const int64_t cycles = high * wide * kMultiplied + high * left_cost + wide * right_cost;
    if (across == 1 || cycles < least) {
      least = cycles;
      best = {down, across};
    }
  }
  return best;
}

}  // namespace tessera
