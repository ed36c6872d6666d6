#include "core/scatter_shape.h"

#include <algorithm>
#include <numeric>

#include "core/cache_line.h"
#include "core/tile_math.h"

namespace tessera {
namespace {

// Positions from the first that a coordinate meets to the last.
int64_t extent(const WindowAxis& x) { return (x.taps - 1) * -x.spread + 1; }

}  // namespace

bool scatter_window(const GemmView& v) {
  if (!v.window || !v.a.patches || v.groups != 1) return false;
  const auto& axes = v.window->axes;
  const auto backwards = [](const WindowAxis& x) { return x.step == 1 && x.spread < 0 && x.shift >= 0; };
  if (!std::all_of(axes.begin(), axes.end(), backwards)) return false;
  // Coordinates one after another are rows of one matrix, and so are the taps of the filter.
  const bool rows = axes[1].stride == axes[2].size * axes[2].stride &&
                    axes[0].stride == axes[1].size * axes[1].stride &&
                    v.window->image_stride == axes[0].size * axes[0].stride;
  return rows && v.b.col_stride == 1 && (v.b.row_block == 0 || v.b.block_stride == v.n);
}

ScatterShape scatter_shape(const GemmView& v) {
  constexpr int64_t kLanes = kCacheLine / 4;
  const auto& axes = v.window->axes;
  const WindowAxis& last = axes[2];
  ScatterShape s;
  s.outer = std::max({axes[0].positions, axes[0].taps, axes[0].size}) > 1 ? 0 : 1;
  const bool neighbours = last.spread == -1;
  s.run = (neighbours ? last.taps : 1) * v.n;
  s.advance = last.divide * v.n;
  s.columns = v.window->taps() * v.n;
  s.runs = s.columns / s.run;
  s.images = v.window->images;
  s.coordinates = axes[0].size * axes[1].size * last.size;
  s.positions = axes[static_cast<size_t>(s.outer)].positions;
  s.planes = extent(axes[static_cast<size_t>(s.outer)]);
  s.plane_lines = s.outer == 0 ? axes[1].positions : 1;
  s.lead = last.shift;
  const int64_t beyond = (last.size - 1) * last.divide - last.shift + extent(last);
  // Coordinates add to whole vectors together, at most as many of them as a vector has lanes.
  const int64_t more = s.advance * (kLanes / std::gcd(s.advance, kLanes)) + kLanes;
  s.line_floats = round_up((s.lead + std::max(last.positions, beyond)) * v.n + more, kLanes);
  s.product_bytes = round_up(s.columns, kLanes) * 4;
  s.flat = v.c.row_stride == v.n && v.epilogue.d_count() == 0;
  return s;
}

}  // namespace tessera
