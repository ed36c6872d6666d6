// What the examples of convolutions share: data whose sums are exact in f32, the definition of a convolution
// to check results against.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "clock.h"
#include "tessera/dispatcher.h"
#include "tessera/error.h"

namespace example {

// Elements of the tensors of a convolution: input, filter, output of the forward pass.
struct Sizes {
  int64_t in = 1, out = 1, taps = 1;  // positions of one image, and of the filter
  int64_t x, w, y;

  explicit Sizes(const tessera::ConvShape& s) {
    for (int i = 0; i < tessera::ConvShape::kAxes; ++i) {
      in *= s.in[static_cast<size_t>(i)];
      out *= s.out(i);
      taps *= s.filter[static_cast<size_t>(i)];
    }
    x = s.n * in * s.g * s.c;
    w = s.g * s.k * taps * s.c;
    y = s.n * out * s.g * s.k;
  }
};

// Small integers: every sum of their products is exact, so results can be compared with ==.
inline std::vector<float> integers(int64_t count, uint32_t seed = 1) {
  std::vector<float> v(static_cast<size_t>(count));
  for (float& e : v) {
    seed = seed * 1664525u + 1013904223u;
    e = static_cast<float>(static_cast<int>(seed >> 24) % 5 - 2);
  }
  return v;
}

// What a convolution is: visit(x, w, y) with the indices of every input that meets a tap of the filter, and
// of the output they add to.
template <class Visit>
void for_each_product(const tessera::Problem& p, Visit visit) {
  const tessera::ConvShape& s = p.conv;
  const Sizes size(s);
  const bool first = p.layout == tessera::Layout::channels_first;
  const auto pixel = [first](int64_t image, int64_t channel, int64_t channels, int64_t at, int64_t pixels) {
    return first ? (image * channels + channel) * pixels + at : (image * pixels + at) * channels + channel;
  };
  for (int64_t o = 0; o < size.out; ++o) {
    for (int64_t t = 0; t < size.taps; ++t) {
      // Position and tap as one coordinate for each axis, and so where they meet in the input.
      int64_t at = 0, position = o, tap = t;
      std::array<int64_t, 3> coordinate{};
      for (int i = 2; i >= 0; --i) {
        const auto a = static_cast<size_t>(i);
        coordinate[a] = position % s.out(i) * s.stride[a] + tap % s.filter[a] * s.dilation[a] - s.pad_lo[a];
        position /= s.out(i);
        tap /= s.filter[a];
      }
      bool inside = true;
      for (size_t a = 0; a < 3; ++a) {
        inside &= coordinate[a] >= 0 && coordinate[a] < s.in[a];
        at = at * s.in[a] + coordinate[a];
      }
      if (!inside) continue;  // zeros
      for (int64_t n = 0; n < s.n; ++n) {
        for (int64_t k = 0; k < s.g * s.k; ++k) {
          for (int64_t c = 0; c < s.c; ++c) {
            visit(pixel(n, k / s.k * s.c + c, s.g * s.c, at, size.in), pixel(k, c, s.c, t, size.taps),
                  pixel(n, k, s.g * s.k, o, size.out));
          }
        }
      }
    }
  }
}

// conv(a, b) in the problem's direction, by the definition.
inline std::vector<float> expected(const tessera::Problem& p, const std::vector<float>& a,
                                   const std::vector<float>& b) {
  const Sizes size(p.conv);
  const bool fwd = p.op == tessera::Op::conv_fwd, data = p.op == tessera::Op::conv_bwd_data;
  std::vector<float> c(static_cast<size_t>(fwd ? size.y : data ? size.x : size.w));
  if (fwd) {
    for_each_product(p, [&](int64_t x, int64_t w, int64_t y) { c[y] += a[x] * b[w]; });
  } else if (data) {
    for_each_product(p, [&](int64_t x, int64_t w, int64_t y) { c[x] += a[y] * b[w]; });
  } else {
    for_each_product(p, [&](int64_t x, int64_t w, int64_t y) { c[w] += a[y] * b[x]; });
  }
  return c;
}

// Operands of a convolution in any direction, and room for its result.
struct Tensors {
  std::vector<float> a, b, c;

  explicit Tensors(const tessera::Problem& p) {
    const Sizes size(p.conv);
    const bool fwd = p.op == tessera::Op::conv_fwd, data = p.op == tessera::Op::conv_bwd_data;
    a = integers(fwd ? size.x : size.y, 1);
    b = integers(fwd || data ? size.w : size.x, 2);
    c.resize(static_cast<size_t>(fwd ? size.y : data ? size.x : size.w));
  }
  tessera::Buffers buffers() { return {.a = a.data(), .b = b.data(), .c = c.data()}; }
};

// Says which element is wrong, if one is.
inline bool same(const std::vector<float>& got, const std::vector<float>& want, const char* what) {
  const auto [g, w] = std::mismatch(got.begin(), got.end(), want.begin(), want.end());
  if (g == got.end() && w == want.end()) return true;
  std::printf("%s: element %td is %g, expected %g\n", what, g - got.begin(), *g, *w);
  return false;
}

inline double gflop(const tessera::Problem& p) {  // with the products of padding
  const Sizes size(p.conv);
  return 2e-9 * static_cast<double>(size.y) * static_cast<double>(size.taps * p.conv.c);
}

// What main() returns: runs the body, and says what went wrong.
template <class Body>
int run(Body body) try {
  return body() ? 0 : 1;
} catch (const tessera::Error& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}

}  // namespace example
