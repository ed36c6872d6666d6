// Vectors of 32-bit lanes without any header: GCC vector extensions, and inline assembly where a mask, a
// conversion or a dot-product instruction is needed. Lanes = 16 (AVX-512) or 8 (AVX2).
#pragma once

#include "cpu/types.h"

namespace tsr {

template <int kLanes>
struct Vec;

template <>
struct Vec<16> {
  typedef float F __attribute__((vector_size(64), may_alias));
  typedef int I __attribute__((vector_size(64), may_alias));
  typedef unsigned U __attribute__((vector_size(64), may_alias));
  typedef unsigned short H __attribute__((vector_size(32), may_alias));
  typedef unsigned char B __attribute__((vector_size(16), may_alias));
};

template <>
struct Vec<8> {
  typedef float F __attribute__((vector_size(32), may_alias));
  typedef int I __attribute__((vector_size(32), may_alias));
  typedef unsigned U __attribute__((vector_size(32), may_alias));
  typedef unsigned short H __attribute__((vector_size(16), may_alias));
  typedef unsigned char B __attribute__((vector_size(8), may_alias));
};

// Half as many lanes.
template <int L>
struct HalfVec;

template <>
struct HalfVec<16> {
  typedef double D __attribute__((vector_size(64)));
  typedef float F __attribute__((vector_size(32)));
  typedef int I __attribute__((vector_size(32)));
};

template <>
struct HalfVec<8> {
  typedef double D __attribute__((vector_size(32)));
  typedef float F __attribute__((vector_size(16)));
  typedef int I __attribute__((vector_size(16)));
};

#define TSR_INLINE inline __attribute__((always_inline))

constexpr long long kLineBytes = 64;  // of memory, that caches hold or fetch at once

TSR_INLINE long long least(long long x, long long y) { return x < y ? x : y; }
TSR_INLINE long long most(long long x, long long y) { return x > y ? x : y; }

// ---- memory. `live` lanes are touched, the others read as zero; live == kLanes is the fast path.

template <class V>
TSR_INLINE V load_whole(const void* p) {
  struct __attribute__((packed, may_alias)) Unaligned {
    V v;
  };
  return static_cast<const Unaligned*>(p)->v;
}

// The first kBytes of a vector, 8, 16 or half of it; zeros behind.
template <int kBytes, class V>
TSR_INLINE V load_low(const void* p) {
  struct __attribute__((packed, may_alias)) Memory {
    char bytes[kBytes];
  };
  const Memory& from = *static_cast<const Memory*>(p);
  V v;
#ifdef __AVX512F__
#define TSR_LOAD_LOW(instruction) asm(instruction : "=v"(v) : "m"(from))
#else
#define TSR_LOAD_LOW(instruction) asm(instruction : "=x"(v) : "m"(from))
#endif
  if constexpr (kBytes == 8) {
    TSR_LOAD_LOW("vmovsd %1, %x0");
  } else if constexpr (kBytes == 16) {
    TSR_LOAD_LOW("vmovups %1, %x0");
  } else {
    static_assert(kBytes == 32);
    TSR_LOAD_LOW("vmovups %1, %t0");
  }
#undef TSR_LOAD_LOW
  return v;
}

template <class V>
TSR_INLINE void store_whole(void* p, V v) {
  struct __attribute__((packed, may_alias)) Unaligned {
    V v;
  };
  static_cast<Unaligned*>(p)->v = v;
}

// Past the caches, to an address that is a multiple of the vector.
template <class V>
TSR_INLINE void stream_whole(void* p, V v) {
  asm volatile("vmovntdq %1, %0" : "=m"(*static_cast<V*>(p)) : "v"(v));
}

#ifdef __AVX512BW__
TSR_INLINE unsigned mask_of(int live) { return (1u << live) - 1u; }
TSR_INLINE Vec<16>::U load_part(const unsigned* p, int live, Vec<16>::U) {
  Vec<16>::U v;
  asm("vmovdqu32 %2, %0%{%1%}%{z%}" : "=v"(v) : "Yk"(mask_of(live)), "m"(*(const char*)p));
  return v;
}
TSR_INLINE Vec<16>::H load_part(const unsigned short* p, int live, Vec<16>::H) {
  Vec<16>::H v;
  asm("vmovdqu16 %2, %0%{%1%}%{z%}" : "=v"(v) : "Yk"(mask_of(live)), "m"(*(const char*)p));
  return v;
}
TSR_INLINE Vec<16>::B load_part(const unsigned char* p, int live, Vec<16>::B) {
  Vec<16>::B v;
  asm("vmovdqu8 %2, %0%{%1%}%{z%}" : "=v"(v) : "Yk"(mask_of(live)), "m"(*(const char*)p));
  return v;
}
TSR_INLINE void store_part(unsigned* p, int live, Vec<16>::U v) {
  asm volatile("vmovdqu32 %0, %2%{%1%}" ::"v"(v), "Yk"(mask_of(live)), "m"(*(char*)p) : "memory");
}
TSR_INLINE void store_part(unsigned short* p, int live, Vec<16>::H v) {
  asm volatile("vmovdqu16 %0, %2%{%1%}" ::"v"(v), "Yk"(mask_of(live)), "m"(*(char*)p) : "memory");
}
TSR_INLINE void store_part(unsigned char* p, int live, Vec<16>::B v) {
  asm volatile("vmovdqu8 %0, %2%{%1%}" ::"v"(v), "Yk"(mask_of(live)), "m"(*(char*)p) : "memory");
}
#endif

#ifndef __AVX512BW__
// Lanes below `live` are all ones.
TSR_INLINE Vec<8>::I lane_mask(int live) {
  constexpr Vec<8>::I kLanes = {0, 1, 2, 3, 4, 5, 6, 7};
  return kLanes < live;
}
template <class V>
TSR_INLINE V load_masked(const void* p, Vec<8>::I mask) {
  struct __attribute__((packed, may_alias)) Memory {
    char bytes[sizeof(V)];
  };
  V v;
  asm("vpmaskmovd %1, %2, %0" : "=x"(v) : "m"(*static_cast<const Memory*>(p)), "x"(mask));
  return v;
}
TSR_INLINE Vec<8>::U load_part(const unsigned* p, int live, Vec<8>::U) {
  return load_masked<Vec<8>::U>(p, lane_mask(live));
}
#endif

// AVX2 has no masks of bytes and words: lane by lane.
template <class E, class V>
TSR_INLINE V load_part(const E* p, int live, V) {
  V v = {};
  for (int i = 0; i < live; ++i) v[i] = p[i];
  return v;
}
// In pieces of powers of two: AMD's processors take dozens of operations for a masked store.
template <class E, class V>
TSR_INLINE void store_part(E* p, int live, V v) {
  char* to = reinterpret_cast<char*>(p);
  const char* from = reinterpret_cast<const char*>(&v);
  const int bytes = live * static_cast<int>(sizeof(E));
  if (bytes == static_cast<int>(sizeof(V))) return store_whole(p, v);
  const auto piece = [&](auto size) __attribute__((always_inline)) {
    constexpr int kBytes = sizeof(size);
    if (!(bytes & kBytes)) return;
    __builtin_memcpy(to, from, kBytes);
    to += kBytes;
    from += kBytes;
  };
  struct Sixteen {
    char bytes[16];
  };
  if constexpr (sizeof(V) > 16) piece(Sixteen{});
  if constexpr (sizeof(V) > 8) piece(0ll);
  piece(0);
  if constexpr (sizeof(E) < 4) piece(short{});
  if constexpr (sizeof(E) < 2) piece(char{});
}

// ---- conversions

template <int L>
TSR_INLINE typename Vec<L>::F as_float(typename Vec<L>::U u) {
  return (typename Vec<L>::F)u;
}
template <int L>
TSR_INLINE typename Vec<L>::U as_bits(typename Vec<L>::F f) {
  return (typename Vec<L>::U)f;
}
template <int L>
TSR_INLINE typename Vec<L>::F splat(float x) {
  return x - typename Vec<L>::F{};
}
template <int L>
TSR_INLINE typename Vec<L>::F select(typename Vec<L>::I mask, typename Vec<L>::F yes, typename Vec<L>::F no) {
  return (typename Vec<L>::F)(((typename Vec<L>::I)yes & mask) | ((typename Vec<L>::I)no & ~mask));
}

#ifdef __AVX512F__
TSR_INLINE Vec<16>::F half_to_float(Vec<16>::H h) {
  Vec<16>::F f;
  asm("vcvtph2ps %1, %0" : "=v"(f) : "v"(h));
  return f;
}
#endif
TSR_INLINE Vec<8>::F half_to_float(Vec<8>::H h) {
  Vec<8>::F f;
  asm("vcvtph2ps %1, %0" : "=x"(f) : "x"(h));
  return f;
}
#ifdef __AVX512F__
TSR_INLINE Vec<16>::H float_to_half(Vec<16>::F f) {
  Vec<16>::H h;
  asm("vcvtps2ph $0, %1, %0" : "=v"(h) : "v"(f));
  return h;
}
#endif
TSR_INLINE Vec<8>::H float_to_half(Vec<8>::F f) {
  Vec<8>::H h;
  asm("vcvtps2ph $0, %1, %0" : "=x"(h) : "x"(f));
  return h;
}
template <int L>
TSR_INLINE typename Vec<L>::H float_to_bf16(typename Vec<L>::F f) {
  using U = typename Vec<L>::U;
#ifdef __AVX512BF16__
  if constexpr (L == 16) {
    typename Vec<L>::H h;
    asm("vcvtneps2bf16 %1, %0" : "=v"(h) : "v"(f));
    return h;
  }
#endif
  const U u = as_bits<L>(f), rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16, nan = (U)(f != f);
  return __builtin_convertvector((nan & 0x7fc0u) | (~nan & rounded), typename Vec<L>::H);
}
#ifdef __AVX512F__
TSR_INLINE Vec<16>::F round_even(Vec<16>::F f) {
  Vec<16>::F r;
  asm("vrndscaleps $8, %1, %0" : "=v"(r) : "v"(f));
  return r;
}
#endif
TSR_INLINE Vec<8>::F round_even(Vec<8>::F f) {
  Vec<8>::F r;
  asm("vroundps $8, %1, %0" : "=x"(r) : "x"(f));
  return r;
}

// To an 8-bit float of `kMantissa` bits, exponent bias `kBias`, largest finite `max`: round to even,
// saturate, keep NaN.
template <int L, int kMantissa, int kBias>
TSR_INLINE typename Vec<L>::B float_to_f8(typename Vec<L>::F f, float max, unsigned nan) {
  using U = typename Vec<L>::U;
  using I = typename Vec<L>::I;
  using F = typename Vec<L>::F;
  const U bits = as_bits<L>(f), sign = (bits >> 24) & 0x80u;
  F x = as_float<L>(bits & 0x7fffffffu);
  const I is_nan = f != f;
  x = select<L>(x > max, splat<L>(max), x);
  const U u = as_bits<L>(x);
  const U normal =
      ((u + ((1u << (22 - kMantissa)) - 1u) + ((u >> (23 - kMantissa)) & 1u)) >> (23 - kMantissa)) -
      (static_cast<unsigned>(127 - kBias) << kMantissa);
  // Below the least normal number a float addition that aligns the units in the last place does the rounding.
  const float align = static_cast<float>(1u << (23 - (kBias - 1) - kMantissa));
  const U subnormal = as_bits<L>(x + align) - as_bits<L>(splat<L>(align));
  const I small = x < 1.0f / static_cast<float>(1u << (kBias - 1));
  U out = ((U)small & subnormal) | (~(U)small & normal);
  out = ((U)is_nan & nan) | (~(U)is_nan & out);
  return __builtin_convertvector(out | sign, typename Vec<L>::B);
}

// By way of f16, whose conversion is as fast for subnormals as for other numbers.
template <int L>
TSR_INLINE typename Vec<L>::F f8e4m3_to_float(typename Vec<L>::B b) {
  using H = typename Vec<L>::H;
  const H h = __builtin_convertvector(b, H), magnitude = h & 0x7f;
  const auto f = half_to_float((magnitude << 7) | ((h & 0x80) << 8)) * 256.0f;  // exponent biases 15 and 7
  const auto nan = __builtin_convertvector(magnitude, typename Vec<L>::I) == 0x7f;
  return select<L>(nan, as_float<L>(typename Vec<L>::U{} + 0x7fc00000u), f);
}

// Elements of memory type kType as floats.
template <int L, Type kType>
TSR_INLINE typename Vec<L>::F load_float(const void* p, int live) {
  using V = Vec<L>;
  auto bits = [&](auto whole, const auto* q) {
    using W = decltype(whole);
    return live == L ? load_whole<W>(q) : load_part(q, live, whole);
  };
  if constexpr (kType == Type::f32) {
    return as_float<L>(bits(typename V::U{}, static_cast<const unsigned*>(p)));
  } else if constexpr (kType == Type::i32) {
    return __builtin_convertvector((typename V::I)bits(typename V::U{}, static_cast<const unsigned*>(p)),
                                   typename V::F);
  } else if constexpr (kType == Type::f16) {
    return half_to_float(bits(typename V::H{}, static_cast<const unsigned short*>(p)));
  } else if constexpr (kType == Type::bf16) {
    const auto h = bits(typename V::H{}, static_cast<const unsigned short*>(p));
    return as_float<L>(__builtin_convertvector(h, typename V::U) << 16);
  } else if constexpr (kType == Type::f8e5m2) {
    const auto b = bits(typename V::B{}, static_cast<const unsigned char*>(p));
    return half_to_float(__builtin_convertvector(b, typename V::H) << 8);
  } else if constexpr (kType == Type::f8e4m3) {
    return f8e4m3_to_float<L>(bits(typename V::B{}, static_cast<const unsigned char*>(p)));
  } else if constexpr (kType == Type::u8) {
    return __builtin_convertvector(bits(typename V::B{}, static_cast<const unsigned char*>(p)),
                                   typename V::F);
  } else {
    const auto u =
        __builtin_convertvector(bits(typename V::B{}, static_cast<const unsigned char*>(p)), typename V::I);
    return __builtin_convertvector((u ^ 0x80) - 0x80, typename V::F);
  }
}

// Rounded to an integer and saturated to [lo, hi]; NaN becomes 0.
template <int L>
TSR_INLINE typename Vec<L>::I to_int(typename Vec<L>::F f, float lo, float hi) {
  f = select<L>(f == f, f, typename Vec<L>::F{});
  f = select<L>(f < lo, splat<L>(lo), f);
  f = select<L>(f > hi, splat<L>(hi), f);
  return __builtin_convertvector(round_even(f), typename Vec<L>::I);
}

template <int L, Type kType>
TSR_INLINE void store_float(void* p, int live, typename Vec<L>::F f) {
  using V = Vec<L>;
  auto put = [&](auto* q, auto v) { live == L ? store_whole(q, v) : store_part(q, live, v); };
  if constexpr (kType == Type::f32) {
    put(static_cast<unsigned*>(p), as_bits<L>(f));
  } else if constexpr (kType == Type::f16) {
    put(static_cast<unsigned short*>(p), float_to_half(f));
  } else if constexpr (kType == Type::bf16) {
    put(static_cast<unsigned short*>(p), float_to_bf16<L>(f));
  } else if constexpr (kType == Type::f8e4m3) {
    put(static_cast<unsigned char*>(p), float_to_f8<L, 3, 7>(f, 448.0f, 0x7f));
  } else if constexpr (kType == Type::f8e5m2) {
    put(static_cast<unsigned char*>(p), float_to_f8<L, 2, 15>(f, 57344.0f, 0x7e));
  } else if constexpr (kType == Type::i32) {
    // 2^31 - 128 is the largest float below 2^31.
    put(static_cast<unsigned*>(p), (typename V::U)to_int<L>(f, -2147483648.0f, 2147483520.0f));
  } else if constexpr (kType == Type::i8) {
    put(static_cast<unsigned char*>(p),
        __builtin_convertvector(to_int<L>(f, -128.0f, 127.0f), typename V::B));
  } else {
    put(static_cast<unsigned char*>(p), __builtin_convertvector(to_int<L>(f, 0.0f, 255.0f), typename V::B));
  }
}

// ---- elementary functions, NaN in NaN out

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
