#include <algorithm>
#include <cmath>

#include "core/lines_shape.h"
#include "core/tile_math.h"
#include "model/product_terms.h"

namespace tessera {
namespace {

struct Amx : ProductTerms {
  // The window of one remainder where a gradient of the input is computed in parts: the first, which has the
  // most taps.
  Window first_part() const {
    Window u = *v.window;
    for (WindowAxis& x : u.axes) {
      if (x.divide == 1) continue;
      x.positions = ceil_div(x.positions, x.divide);
      x.taps = ceil_div(x.taps, x.divide);
      x.spread = std::min<int64_t>(x.spread / x.divide, -1);
      x.shift /= x.divide;
      x.divide = 1;
    }
    return u;
  }

  // Taps from copies of an image's lines. What one group of one part takes, times the parts.
  void amx_lines() const {
    constexpr double kCopiedLine = 40;  // cycles of copying a line, beside its bytes
    const int group = k_group(compute_type(left.type, inst));
    const Window part = first_part();
    const LinesShape s = lines_shape(part, group, inst.k);
    const double parts = static_cast<double>(v.window->divisor());
    const double planes = static_cast<double>(part.images * s.z.positions) * parts;
    const double plane_tiles = static_cast<double>(s.tiles_of(s.y.positions));
    const double row_tiles = planes * plane_tiles, steps = static_cast<double>(s.steps());
    const double per_tdp = 2.0 * inst.m * inst.n * inst.k / inst.flops_per_cycle;
    // Beside registers for shorter steps one of the left operand is left: each further column loads all tiles
    // but the one where the last column ended.
    const bool again = s.whole > 0 && s.tail > 0;
    auto block = [&](double tm, double tn) {
      const double lefts = again ? tm + (tn - 1) * (tm - 1) : tm;
      return steps * (tm * tn * per_tdp + (lefts + tn) * t.amx_load) + tm * tn * t.amx_sums;
    };
    const double tm = w.tile_m / 16, whole = std::floor(row_tiles / tm), single = row_tiles - whole * tm;
    for (double n = w.cols; n > 0; n -= w.tile_n) {
      const double tn = std::ceil(std::min(n, w.tile_n) / 16);
      w.math += whole * block(tm, tn) + single * block(1, tn);
    }
    const double lines = planes * static_cast<double>(s.z.taps * s.lines_read(s.y.positions));
    const double pixels = lines * static_cast<double>(s.width), size = bytes_of(left.type);
    const double bytes = pixels * static_cast<double>(s.pixel) * size;
    const bool pieces = v.groups > 1 || s.pixel != part.channels;
    w.pack_a = lines * kCopiedLine + bytes * t.pack_copy * t.amx_pack +
               (pieces ? pixels * t.gather_piece + shared_lines(left, pixels) : 0.0);
    if (!v.b_prepacked) w.pack_b = f.right.copied * t.amx_pack;
    const double packed_b = steps * parts * 64 * std::ceil(w.cols / 16) * 16;
    const double image_bytes = static_cast<double>(left.extent) * size / w.groups;
    w.staged = steps * 64 * w.tile_n;
    w.memory = read(image_bytes, image_bytes * w.groups) + read(packed_b, packed_b);
    const double at_once = std::min(
        std::max(static_cast<double>(a.l2.bytes) / 4 / std::max(bytes * w.groups / planes, 1.0), 1.0) *
            plane_tiles,
        static_cast<double>(kLinesBlockRows) / kLinesTileRows);
    w.overhead += std::ceil(row_tiles / at_once) * (t.block_call * w.col_tiles + t.amx_config);
  }

  // A gradient from copies of an image's lines: what one group takes.
  void amx_gradient() const {
    constexpr double kCopiedLine = 60, kWord = 8,
                     kTurned = 100;  // cycles: beside its words; two pixels; a tile
    const GradientLines lines(*v.window);
    const LinesShape& s = lines.shape;
    const double planes = static_cast<double>(v.window->images * s.z.positions);
    const double steps = planes * static_cast<double>(lines.steps(s.y.positions));
    const double channel_tiles = std::ceil(static_cast<double>(v.window->channels) / 16);
    const double col_tiles = channel_tiles * static_cast<double>(v.window->taps());
    const double row_tiles = std::ceil(w.rows / 16);
    const double per_tdp = 2.0 * inst.m * inst.n * inst.k / inst.flops_per_cycle;
    const double copied = planes * static_cast<double>(s.z.taps * s.lines_read(s.y.positions) * lines.copies);
    const double words = copied * static_cast<double>(lines.pitch()) / 2 * channel_tiles;
    // Sums are read and written for each block of lines that a quarter of the second-level cache holds.
    const double blocks =
        std::ceil((words * 64 + row_tiles * steps * 1024) / (static_cast<double>(a.l2.bytes) / 4));
    auto block = [&](double tm, double tn) {
      return steps * (tm * tn * per_tdp + (tm + tn) * t.amx_load) + blocks * tm * tn * t.amx_sums;
    };
    const double tm = w.tile_m / 16, whole = std::floor(row_tiles / tm), single = row_tiles - whole * tm;
    const double col_blocks = std::ceil(col_tiles / (w.tile_n / 16)), tn = col_tiles / col_blocks;
    w.math = col_blocks * (whole * block(tm, tn) + single * block(1, tn));
    w.pack_b = copied * kCopiedLine + words * kWord;
    w.pack_a = row_tiles * steps * kTurned;
    const double image_bytes = static_cast<double>(v.b.extent) * bytes_of(v.b.type) / w.groups;
    w.staged = steps / blocks * 1024 * tm;
    w.shares = w.groups * row_tiles * channel_tiles * std::max(std::floor(w.depth / kLinesSharePixels), 1.0);
    w.memory = read(image_bytes, image_bytes * w.groups) + f.read_a;
    w.overhead += blocks * t.block_call + t.amx_config;
  }

  void add() const {
    if (reads_lines(v, c)) return amx_lines();
    if (sums_lines(v, c)) return amx_gradient();
    const double steps = std::ceil(w.depth / inst.k);
    const double per_tdp = 2.0 * inst.m * inst.n * inst.k / inst.flops_per_cycle;
    const double chunks = std::max(1.0, std::ceil(steps / 16));
    w.math = over_tiles([&](double r, double n) {
      const double tm = std::ceil(r / 16), tn = std::ceil(n / 16);
      const double loads = (c.pack_a ? tm : tm * t.amx_in_place) + tn;
      return steps * (tm * tn * per_tdp + loads * t.amx_load) + chunks * tm * tn * t.amx_sums;
    });
    if (!v.b_prepacked) { w.pack_b = f.right.copied * t.amx_pack + f.right.gathered; }
    if (c.pack_a) {
      const bool turned = !f.left.along_k;
      w.pack_a = f.left.copied * t.amx_pack * (turned ? t.amx_turn : 1.0) + f.left.gathered;
    }
    w.staged = word_bytes(w.tile_n * w.depth);
    w.memory = stream(f.read_a, c.pack_a ? 0 : w.tile_m) + (v.b_prepacked ? f.read_words_b : 0.0);
    w.overhead += t.block_call * chunks * w.col_tiles + t.amx_config;
    if (c.swap_ab) w.epilogue *= t.amx_swapped;
  }
};

}  // namespace

void add_amx_work(const ProductTerms& terms) { Amx{terms}.add(); }

}  // namespace tessera
