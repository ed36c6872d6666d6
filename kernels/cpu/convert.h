// Between floats and the element types of memory, a vector at a time.
#pragma once

#include "cpu/types.h"
#include "cpu/vec.h"

namespace tsr {

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

}  // namespace tsr
