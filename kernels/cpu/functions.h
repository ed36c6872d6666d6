// Elementary functions of vectors, NaN in NaN out.
#pragma once

#include "cpu/vec.h"

namespace tsr {

// y x^n + k[0] x^(n-1) + ... + k[n-1]
template <class F, int n>
TSR_INLINE F horner(F y, F x, const float (&k)[n]) {
#pragma GCC unroll 16
  for (int i = 0; i < n; ++i) y = y * x + k[i];
  return y;
}

// x^2 - s, exactly, when s is x^2 rounded.
#ifdef __AVX512F__
TSR_INLINE Vec<16>::F residual(Vec<16>::F x, Vec<16>::F s) {
  Vec<16>::F r = s;
  asm("vfmsub231ps %1, %1, %0" : "+v"(r) : "v"(x));
  return r;
}
#endif
TSR_INLINE Vec<8>::F residual(Vec<8>::F x, Vec<8>::F s) {
  Vec<8>::F r = s;
  asm("vfmsub231ps %1, %1, %0" : "+x"(r) : "x"(x));
  return r;
}

// 2^n e^r with |r| <= ln2 / 2; the polynomial is the Taylor series to r^7, error below one unit in the last
// place.
template <int L>
TSR_INLINE typename Vec<L>::F exp(typename Vec<L>::F x) {
  using F = typename Vec<L>::F;
  using I = typename Vec<L>::I;
  F c = select<L>(x < -87.3365f, splat<L>(-87.3365f), x);
  c = select<L>(c > 88.7228f, splat<L>(88.7228f), c);
  const F n = round_even(c * 1.44269504f);
  const F r = (c - n * 0.693359375f) + n * 2.12194440e-4f;
  F y = horner(splat<L>(1.98412698e-4f), r,
               {1.38888889e-3f, 8.33333333e-3f, 4.16666667e-2f, 1.66666667e-1f, 0.5f, 1.0f, 1.0f});
  // In two factors, since 2^128 has no float.
  const I i = __builtin_convertvector(select<L>(n == n, n, F{}), I), half = i >> 1;
  y = y * (F)((half + 127) << 23) * (F)((i - half + 127) << 23);
  y = select<L>(x > 88.7228f, splat<L>(__builtin_inff()), y);
  return select<L>(x < -87.3365f, F{}, y);
}

template <int L>
TSR_INLINE typename Vec<L>::F abs(typename Vec<L>::F x) {
  return as_float<L>(as_bits<L>(x) & 0x7fffffffu);
}

template <int L>
TSR_INLINE typename Vec<L>::F sigmoid(typename Vec<L>::F x) {
  return 1.0f / (1.0f + exp<L>(-x));
}

// Odd series near zero, where 1 - 2 / (e^2x + 1) would cancel.
template <int L>
TSR_INLINE typename Vec<L>::F tanh(typename Vec<L>::F x) {
  using F = typename Vec<L>::F;
  const F a = abs<L>(x), s = x * x;
  F series = horner(splat<L>(-5.70498872745e-3f), s,  // minimax on [0, 0.625], Cephes
                    {2.06390887954e-2f, -5.37397155531e-2f, 1.33314422036e-1f, -3.33332819422e-1f});
  series = series * s * x + x;
  const F far = 1.0f - 2.0f / (exp<L>(2.0f * a) + 1.0f);
  const F signed_far = as_float<L>(as_bits<L>(far) | (as_bits<L>(x) & 0x80000000u));
  return select<L>(x != x, x, select<L>(a < 0.625f, series, signed_far));
}

// x Phi(x). Near zero by the series of Phi; elsewhere Phi(-|x|) = t e^(p(t) - x^2 / 2) / 2 with a Chebyshev
// fit p (W. Press et al., Numerical Recipes, 6.2.2), where what rounding takes from the exponent is given
// back as a factor.
template <int L>
TSR_INLINE typename Vec<L>::F gelu(typename Vec<L>::F x) {
  using F = typename Vec<L>::F;
  F a = abs<L>(x);
  a = select<L>(a > 16.0f, splat<L>(16.0f), a);  // where Phi(-a) is zero in f32
  const F s = a * a, h = 0.5f * s;
  const F series =
      horner(splat<L>(6.6597e-7f), s,  // 1 / sqrt(2 pi) times 1, -1/6, 1/40, -1/336, ...
             {-9.44464e-6f, 1.15434882e-4f, -1.18732822e-3f, 9.97355701e-3f, -6.64903801e-2f, 0.398942280f});
  const F near = x * (0.5f + x * series);
  const F t = 1.0f / (1.0f + 0.35355339f * a);
  const F p = horner(splat<L>(0.17087277f), t,
                     {-0.82215223f, 1.48851587f, -1.13520398f, 0.27886807f, -0.18628806f, 0.09678418f,
                      0.37409196f, 1.00002368f, -1.26551223f});
  const F e = p - h, lost = (p - (e + h)) - 0.5f * residual(a, s);
  const F tail = t * exp<L>(e);
  const F lower = tail + tail * lost;
  const F far = 0.5f * x * select<L>(x < 0.0f, lower, 2.0f - lower);
  return select<L>(s < 0.5f, near, far);
}

}  // namespace tsr
