#include "core/winograd_shape.h"

#include <algorithm>

#include "core/cache_line.h"
#include "core/caches.h"
#include "core/tile_math.h"

namespace tessera {
namespace {

// Groups whose neighbouring channels fill vectors best, the fewest that do: `read` and `left` of each.
int64_t groups_at_once(const GemmView& v, int64_t read, int64_t left, int64_t lanes) {
  constexpr int64_t kMost = 4;
  int64_t best = 1, best_vectors = 0;
  for (int64_t g = 1; g <= std::min(v.groups, kMost); ++g) {
    if (v.groups % g != 0 && g > 1) continue;  // blocks of one size
    const int64_t vectors = (ceil_div(g * read, lanes) + ceil_div(g * left, lanes)) * (12 / g);
    if (g > 1 && vectors >= best_vectors) continue;
    best = g;
    best_vectors = vectors;
  }
  return best;
}

// `turned`: or walks its filter backwards.
bool is_filtered(const Window& window, bool turned) {
  const auto fits = [&](const WindowAxis& x) {
    return x.step == 1 && x.divide == 1 &&
           (x.taps == 1 || (x.taps == 3 && (x.spread == 1 || (turned && x.spread == -1))));
  };
  return std::all_of(window.axes.begin(), window.axes.end(), fits) &&
         std::any_of(window.axes.begin(), window.axes.end(), [](const WindowAxis& x) { return x.taps == 3; });
}

}  // namespace

bool winograd_window(const GemmView& v) { return v.window && v.a.patches && is_filtered(*v.window, true); }
bool winograd_weight_window(const GemmView& v) {
  return v.window && v.b.patches && is_filtered(*v.window, false);
}

std::array<int64_t, ConvShape::kAxes> winograd_tiles(const Window& window) {
  std::array<int64_t, ConvShape::kAxes> out{};
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = ceil_div(window.axes[i].positions, winograd_results(window.axes[i].taps));
  return out;
}

int64_t winograd_points(const Window& window) {
  int64_t out = 1;
  for (const WindowAxis& x : window.axes) out *= winograd_points(x.taps);
  return out;
}

WinogradShape winograd_shape(const GemmView& v, const KernelConfig& c) {
  WinogradShape s{};
  s.points = winograd_points(*v.window);
  s.tiles = winograd_tiles(*v.window);
  s.results = s.image_tiles = 1;
  for (size_t i = 0; i < s.tiles.size(); ++i) {
    s.results *= winograd_results(v.window->axes[i].taps);
    s.image_tiles *= s.tiles[i];
  }
  s.all_tiles = v.window->images * s.image_tiles;
  s.channels = v.window->channels;
  const int64_t columns = std::max(c.tile_n, 1);
  s.panels = ceil_div(v.n, columns);
  s.point_bytes = odd_lines(s.channels * columns * 4);
  s.panel_bytes = s.points * s.point_bytes;
  const int64_t lanes = std::max(c.inst_n, 1);
  s.groups_at_once = s.panels > 1 ? 1 : groups_at_once(v, s.channels, v.n, lanes);
  s.tile_row = odd_lines(s.groups_at_once * s.channels * 4);
  s.sums_row = std::max(columns, (s.groups_at_once - 1) * v.n + round_up(v.n, lanes)) * 4;
  return s;
}

int64_t winograd_shares(const GemmView& v, const WinogradShape& s, const KernelConfig& c, const ArchSpec& a,
                        int threads) {
  const bool kept = v.b_prepacked || s.panels * s.panel_bytes <= kMostWinogradPanels;
  if (v.groups > s.groups_at_once || !kept) return 1;
  // Cycles of a product, of an element of a tile to be transformed, and of one of the filter to be read by
  // the thread that transformed it.
  constexpr double kProduct = 1.0 / 32, kTransform = 0.4, kOwn = 0.1;
  int64_t best = 1;
  double least = 0;
  for (int64_t shares = 1; shares <= std::min<int64_t>(threads, s.panels); ++shares) {
    const int64_t blocks = std::min(ceil_div(threads, shares), s.all_tiles);
    const double rounds = static_cast<double>(ceil_div(shares * blocks, threads)),
                 tiles = static_cast<double>(round_up(ceil_div(s.all_tiles, blocks), c.tile_m)),
                 columns = static_cast<double>(ceil_div(s.panels, shares) * c.tile_n);
    const double cost = rounds * (tiles * columns * kProduct + tiles * kTransform +
                                  columns * (blocks > 1 || v.b_prepacked ? cycles_of_others(a) : kOwn));
    if (least == 0 || cost < least) {
      best = shares;
      least = cost;
    }
  }
  return best;
}

WinogradWeightShape winograd_weight_shape(const GemmView& v, const KernelConfig& c) {
  WinogradWeightShape s{};
  const Window& window = *v.window;
  s.points = winograd_points(window);
  s.tiles = winograd_tiles(window);
  s.all_tiles = window.images * s.tiles[0] * s.tiles[1] * s.tiles[2];
  s.rows = v.m;
  s.channels = window.channels;
  const int64_t lanes = std::max(c.inst_n, 1), columns = std::max(c.tile_n, 1);
  s.groups_at_once = groups_at_once(v, s.channels, s.rows, lanes);
  // Whole vectors of the last group, and of dY as many rows as a tile has, are read.
  const auto row_of = [&](int64_t channels, int64_t least) {
    return odd_lines(((s.groups_at_once - 1) * channels + round_up(std::max(channels, least), lanes)) * 4);
  };
  s.left_row = row_of(s.rows, c.tile_m);
  s.right_row = row_of(s.channels, 1);
  s.sums_row = odd_lines(s.channels * 4);
  s.sums_point = s.rows * s.sums_row;
  s.panels = ceil_div(s.channels, columns);
  return s;
}

// Sums that each thread keeps in L2, and fewer in all than what threads that share a block would read of what
// others have transformed.
WinogradWeightTurns winograd_weight_turns(const GemmView& v, const WinogradWeightShape& s,
                                          const KernelConfig& c, const ArchSpec& a, int threads) {
  constexpr int64_t kMostApart = int64_t{40} << 20;
  const int64_t turns = v.groups / s.groups_at_once, sums = s.sums_bytes(),
                blocks = ceil_div(s.all_tiles, std::max(c.block_m, 1));
  if (threads * s.tile_bytes() > kMostWinogradTiles) return {turns, 1, threads > 1};
  if (turns >= threads) return {turns, 1, threads > 1 && threads * sums > kMostApart};
  const int64_t parts = std::min(balanced_pieces(turns, threads), blocks), apart = turns * parts * sums;
  const bool pays = sums <= a.l2.bytes * 3 / 4 && apart <= turns * s.all_tiles * s.tile_bytes();
  if (parts > 1 && pays && apart <= kMostApart) return {turns, parts, false};
  return {turns, 1, threads > 1};
}

}  // namespace tessera
