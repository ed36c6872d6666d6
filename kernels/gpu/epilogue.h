// alpha * acc + beta * C and the element-wise chain behind it. The kinds are in Config, their numbers come with the
// launch, so that kernels differing in numbers alone are one.
#pragma once

#include "gpu/epilogue_args.h"
#include "gpu/types.h"

// As tessera::EpilogueKind, in its order.
enum class Step : int {
  bias, add, add_row, add_col, mul, mul_row, mul_col,
  scale, relu, leaky_relu, gelu, gelu_tanh, silu, sigmoid, tanh,
  hardswish, clamp, quant
};

constexpr bool reads_d(Step s) { return s <= Step::mul_col; }
constexpr bool reads_row(Step s) { return s == Step::bias || s == Step::add_row || s == Step::mul_row; }
constexpr bool reads_column(Step s) { return s == Step::add_col || s == Step::mul_col; }

__device__ __forceinline__ float sigmoid_of(float x) { return 1.0f / (1.0f + __expf(-x)); }
__device__ __forceinline__ float tanh_of(float x) {
  // Through exp(-2|x|), so that nothing overflows; exact enough near 0 for every output type.
  float e = __expf(-2.0f * fabsf(x));
  float t = (1.0f - e) / (1.0f + e);
  return fabsf(x) < 0.03f ? x - x * x * x * (1.0f / 3) : copysignf(t, x);
}

__device__ __forceinline__ float step_value(Step s, float x, float d, const float* p) {
  switch (s) {
    case Step::bias: case Step::add: case Step::add_row: case Step::add_col: return x + d;
    case Step::mul: case Step::mul_row: case Step::mul_col: return x * d;
    case Step::scale: return x * p[0];
    case Step::relu: return x > 0 || x != x ? x : 0.0f;
    case Step::leaky_relu: return x < 0 ? x * p[0] : x;
    case Step::gelu: return x * (0.5f + 0.5f * erff(x * 0.70710678f));
    case Step::gelu_tanh: return x * (0.5f + 0.5f * tanh_of(0.79788456f * (x + 0.044715f * x * x * x)));
    case Step::silu: return x * sigmoid_of(x);
    case Step::sigmoid: return sigmoid_of(x);
    case Step::tanh: return tanh_of(x);
    case Step::hardswish: return x * fminf(fmaxf(x + 3.0f, 0.0f), 6.0f) * (1.0f / 6);
    case Step::clamp: return x != x ? x : fminf(fmaxf(x, p[0]), p[1]);
    case Step::quant: return rintf(x * p[0]) + p[1];
  }
  return x;
}

// The chain on one element, at (row, col) of batch `batch` of the problem's C; both inside it.
template <class C, int kStep = 0, int kD = 0>
__device__ __forceinline__ float apply_steps(float x, long long row, long long col, int batch, long long n,
                                             const EpilogueArgs& args) {
  if constexpr (kStep == C::epilogue_steps) {
    return x;
  } else {
    constexpr Step s = C::epilogue[kStep];
    float d = 0;
    if constexpr (reads_d(s)) {
      long long at = reads_row(s) ? col : reads_column(s) ? row : batch * args.d_batch_stride + row * n + col;
      d = to_float<C::d_type>(static_cast<const Bits<C::d_type>*>(args.d[kD])[at]);
    }
    x = step_value(s, x, d, args.params[kStep]);
    return apply_steps<C, kStep + 1, kD + (reads_d(s) ? 1 : 0)>(x, row, col, batch, n, args);
  }
}
