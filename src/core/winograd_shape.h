// How cpu_winograd sees a convolution. Known to its rules, its source, its driver, its model and the
// reference alike.
#pragma once

#include <array>

#include "core/gemm_view.h"
#include "tessera/kernel_config.h"

namespace tessera {

// Results of a tile along an axis, and the coordinates they come from: one for each product of F(2,3).
constexpr int64_t winograd_results(int64_t taps) { return taps > 1 ? 2 : 1; }
constexpr int64_t winograd_points(int64_t taps) { return taps > 1 ? 4 : 1; }

// Bytes of the transformed filter that are kept at a time: of one panel at least.
constexpr int64_t kMostWinogradPanels = int64_t{32} << 20;

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

}  // namespace tessera
