// How cpu_winograd and cpu_winograd_weight see a convolution. Known to their rules, source, drivers, models
// and the reference alike.
#pragma once

#include <array>

#include "core/arch_spec.h"
#include "core/gemm_view.h"
#include "tessera/kernel_config.h"

namespace tessera {

// Results of a tile along an axis, and the coordinates they come from: one for each product of F(2,3).
constexpr int64_t winograd_results(int64_t taps) { return taps > 1 ? 2 : 1; }
constexpr int64_t winograd_points(int64_t taps) { return taps > 1 ? 4 : 1; }

// Bytes of the transformed filter that are kept at a time: of one panel at least.
constexpr int64_t kMostWinogradPanels = int64_t{32} << 20;

// Tiles along each axis of an image.
std::array<int64_t, ConvShape::kAxes> winograd_tiles(const Window& window);

// Products of a tile, for each channel and column.
int64_t winograd_points(const Window& window);

struct WinogradShape {
  std::array<int64_t, ConvShape::kAxes> tiles;  // along each axis of an image
  int64_t points;                               // winograd_points()
  int64_t results;                              // of a tile
  int64_t image_tiles, all_tiles;               // of one image, of all
  int64_t panels;                               // of columns, of one group
  int64_t channels;                             // summed over, of one group
  int64_t groups_at_once;                       // neighbours, that fill vectors better than one alone
  // Of one panel of the transformed filter, and of a point of it: odd lines.
  int64_t point_bytes, panel_bytes;
  // The same of a row of transformed tiles, and of one of sums: of all groups at once, in one panel.
  int64_t tile_row, sums_row;
  int64_t tile_bytes() const { return points * (tile_row + sums_row); }
};

// Whether this is a convolution that the family computes: see its rules.
bool winograd_window(const GemmView& v);

// `v` must fulfil winograd_window(), and `c` have a tile.
WinogradShape winograd_shape(const GemmView& v, const KernelConfig& c);

// Shares of the panels that threads take, each with its tiles: threads with a share of them read less of the
// filter, and transform the same tiles as others do. 1 with several turns, or panels that are not all kept.
int64_t winograd_shares(const GemmView& v, const WinogradShape& s, const KernelConfig& c, const ArchSpec& a,
                        int threads);

// Bytes of the sums of cpu_winograd_weight, and of the tiles that all threads have transformed, at most.
constexpr int64_t kMostWinogradSums = int64_t{32} << 20, kMostWinogradTiles = int64_t{16} << 20;

// The gradient of a filter: rows and channels are those of dY and of the images, of one group. Sums are
// [group][point][row][channel].
struct WinogradWeightShape {
  std::array<int64_t, ConvShape::kAxes> tiles;  // along each axis of an image
  int64_t points, all_tiles, rows, channels;
  int64_t groups_at_once;
  // Of a row of transformed tiles of dY and of the images, all groups at once: odd lines.
  int64_t left_row, right_row;
  int64_t sums_row, sums_point;  // bytes
  int64_t panels;                // of tile_n channels, of one group

  int64_t group_sums() const { return points * sums_point; }
  int64_t sums_bytes() const { return groups_at_once * group_sums(); }
  int64_t tile_bytes() const { return points * (left_row + right_row); }
};

// Whether this is a gradient that the family computes: see its rules.
bool winograd_weight_window(const GemmView& v);

// `v` must fulfil winograd_weight_window(), and `c` have a tile.
WinogradWeightShape winograd_weight_shape(const GemmView& v, const KernelConfig& c);

// A turn computes the gradients of the groups at once. Each thread takes its own turns, or its own parts of
// their tiles, whose sums are added up at the end; or all share every block of a turn.
struct WinogradWeightTurns {
  int64_t turns, parts;
  bool shared;
};
WinogradWeightTurns winograd_weight_turns(const GemmView& v, const WinogradWeightShape& s,
                                          const KernelConfig& c, const ArchSpec& a, int threads);

}  // namespace tessera
