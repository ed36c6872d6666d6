#include <algorithm>
#include <cmath>

#include "core/tile_math.h"
#include "core/winograd_shape.h"
#include "model/cpu_terms.h"

namespace tessera {
namespace {

// Vector operations of one transform along an axis of three taps, for each line: of the input, of the result,
// of the filter, of dY, and of sums to a filter's gradient.
constexpr double kInputOps = 4, kResultOps = 4, kFilterOps = 5, kGradientOps = 3, kWeightOps = 6;
// Cycles of a vector between registers and the second-level cache.
constexpr double kMove = 3;

struct Filtering : CpuTerms {
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

  // Cycles that a vector of floats takes to be made of one of `type`.
  double converted(DType type) const { return type == DType::f32 ? 0 : t.load_convert; }

  // Vectors of a group's channels, `at_once` groups side by side.
  double vectors(double of_group, int64_t at_once) const {
    const double groups = static_cast<double>(at_once);
    return std::ceil(groups * of_group / inst.n) / groups;
  }

  // The products of `times` matrices of `rows` x `depth` with panels of `cols` columns. Sets their cost.
  struct Products {
    double tiles, panels;  // register tiles of one panel, of all matrices; panels of one
  };
  Products multiply(double times, double rows, double cols, double depth) const {
    // Register tiles of about one height. Where they do not come out even, the last is moved up over the one
    // before it.
    const double heights = std::ceil(rows / c.tile_m), least = heights > 1 ? c.tile_m - 1 : c.tile_m;
    const double height = std::max(rows / heights, least), tiles = times * heights;
    const auto panel = [&](double live) { return product_step(height, live); };
    double panels = std::floor(cols / w.tile_n);
    double steps = panels * panel(w.tile_n);
    if (const double rest = cols - panels * w.tile_n; rest > 0) {
      steps += panel(rest);
      ++panels;
    }
    w.math = tiles * depth * steps;
    w.overhead = tiles * panels * t.tile_overhead;
    return {tiles, panels};
  }
};

struct Winograd : Filtering {
  void add() const {
    const WinogradShape s = winograd_shape(v, c);
    const double tiles = static_cast<double>(s.all_tiles), points = static_cast<double>(s.points),
                 results = static_cast<double>(s.results), channels = static_cast<double>(s.channels);
    // Blocks of about one size. Every thread has a block, which reads the whole filter, or a share of its
    // panels.
    const double turns = w.groups / static_cast<double>(s.groups_at_once),
                 shares = static_cast<double>(winograd_shares(v, s, c, a, a.compute_units)),
                 most = std::min<double>(c.block_m, std::ceil(tiles * turns * shares / a.compute_units));
    const double blocks = std::ceil(tiles / most), block_tiles = tiles / blocks;
    w.shares = blocks * turns * shares;
    const auto [products, panels] = multiply(blocks * points, block_tiles, w.cols, channels);
    w.overhead += blocks * t.block_call;

    // Every vector of a tile is read, transformed and written, for each point.
    const double in = points, read_lines = vectors(channels, s.groups_at_once),
                 written = vectors(w.cols, s.groups_at_once);
    const double input = in * (1 + converted(v.a.type)) + points * kMove + nested(kInputOps, 4, 4);
    const double output = points * kMove + nested(kResultOps, 4, 2);
    const double image_bytes = static_cast<double>(v.a.extent * bytes_of(v.a.type)) / w.groups;
    w.pack_a =
        shares * (tiles * (read_lines * input + points * 2) + read(image_bytes, image_bytes * w.groups));
    w.epilogue = tiles * written *
                 (output + results * (1 + t.store_per_vector + v.epilogue.count * t.step_per_vector));
    // Sums leave their registers.
    w.epilogue += tiles * points * std::ceil(w.cols / inst.n) * kMove + read(w.bytes_c, w.bytes_c * w.groups);

    const double panel_bytes = channels * w.tile_n * 4, filter_bytes = panels * points * panel_bytes;
    // The filter: read, turned where its columns are apart, transformed, written.
    if (!v.b_prepacked) {
      const double taps = w.depth / channels, column_vectors = panels * w.tile_n / inst.n;
      const bool turned = v.b.col_stride != 1;
      const double one = taps * (converted(v.b.type) + (turned ? 1 + t.pack_transpose * 4 * inst.n : 1)) +
                         nested(kFilterOps, 3, 4) + points * kMove;
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

struct WinogradWeight : Filtering {
  void add() const {
    const WinogradWeightShape s = winograd_weight_shape(v, c);
    const double tiles = static_cast<double>(s.all_tiles), points = static_cast<double>(s.points),
                 rows = static_cast<double>(s.rows), channels = static_cast<double>(s.channels);
    const double blocks = std::ceil(tiles / c.block_m), block_tiles = tiles / blocks;
    const auto [products, panels] = multiply(blocks * points, rows, channels, block_tiles);
    w.overhead += blocks * t.block_call;
    // All sums come and go.
    const double sum_vectors = points * rows * std::ceil(channels / inst.n);
    w.epilogue = blocks * sum_vectors * 2;

    // Every vector of a tile is read, transformed and written, for each point.
    double lines = 1;
    for (const WindowAxis& x : v.window->axes) lines *= static_cast<double>(winograd_results(x.taps));
    const double image_bytes = static_cast<double>(v.b.extent * bytes_of(v.b.type)) / w.groups,
                 gradient_bytes = static_cast<double>(v.a.extent * bytes_of(v.a.type)) / w.groups;
    w.pack_a = tiles * (vectors(rows, s.groups_at_once) * (lines * (1 + converted(v.a.type)) +
                                                           points * kMove + nested(kGradientOps, 2, 4)) +
                        points * 2) +
               read(gradient_bytes, gradient_bytes * w.groups);
    w.pack_b = tiles * (vectors(channels, s.groups_at_once) *
                            (points * (1 + converted(v.b.type)) + points * kMove + nested(kInputOps, 4, 4)) +
                        points * 2) +
               read(image_bytes, image_bytes * w.groups);

    const double taps = static_cast<double>(v.window->taps());
    w.epilogue += rows * std::ceil(channels / inst.n) *
                      (points + nested(kWeightOps, 4, 3) + taps * (1 + t.store_per_vector)) +
                  read(w.bytes_c, w.bytes_c * w.groups);

    // Register tiles read a panel of the images' tiles again, panels those of dY, blocks all sums.
    const double panel_bytes = block_tiles * w.tile_n * 4,
                 block_bytes = block_tiles * points * (rows + channels) * 4;
    const double sums = static_cast<double>(s.group_sums());
    w.staged = panel_bytes;
    w.memory = products * panels * read(panel_bytes, panel_bytes + block_tiles * rows * 4) +
               blocks * points * panels * read(block_tiles * rows * 4, block_bytes) +
               2 * blocks * read(sums, sums + block_bytes);
    // Threads that share a turn meet after every step of it, and multiply what others have transformed; those
    // with parts of their own meet once, and read the sums of the others.
    const WinogradWeightTurns turns = winograd_weight_turns(v, s, c, a, a.compute_units);
    const double units = a.compute_units, parts = static_cast<double>(turns.parts);
    if (turns.shared) {
      w.serial = static_cast<double>(turns.turns) * 2 * std::ceil(blocks / units) * t.fork_join;
      w.memory += tiles * points * (rows + channels) * 4 / a.l3.bytes_per_cycle;
    } else if (parts > 1) {
      w.shares = static_cast<double>(turns.turns) * parts;
      w.memory += parts * sums / a.l3.bytes_per_cycle;
    }
  }
};

}  // namespace

void add_winograd_work(const CpuTerms& terms) { Winograd{terms}.add(); }
void add_winograd_weight_work(const CpuTerms& terms) { WinogradWeight{terms}.add(); }

}  // namespace tessera
