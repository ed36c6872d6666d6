#include "core/lower_conv.h"

#include <algorithm>

#include "core/tile_math.h"

namespace tessera {
namespace {

constexpr size_t kAxes = ConvShape::kAxes;

int64_t product(const ConvShape::Axes& x) { return x[0] * x[1] * x[2]; }

// Images, or the results of moving a filter over them: N(spatial)GC.
struct PixelTensor {
  ConvShape::Axes size;
  int64_t n, g, channels;

  int64_t pixels() const { return n * product(size); }
  int64_t extent() const { return pixels() * g * channels; }
  int64_t stride(size_t axis) const {
    int64_t s = g * channels;
    for (size_t i = kAxes - 1; i > axis; --i) s *= size[i];
    return s;
  }
  int64_t image_stride() const { return stride(0) * size[0]; }

  // Its channels as the columns of a plain matrix, a row for each pixel.
  Operand matrix(DType type) const {
    return {.type = type,
            .rows = pixels(),
            .cols = channels,
            .row_stride = g * channels,
            .col_stride = 1,
            .group_stride = channels,
            .extent = extent()};
  }
};

Operand transposed(Operand o) {
  std::swap(o.rows, o.cols);
  std::swap(o.row_stride, o.col_stride);
  return o;
}

class Lowering {
 public:
  explicit Lowering(const Problem& p) : p_(p), c_(p.conv) {
    ConvShape::Axes out;
    for (size_t i = 0; i < kAxes; ++i) out[i] = c_.out(static_cast<int>(i));
    x_ = {c_.in, c_.n, c_.g, c_.c};
    y_ = {out, c_.n, c_.g, c_.k};
    // A stride past the padded input gives one output, as the shortest such does: loops go over the strides.
    for (size_t i = 0; i < kAxes; ++i) {
      c_.stride[i] = std::min(c_.stride[i], c_.in[i] + c_.pad_lo[i] + c_.pad_hi[i]);
      if (c_.filter[i] == 1) c_.dilation[i] = 1;  // between no taps: any number may stand there
    }
    taps_ = product(c_.filter);
    pointwise_ = taps_ == 1 && product(c_.stride) == 1 && product(out) == product(c_.in);
    for (size_t i = 0; i < kAxes; ++i) pointwise_ &= c_.pad_lo[i] == 0 && c_.pad_hi[i] == 0;
    v_.groups = c_.g;
    v_.work = static_cast<double>(y_.pixels()) * static_cast<double>(c_.g * c_.k) *
              static_cast<double>(taps_ * c_.c);
  }

  GemmView fwd() {
    v_.layout = Layout::rcr;
    v_.a = input(p_.a);
    v_.b = transposed(filter(p_.b));
    v_.c = y_.matrix(p_.out);
    return sized();
  }

  GemmView bwd_data() {
    v_.layout = Layout::rrr;
    v_.a = y_.matrix(p_.a);
    if (!pointwise_) {
      Window w{.axes = {}, .images = c_.n, .channels = c_.k, .image_stride = y_.image_stride()};
      for (size_t i = 0; i < kAxes; ++i) {
        w.axes[i] = {.positions = c_.in[i],
                     .taps = c_.filter[i],
                     .step = 1,
                     .spread = -c_.dilation[i],
                     .shift = c_.pad_lo[i],
                     .divide = c_.stride[i],
                     .size = y_.size[i],
                     .stride = y_.stride(i)};
      }
      set_patches(v_.a, w);
    }
    // The filter by taps first, as the patches have them: (tap, k) x c of GK(filter)C.
    v_.b = {.type = p_.b,
            .rows = taps_ * c_.k,
            .cols = c_.c,
            .row_stride = taps_ * c_.c,
            .col_stride = 1,
            .group_stride = c_.k * taps_ * c_.c,
            .row_block = taps_ == 1 ? 0 : c_.k,
            .block_stride = c_.c,
            .extent = filter(p_.b).extent};
    v_.c = x_.matrix(p_.out);
    return sized();
  }

  GemmView bwd_weight() {
    v_.layout = Layout::crr;
    v_.a = transposed(y_.matrix(p_.a));
    v_.b = input(p_.b);
    v_.c = filter(p_.out);
    return sized();
  }

 private:
  GemmView sized() {
    v_.m = v_.c.rows;
    v_.n = v_.c.cols;
    v_.k = v_.a.cols;
    // D tensors are as C, their rows one element for each of its channels.
    v_.d_strides = {.row = v_.c.row_stride, .group = v_.c.group_stride, .row_group = v_.n};
    return v_;
  }

  // GK(filter)C: a row for each k.
  Operand filter(DType type) const {
    const int64_t row = taps_ * c_.c;
    return {.type = type,
            .rows = c_.k,
            .cols = row,
            .row_stride = row,
            .col_stride = 1,
            .group_stride = c_.k * row,
            .extent = c_.g * c_.k * row};
  }

