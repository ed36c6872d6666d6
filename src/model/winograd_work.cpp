#include <algorithm>
#include <cmath>

#include "core/tile_math.h"
#include "core/winograd_shape.h"
#include "model/cpu_terms.h"

namespace tessera {
namespace {

// Vector operations of one transform along an axis of three taps, for each line: of the input and of the
// result.
constexpr double kInputOps = 4, kResultOps = 4, kFilterOps = 5;

struct Winograd : CpuTerms {
  // Additions of a transform nested over the axes: each halves or doubles what the next one works on.
  double nested(double ops, double in, double out) const {
    double lines = 1, sum = 0;
    int axes = 0;
    for (const WindowAxis& x : v.window->axes) axes += x.taps > 1;
    for (int i = 0; i < axes; ++i) lines *= in;
    for (int i = 0; i < axes; ++i) {
      lines /= in;
      sum += lines * ops;
      lines *= out;
    }
    return sum;
  }

  void add() const {
    const WinogradShape s = winograd_shape(v, c);
    const double tiles = static_cast<double>(s.all_tiles), points = static_cast<double>(s.points),
                 results = static_cast<double>(s.results), channels = static_cast<double>(s.channels);
    const double at_once = static_cast<double>(s.groups_at_once);
    const auto vectors = [&](double of_group) { return std::ceil(at_once * of_group / inst.n) / at_once; };
    // Blocks of about one size, register tiles of about one height.
    const double blocks = std::ceil(tiles / c.block_m), block_tiles = tiles / blocks;
    // Where they do not come out even, the last of a block is moved up over the one before it.
    const double heights = std::ceil(block_tiles / c.tile_m);
    const double least = heights > 1 ? c.tile_m - 1 : c.tile_m;
    const double rows = std::max(block_tiles / heights, least);
    const double products = blocks * heights * points;  // register tiles of one panel

    double panels = std::floor(w.cols / w.tile_n);
    const auto panel = [&](double cols) {
      const double live = std::ceil(cols / inst.n);
      return step_cycles(rows * live, rows + live, issue_per_cycle(), t);
    };
    double steps = panels * panel(w.tile_n);
    if (const double rest = w.cols - panels * w.tile_n; rest > 0) {
      steps += panel(rest);
      ++panels;
    }
    w.math = products * channels * steps;
    w.overhead = products * panels * t.tile_overhead + blocks * t.block_call;

    // Every vector of a tile is read, transformed and written, for each point.
    constexpr double kMove = 3;  // cycles of a vector between registers and the second-level cache
    const double in = points, read_lines = vectors(channels), written = vectors(w.cols);
    const double input = in + points * kMove + nested(kInputOps, 4, 4);
    const double output = points * kMove + nested(kResultOps, 4, 2);
    const double image_bytes = static_cast<double>(v.a.extent) * 4 / w.groups;
    w.pack_a = tiles * (read_lines * input + points * 2) + read(image_bytes, image_bytes * w.groups);
    w.epilogue = tiles * written *
                 (output + results * (1 + t.store_per_vector + v.epilogue.count * t.step_per_vector));
    // Sums leave their registers.
    w.epilogue += tiles * points * std::ceil(w.cols / inst.n) * kMove + read(w.bytes_c, w.bytes_c * w.groups);

    const double panel_bytes = channels * w.tile_n * 4, filter_bytes = panels * points * panel_bytes;
    // The filter: read, turned where its columns are apart, transformed, written.
    if (!v.b_prepacked) {
      const double taps = w.depth / channels, column_vectors = panels * w.tile_n / inst.n;
      const bool turned = v.b.col_stride != 1;
      const double one =
          taps * (turned ? 1 + t.pack_transpose * 4 * inst.n : 1) + nested(kFilterOps, 3, 4) + points * kMove;
      w.pack_b = channels * column_vectors * one + read(w.bytes_b, w.bytes_b * w.groups) +
                 read(filter_bytes, filter_bytes * w.groups);
    }

    // Register tiles read the panel again from where it lives, panels the rows of the block, blocks the whole
    // transformed filter.
    const double block_bytes = block_tiles * points * channels * 4;
    w.staged = panel_bytes;
    w.memory = (products - blocks * points) * panels * read(panel_bytes, 2 * panel_bytes) +
               blocks * panels * read(block_bytes, block_bytes + block_tiles * points * w.tile_n * 4) +
               blocks * read(filter_bytes, filter_bytes * w.groups);
  }
};

}  // namespace

void add_winograd_work(const CpuTerms& terms) { Winograd{terms}.add(); }

}  // namespace tessera
