#include "tune/factors.h"

#include "tune/element.h"

namespace tessera {
namespace {

using Axes = ConvShape::Axes;

int64_t count(const Axes& extents) { return extents[0] * extents[1] * extents[2]; }

// The `index`-th point of a grid, the last axis fastest; what is left of the index in *outer.
Axes point(int64_t index, const Axes& extents, int64_t* outer = nullptr) {
  Axes p;
  for (size_t i = extents.size(); i-- > 0; index /= extents[i]) p[i] = index % extents[i];
  if (outer) *outer = index;
  return p;
}

Axes outputs(const ConvShape& c) { return {c.out(0), c.out(1), c.out(2)}; }

// Where tap t of the filter lies at output position p; outside the input there are zeros.
Axes input_of(const ConvShape& c, const Axes& p, const Axes& t) {
  Axes at;
  for (size_t i = 0; i < at.size(); ++i) at[i] = p[i] * c.stride[i] - c.pad_lo[i] + t[i] * c.dilation[i];
  return at;
}

// Images of all channels of all groups.
struct Images {
  DType type;
  const void* data;
  Axes size;
  int64_t channels;
  bool channels_first;  // N(channels)(spatial) instead of N(spatial)(channels)

  double operator()(int64_t image, const Axes& at, int64_t channel) const {  // zero outside
    int64_t pixel = 0;
    for (size_t i = 0; i < at.size(); ++i) {
      if (at[i] < 0 || at[i] >= size[i]) return 0;
      pixel = pixel * size[i] + at[i];
    }
    return load_element(type, data,
                        channels_first ? (image * channels + channel) * count(size) + pixel
                                       : (image * count(size) + pixel) * channels + channel);
  }
};

}  // namespace

void Factors::row(int64_t g, int64_t i, double* out) const {
  const Problem& p = o_.problem();
  const ConvShape& c = p.conv;
  const Axes size = is_conv(p.op) ? outputs(c) : Axes{};
  const bool first = v_.channels_first, fwd = p.op == Op::conv_fwd;
  const Images images{p.a, o_.a(), fwd ? c.in : size, c.g * (fwd ? c.c : c.k), first};
  int64_t image;
  switch (p.op) {
    case Op::gemm:
      load_elements(v_.a.type, o_.a(), g * v_.a.group_stride + i * v_.a.row_stride, v_.a.col_stride, v_.k,
                    out);
      return;
    case Op::conv_fwd: {  // an output position: what the taps and channels of the filter meet
      const Axes position = point(i, size, &image);
      for (int64_t t = 0; t < count(c.filter); ++t) {
        for (int64_t ch = 0; ch < c.c; ++ch) {
          *out++ = images(image, input_of(c, position, point(t, c.filter)), g * c.c + ch);
        }
      }
      return;
    }
    case Op::conv_bwd_data: {  // an input position: the outputs whose taps meet it
      const Axes position = point(i, c.in, &image);
      for (int64_t t = 0; t < count(c.filter); ++t) {
        const Axes tap = point(t, c.filter);
        Axes at;
        bool met = true;
        for (size_t a = 0; a < at.size(); ++a) {
          const int64_t scaled = position[a] + c.pad_lo[a] - tap[a] * c.dilation[a];
          met &= scaled >= 0 && scaled % c.stride[a] == 0;
          at[a] = scaled / c.stride[a];
        }
        for (int64_t k = 0; k < c.k; ++k) { *out++ = met ? images(image, at, g * c.k + k) : 0; }
      }
      return;
    }
    case Op::conv_bwd_weight:  // an output channel: the gradients of all positions of all images
      for (int64_t n = 0; n < c.n; ++n) {
        for (int64_t o = 0; o < count(size); ++o) { *out++ = images(n, point(o, size), g * c.k + i); }
      }
  }
}

void Factors::column(int64_t g, int64_t j, double* out) const {
  const Problem& p = o_.problem();
  const ConvShape& c = p.conv;
  const int64_t taps = is_conv(p.op) ? count(c.filter) : 0;
  // Of one filter: from one tap to the next, and from one channel to the next.
  const int64_t tap_step = v_.channels_first ? 1 : c.c, channel_step = v_.channels_first ? taps : 1;
  switch (p.op) {
    case Op::gemm:
      load_elements(v_.b.type, o_.b(), g * v_.b.group_stride + j * v_.b.col_stride, v_.b.row_stride, v_.k,
                    out);
      return;
    case Op::conv_fwd:  // filter j
      for (int64_t t = 0; t < taps; ++t) {
        load_elements(p.b, o_.b(), (g * c.k + j) * taps * c.c + t * tap_step, channel_step, c.c,
                      out + t * c.c);
      }
      return;
    case Op::conv_bwd_data:  // input channel j of all filters
      for (int64_t t = 0; t < taps; ++t) {
        load_elements(p.b, o_.b(), g * c.k * taps * c.c + t * tap_step + j * channel_step, taps * c.c, c.k,
                      out + t * c.k);
      }
      return;
    case Op::conv_bwd_weight: {  // a tap and a channel: what they meet at all positions of all images
      const Axes size = outputs(c), tap = point(j / c.c, c.filter);
      const Images images{p.b, o_.b(), c.in, c.g * c.c, v_.channels_first};
      for (int64_t n = 0; n < c.n; ++n) {
        for (int64_t o = 0; o < count(size); ++o) {
          *out++ = images(n, input_of(c, point(o, size), tap), g * c.c + j % c.c);
        }
      }
    }
  }
}

}  // namespace tessera