  // A row for each position of the filter.
  Operand input(DType type) {
    Operand o = x_.matrix(type);
    if (pointwise_) return o;
    Window w{.axes = {}, .images = c_.n, .channels = c_.c, .image_stride = x_.image_stride()};
    for (size_t i = 0; i < kAxes; ++i) {
      w.axes[i] = {.positions = y_.size[i],
                   .taps = c_.filter[i],
                   .step = c_.stride[i],
                   .spread = c_.dilation[i],
                   .shift = -c_.pad_lo[i],
                   .divide = 1,
                   .size = c_.in[i],
                   .stride = x_.stride(i)};
    }
    set_patches(o, w);
    return o;
  }

  void set_patches(Operand& o, const Window& w) {
    o.patches = true;
    o.rows = w.images * w.positions();
    o.cols = w.taps() * w.channels;
    o.row_stride = o.cols;
    v_.window = w;
  }

  const Problem& p_;
  ConvShape c_;
  PixelTensor x_, y_;
  int64_t taps_;
  bool pointwise_;
  GemmView v_;
};

}  // namespace

GemmView lower_conv(const Problem& p) {
  Lowering lowering(p);
  switch (p.op) {
    case Op::conv_bwd_data: return lowering.bwd_data();
    case Op::conv_bwd_weight: return lowering.bwd_weight();
    default: return lowering.fwd();
  }
}

Problem channels_last(Problem p) {
  p.layout = Layout::channels_last;
  if (p.op != Op::conv_bwd_weight) return p;
  p.out = p.d = DType::f32;
  p.alpha = 1;
  p.beta = 0;
  return p;
}

int64_t RowGrid::row(int64_t i) const {
  const int64_t i2 = i % positions[2], i1 = i / positions[2] % positions[1];
  const int64_t outer = i / (positions[1] * positions[2]), i0 = outer % positions[0],
                image = outer / positions[0];
  return ((image * whole[0] + first[0] + i0 * step[0]) * whole[1] + first[1] + i1 * step[1]) * whole[2] +
         first[2] + i2 * step[2];
}

namespace {

// Positions of one remainder along an axis, and the taps that meet coordinates there.
struct Remainder {
  int64_t first;  // position, and remainder
  WindowAxis axis;
  int64_t first_tap = 0, tap_step = 1;
};

std::vector<Remainder> remainders(const WindowAxis& whole) {
  std::vector<Remainder> out;
  const int64_t d = whole.divide;
  for (int64_t first = 0; first < std::min(d, whole.positions); ++first) {
    Remainder r{.first = first, .axis = whole};
    r.axis.positions = ceil_div(whole.positions - first, d);
    r.axis.divide = 1;
    r.axis.taps = 0;
    int64_t last = 0;
    for (int64_t t = 0; t < whole.taps; ++t) {
      if ((first + t * whole.spread + whole.shift) % d != 0) continue;
      if (r.axis.taps == 0) r.first_tap = t;
      if (r.axis.taps == 1) r.tap_step = t - last;
      last = t;
      ++r.axis.taps;
    }
    r.axis.shift = (first + r.first_tap * whole.spread + whole.shift) / d;
    r.axis.spread = r.tap_step * whole.spread / d;
    out.push_back(r);
  }
  return out;
}

}  // namespace

std::vector<StridedPart> strided_parts(const GemmView& v) {
  std::vector<StridedPart> parts;
  if (!v.window || v.window->divisor() == 1) {
    parts.push_back({v, {}});
    return parts;
  }
  const auto& axes = v.window->axes;
  for (const Remainder& r0 : remainders(axes[0])) {
    for (const Remainder& r1 : remainders(axes[1])) {
      for (const Remainder& r2 : remainders(axes[2])) {
        StridedPart part{v, {}};
        Window& w = *part.view.window;
        w.axes = {r0.axis, r1.axis, r2.axis};
        RowGrid grid;
        for (size_t i = 0; const Remainder* r : {&r0, &r1, &r2}) {
          grid.positions[i] = r->axis.positions;
          grid.whole[i] = axes[i].positions;
          grid.first[i] = r->first;
          grid.step[i] = axes[i].divide;
          ++i;
        }
        part.view.c_rows = grid;
        part.view.m = w.images * w.positions();
        part.view.k = w.taps() * w.channels;
        part.view.a.rows = part.view.m;
        part.view.a.cols = part.view.a.row_stride = part.view.b.rows = part.view.k;
        for (int64_t t0 = 0; t0 < r0.axis.taps; ++t0) {
          for (int64_t t1 = 0; t1 < r1.axis.taps; ++t1) {
            for (int64_t t2 = 0; t2 < r2.axis.taps; ++t2) {
              part.taps.push_back(
                  ((r0.first_tap + t0 * r0.tap_step) * axes[1].taps + r1.first_tap + t1 * r1.tap_step) *
                      axes[2].taps +
                  r2.first_tap + t2 * r2.tap_step);
            }
          }
        }
        parts.push_back(std::move(part));
      }
    }
  }
  return parts;
}

}  // namespace tessera
