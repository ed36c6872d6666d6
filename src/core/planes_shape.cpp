#include "core/planes_shape.h"

#include <algorithm>

#include "core/cache_line.h"
#include "core/tile_math.h"

namespace tessera {
namespace {

int64_t floor_div(int64_t x, int64_t y) { return x >= 0 ? x / y : -((y - 1 - x) / y); }

// Phases and residues are lanes that lie side by side, few of them. So are channels: where both sides have
// many of them, or many groups have some, they fill vectors as they lie in memory.
constexpr int64_t kMostPhases = 16, kFewChannels = 16, kMostChannels = 64, kMostGroups = 16;

}  // namespace

PlanesAxis::PlanesAxis(const WindowAxis& a)
    : phases(a.step), residues(a.divide), count(ceil_div(a.positions, a.divide)) {
  const int64_t first = a.shift, last = (a.taps - 1) * a.spread + a.shift;
  if (a.divide == 1) {
    low = floor_div(std::min(first, last), a.step);
    high = floor_div(std::max(first, last), a.step);
  } else {
    low = -floor_div(-std::min(first, last), a.divide);
    high = std::max(low, floor_div(std::max(first, last) + a.divide - 1, a.divide));
  }
}

PlanesTap planes_tap(const WindowAxis& a, int64_t residue, int64_t tap) {
  const int64_t at = residue * a.step + tap * a.spread + a.shift;
  if (a.divide == 1) {
    const int64_t offset = floor_div(at, a.step);
    return {true, at - offset * a.step, offset};
  }
  return {at % a.divide == 0, 0, floor_div(at, a.divide)};
}

int64_t plane_outputs(const GemmView& v) { return v.b.patches ? v.m : v.n; }

bool planes_window(const GemmView& v) {
  if (!v.window || v.groups > kMostGroups) return false;
  const auto [few, many] = std::minmax({v.window->channels, plane_outputs(v)});
  if (few > kFewChannels || many > kMostChannels) return false;
  return std::all_of(v.window->axes.begin(), v.window->axes.end(), [](const WindowAxis& x) {
    return (x.step == 1 || x.divide == 1) && std::max(x.step, x.divide) <= kMostPhases;
  });
}

PlanesShape planes_shape(const GemmView& v, const KernelConfig& c, const ArchSpec& a) {
  const Window& w = *v.window;
  PlanesShape s;
  s.gradient = v.b.patches;
  s.groups = v.groups;
  s.inner = w.channels;
  s.outer = plane_outputs(v);
  const int64_t pair = std::max(c.inst_k, 1);
  s.lanes = std::max(c.inst_n, 1);
  s.steps = s.gradient ? s.inner : ceil_div(s.inner, pair);
  s.element = s.gradient && pair == 2 ? 2 : 4;
  s.taps = w.taps();
  s.images = w.images;
  for (size_t i = 0; i < s.axes.size(); ++i) {
    s.axes[i] = PlanesAxis(w.axes[i]);
    s.phases *= s.axes[i].phases;
    s.residues *= s.axes[i].residues;
  }
  s.axis = s.axes[0].count > 1 ? 0 : 1;

  // Groups that fill a line of memory with the channels of a pixel are copied together.
  const int64_t whole = kCacheLine / bytes_of((s.gradient ? v.b : v.a).type);
  s.together = std::min(s.groups, ceil_div(whole, std::max(std::min(s.inner, s.outer), int64_t{1})));
  const int64_t tile_m = std::max(c.tile_m, 1), tile_n = std::max(c.tile_n, 1);
  // A tile of a gradient has as many terms as vectors; places are taken a vector at a time.
  const int64_t places = s.gradient ? s.lanes * 4 / s.element : tile_n;
  const auto set_band = [&](int64_t band) {
    s.band = band;
    std::array<int64_t, ConvShape::kAxes> n;
    for (size_t i = 0; i < n.size(); ++i) {
      n[i] = i == s.axis ? band : s.axes[i].count;
      s.extent[i] = n[i] + s.axes[i].span();
    }
    s.flat = saturated_product({n[0] - 1, s.extent[1], s.extent[2]}) + (n[1] - 1) * s.extent[2] + n[2];
    const int64_t all = saturated_product({s.extent[0], s.extent[1], s.extent[2]});
    s.read_bytes = odd_lines((all + places) * s.element);
    s.walked_bytes = odd_lines((round_up(s.flat, places) + s.lanes) * (s.gradient ? s.element : 4));
  };
  // Bands whose planes stay in the second-level cache, all of about one height. So many that every thread has
  // one, unless most of what they read would be their neighbour's too.
  const int64_t rows = s.axes[s.axis].count, least = 2 * s.axes[s.axis].span() + 8;
  for (int64_t bands = 1;; bands *= 2) {
    set_band(ceil_div(rows, std::min(bands, rows)));
    s.bands = ceil_div(rows, s.band);
    s.units = saturated_product({s.images, s.bands, ceil_div(s.groups, s.together)});
    const bool shared = s.units >= a.compute_units || s.band <= least;
    if (s.band == 1 || (shared && s.plane_bytes() <= a.l2.bytes / 2)) break;
  }

  const int64_t terms = saturated_product({s.taps, s.steps});
  s.outer_tiles = ceil_div(s.outer, tile_m);
  if (s.gradient) {
    const int64_t at_once = ceil_div(tile_n, s.lanes);
    s.term_tiles = ceil_div(terms, at_once);
    s.sums_bytes = saturated_product({s.groups, s.outer_tiles, tile_m, s.term_tiles, at_once, s.lanes, 4});
  } else {
    // Taps are met by one residue each where positions have several, by all where there is one.
    s.filter_bytes = saturated_product({s.groups, s.outer_tiles, tile_m, terms, 4});
    s.line_floats = w.axes[2].positions * s.together * s.outer + s.lanes;
  }
  return s;
}

}  // namespace tessera
