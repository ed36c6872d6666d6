// The transforms of minimal filtering, nested over the axes that have three taps: F(2,3) (A. Lavin, S. Gray:
// Fast Algorithms for Convolutional Neural Networks, 2015), and transposed F(3,2), three weights from two
// results' gradients and four inputs. Their coefficients are 0, 1 and 1/2.
#pragma once

#include "cpu/lines.h"

namespace tsr {

// Two neighbouring results of three taps from four neighbouring inputs: four products.
struct WinogradInput {
  static constexpr int kIn = 4, kOut = 4;
  template <class F>
  static TSR_INLINE void apply(const F* x, F* y, int apart) {
    y[0] = x[0] - x[2 * apart];
    y[apart] = x[apart] + x[2 * apart];
    y[2 * apart] = x[2 * apart] - x[apart];
    y[3 * apart] = x[apart] - x[3 * apart];
  }
};
struct WinogradFilter {
  static constexpr int kIn = 3, kOut = 4;
  template <class F>
  static TSR_INLINE void apply(const F* x, F* y, int apart) {
    const F outer = (x[0] + x[2 * apart]) * 0.5f, inner = x[apart] * 0.5f;
    y[0] = x[0];
    y[apart] = outer + inner;
    y[2 * apart] = outer - inner;
    y[3 * apart] = x[2 * apart];
  }
};
struct WinogradOutput {
  static constexpr int kIn = 4, kOut = 2;
  template <class F>
  static TSR_INLINE void apply(const F* x, F* y, int apart) {
    const F inner = x[apart] + x[2 * apart];
    y[0] = x[0] + inner;
    y[apart] = x[apart] - x[2 * apart] - x[3 * apart];
  }
};

// The same products in the gradient of a filter: WinogradOutput and WinogradFilter transposed.
struct WinogradGradient {
  static constexpr int kIn = 2, kOut = 4;
  template <class F>
  static TSR_INLINE void apply(const F* x, F* y, int apart) {
    y[0] = x[0];
    y[apart] = x[0] + x[apart];
    y[2 * apart] = x[0] - x[apart];
    y[3 * apart] = -x[apart];
  }
};
struct WinogradWeights {
  static constexpr int kIn = 4, kOut = 3;
  template <class F>
  static TSR_INLINE void apply(const F* x, F* y, int apart) {
    const F inner = (x[apart] + x[2 * apart]) * 0.5f;
    y[0] = x[0] + inner;
    y[apart] = (x[apart] - x[2 * apart]) * 0.5f;
    y[2 * apart] = inner + x[3 * apart];
  }
};

// `Transform` along each axis of kTaps > 1 of an array [d][h][w] of vectors.
template <class Transform, int kTapsD, int kTapsH, int kTapsW>
struct WinogradNest {
  static constexpr int in(int taps) { return taps > 1 ? Transform::kIn : 1; }
  static constexpr int out(int taps) { return taps > 1 ? Transform::kOut : 1; }
  static constexpr int kIn = in(kTapsD)*in(kTapsH)*in(kTapsW);
  static constexpr int kOut = out(kTapsD) * out(kTapsH) * out(kTapsW);

  // Lines of one axis, `kApart` vectors between neighbours along it.
  template <int kOuter, int kApart, class F>
  static TSR_INLINE void along(const F* x, F* y) {
    TSR_UNROLL for (int o = 0; o < kOuter; ++o) {
      TSR_UNROLL for (int i = 0; i < kApart; ++i) {
        Transform::apply(x + o * Transform::kIn * kApart + i, y + o * Transform::kOut * kApart + i, kApart);
      }
    }
  }

  template <class F>
  static TSR_INLINE void apply(const F (&x)[kIn], F (&y)[kOut]) {
    F line[in(kTapsD)*in(kTapsH)*out(kTapsW)], plane[in(kTapsD)*out(kTapsH) * out(kTapsW)];
    if constexpr (kTapsW > 1) {
      along<in(kTapsD)*in(kTapsH), 1>(x, line);
    } else {
      copy(x, line);
    }
    if constexpr (kTapsH > 1) {
      along<in(kTapsD), out(kTapsW)>(line, plane);
    } else {
      copy(line, plane);
    }
    if constexpr (kTapsD > 1) {
      along<1, out(kTapsH) * out(kTapsW)>(plane, y);
    } else {
      copy(plane, y);
    }
  }

 private:
  template <class F, int kCount>
  static TSR_INLINE void copy(const F (&x)[kCount], F (&y)[kCount]) {
    TSR_UNROLL for (int i = 0; i < kCount; ++i) y[i] = x[i];
  }
};

}  // namespace tsr
