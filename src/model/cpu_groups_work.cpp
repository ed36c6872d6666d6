#include <algorithm>
#include <cmath>

#include "core/groups_shape.h"
#include "core/tile_math.h"
#include "model/cpu_terms.h"

namespace tessera {
namespace {

struct Groups : CpuTerms {
  void add() const {
    const GroupsShape s = groups_shape(v, c);
    const auto& axes = s.axes;
    const double vectors = static_cast<double>(c.tile_n) / inst.n;
    const double lines = static_cast<double>(v.window->images * axes[0].positions * axes[1].positions);
    // Tiles of a gradient of the input begin at a multiple of the stride, counted from the padding.
    const WindowAxis& x = axes[2];
    const int64_t lead = x.spread < 0 ? x.shift % x.divide : 0;
    w.shares = s.takes_lines(v, a, a.compute_units) ? lines : static_cast<double>(s.chunks);
    const double tiles =
        lines * std::ceil(static_cast<double>(x.positions + lead) / static_cast<double>(s.columns));
    // Of a tile, one line of the filter and one step along the inner channels of a group. What is read is
    // converted, and shuffled where lanes choose among channels; 32-bit words of two bf16 need less, and as
    // operands of dot products no conversion.
    const bool bf16 = v.a.type == DType::bf16, even = s.inner % 2 == 0;
    const bool chosen = !s.blocked && (s.steps > 1 || s.outer > 1);
    const bool folded = s.folds > 1;
    const bool pairs = !chosen && !s.blocked && c.tile_n % (2 * inst.n) == 0;
    const bool halves = bf16 && inst.k == 1 && inst.n == 16;  // are chosen and converted at once
    const double convert = v.a.type == DType::f32 || inst.k > 1 ? 0 : 2;
    const double choose = s.vectors_read > 2 ? 3 : 1;
    const double share = folded ? 0 : s.spread ? t.spread_share : 1;
    const double shuffle = inst.k > 1 ? (chosen ? share : 0)
                           : chosen
                               ? share * (bf16 && even && !s.gradient ? 1.5 : choose + (halves ? 0 : convert))
                           : bf16 && (s.blocked ? even : pairs) ? 1
                                                                : convert;
    const double products =
        static_cast<double>(s.columns * axes[2].taps) * vectors / static_cast<double>(axes[2].divide);
    const bool shared = chosen && (s.alone || s.outer % c.tile_n == 0);
    // Of few registers the weights of one vector at a time are held, where lanes take their own channels, or
    // of one tap, where all take the same one: a pixel is read for each tap that it meets.
    const bool few = !s.gradient && a.vector_registers <= 16;
    const bool one = few && !chosen && !s.blocked && !(bf16 && pairs);
    const double sums = static_cast<double>(s.columns) * vectors;
    const bool by_taps = few && shared && s.spread && !(bf16 && even && inst.k == 1) &&
                         sums + static_cast<double>(x.taps) * vectors + 1 > a.vector_registers;
    const double reads =
        by_taps ? products / vectors
                : static_cast<double>(s.columns_read) *
                      (shared ? 1 : vectors / static_cast<double>(std::max<int64_t>(s.apart, 1)));
    const double outs = static_cast<double>(s.columns) * vectors;
    const GradientBand band = s.gradient ? gradient_band(s, vectors) : GradientBand{1, 0};
    const double taken = s.turned ? outs / band.lines : reads;  // whose channels lanes take
    const double own = s.turned     ? reads
                       : s.gradient ? outs / band.lines
                                    : static_cast<double>(axes[2].taps) * vectors;
    const double loads = taken * s.vectors_read + own;
    // Of a gradient, the operand walked is converted as well, and sums without a register are moved.
    const double moved = s.gradient ? outs / band.lines * (pairs ? 1 : convert) + 2 * band.spilled : 0;
    const double held = sums + static_cast<double>(x.taps + 1) * (one ? 1 : vectors);
    const double spilled =
        s.gradient || by_taps ? 0 : std::max(held - a.vector_registers, 0.0) * static_cast<double>(s.columns);
    const double step = step_cycles(products + taken * shuffle + moved, loads, issue_per_cycle(), t) +
                        spilled * (chosen ? t.spilled_weight : t.spilled_alone);
    const double filter_lines = static_cast<double>(axes[0].taps * axes[1].taps) /
                                static_cast<double>(axes[0].divide * axes[1].divide);
    const double chunks = static_cast<double>(s.chunks);
    // Of a gradient with channels to choose from, the few sums of a line of taps wait for one another.
    const double waits = s.gradient && chosen ? 1 + share : 1;
    w.math = tiles * chunks * filter_lines * static_cast<double>(s.steps) * step * waits / w.groups;
    w.overhead = tiles * chunks * 2 * t.tile_overhead / w.groups;
    const double stores = s.gradient ? static_cast<double>(s.chunk_floats) / inst.n
                                     : tiles * static_cast<double>(s.columns) * vectors;
    const double outputs = static_cast<double>(s.groups * s.outer);
    const bool whole = (folded ? vectors > 1 : s.lanes == inst.n) &&
                       (chosen ? s.groups * s.outer % s.chunk == 0 : outputs >= c.tile_n);
    const double store = t.store_per_vector + (whole || s.gradient ? 0 : kPartOfLanes);
    w.epilogue = chunks * stores * (store + v.epilogue.count * t.step_per_vector) / w.groups;
    w.pack_b =
        v.b_prepacked ? 0.0 : chunks * static_cast<double>(s.chunk_floats) * 4 * t.pack_transpose / w.groups;
    const double chunk_bytes = static_cast<double>(c.tile_n * bytes_of(v.a.type));
    // The fewer neighbouring lines of memory a chunk takes from each pixel, the less of them is fetched
    // ahead: by the processor, where the kernel does not ask for the next lines itself.
    const double fetched = read(v.bytes(), v.bytes());
    const bool asked = s.gradient && s.inner == 1 && v.bytes() > static_cast<double>(a.l2.bytes);
    w.memory = fetched * (1 + (asked ? 0 : kCacheLine / chunk_bytes)) / w.groups;
    if (!s.gradient || s.inner > 1) return;
    // Every band of the filter's lines reads the lines of a chunk again, from the second-level cache.
    const double bands =
        std::ceil(static_cast<double>(axes[1].taps) / band.lines) * static_cast<double>(axes[0].taps);
    const double fresh =
        std::min(band.lines, static_cast<double>(axes[1].step)) * static_cast<double>(axes[2].step);
    const auto pieces = [&](DType type, int64_t channels) {  // of memory, in whole lines
      const int64_t bytes = c.tile_n * channels / s.outer * bytes_of(type);
      const bool apart = v.groups * channels * bytes_of(type) % static_cast<int64_t>(kCacheLine) != 0;
      return kCacheLine * static_cast<double>(ceil_div(bytes, int64_t{64}) + (apart ? 1 : 0));
    };
    const double pass =
        static_cast<double>(s.columns) * (pieces(v.a.type, s.outer) + fresh * pieces(v.b.type, s.inner));
    w.overhead += tiles * chunks * bands * pass / a.l2.bytes_per_cycle / w.groups;
  }

  // Lines of the filter whose sums GroupsGradient keeps in registers, and how many of those do not fit.
  struct GradientBand {
    double lines, spilled;
  };
  GradientBand gradient_band(const GroupsShape& s, double vectors) const {
    const double left = a.vector_registers - 1 - static_cast<double>(s.columns + 1) * vectors;
    const double taps = static_cast<double>(s.axes[1].taps);
    const double sums = static_cast<double>(s.axes[2].taps) * vectors;
    const double fit = std::max(std::floor(left / sums), 1.0);
    return {std::ceil(taps / std::ceil(taps / fit)), std::max(sums - left, 0.0)};
  }
};

}  // namespace

void add_groups_work(const CpuTerms& terms) { Groups{terms}.add(); }

}  // namespace tessera
