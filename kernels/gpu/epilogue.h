// The element-wise chain behind alpha * A B + beta * C. The kinds are in Config, their numbers come with the
// launch, so that kernels differing in numbers alone are one.
#pragma once

#include "gpu/abi.h"
#include "gpu/types.h"

namespace tsr {

__device__ __forceinline__ float sigmoid_of(float x) { return 1.0f / (1.0f + __expf(-x)); }
__device__ __forceinline__ float tanh_of(float x) {
  // Through exp(-2|x|), so that nothing overflows; exact enough near 0 for every output type.
  float e = __expf(-2.0f * fabsf(x));
  float t = (1.0f - e) / (1.0f + e);
  return fabsf(x) < 0.03f ? x - x * x * x * (1.0f / 3) : copysignf(t, x);
}

// X: float, or double for i32 results of integers, which are exact wherever they are whole numbers.
template <class X>
__device__ __forceinline__ X step_value(Step s, X x, X d, const float* p) {
  const float f = static_cast<float>(x);  // for functions that are approximated
  switch (s) {
    case Step::bias:
    case Step::add:
    case Step::add_row:
    case Step::add_col: return x + d;
    case Step::mul:
    case Step::mul_row:
    case Step::mul_col: return x * d;
    case Step::scale: return x * p[0];
    case Step::relu: return x > 0 || x != x ? x : 0;
    case Step::leaky_relu: return x < 0 ? x * p[0] : x;
    case Step::gelu: return x * (0.5f + 0.5f * erff(f * 0.70710678f));
    case Step::gelu_tanh: return x * (0.5f + 0.5f * tanh_of(0.79788456f * (f + 0.044715f * f * f * f)));
    case Step::silu: return x * sigmoid_of(f);
    case Step::sigmoid: return sigmoid_of(f);
    case Step::tanh: return tanh_of(f);
    case Step::hardswish: return x * (fminf(fmaxf(f + 3.0f, 0.0f), 6.0f) * (1.0f / 6));
    case Step::clamp: return x < p[0] ? p[0] : x > p[1] ? p[1] : x;
    case Step::quant: return rint(x * p[0]) + p[1];
    case Step::none: break;
  }
  return x;
}

// The chain on kWidth neighbours of a row of the problem's C, from (row, col); all are inside.
template <class C, int kStep = 0, int kD = 0, class X, int kWidth>
__device__ __forceinline__ void apply_steps(X (&x)[kWidth], int row, int col, int batch, int n,
                                            const GpuEpilogueArgs& args) {
  if constexpr (kStep < C::epilogue_count) {
    constexpr Step s = C::epilogue[kStep];
    X d[kWidth] = {};
    if constexpr (reads_d(s)) {
      auto* base = static_cast<const Bits<C::type_d>*>(args.d[kD]);
      if constexpr (reads_column(s)) {
        X one[1];
        load<C::type_d>(base + row, one);
#pragma unroll
        for (int i = 0; i < kWidth; ++i) d[i] = one[0];
      } else if constexpr (reads_row(s)) {
        load<C::type_d>(base + col, d);
      } else {
        load<C::type_d>(base + batch * args.d_batch_stride + static_cast<long long>(row) * n + col, d);
      }
    }
#pragma unroll
    for (int i = 0; i < kWidth; ++i) x[i] = step_value(s, x[i], d[i], args.params[kStep]);
    apply_steps<C, kStep + 1, kD + (reads_d(s) ? 1 : 0)>(x, row, col, batch, n, args);
  }
}

}  // namespace tsr
