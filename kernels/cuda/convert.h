// Conversions between memory types and float, and packing of neighbours for wide stores.
#pragma once

#include "cuda/ptx.h"
#include "gpu/types.h"

namespace tsr {

template <Type kType>
__device__ __forceinline__ float to_float(Bits<kType> x) {
  float f;
  if constexpr (kType == Type::f32) {
    f = __uint_as_float(x);
  } else if constexpr (kType == Type::i32) {
    f = static_cast<float>(static_cast<int>(x));
  } else if constexpr (kType == Type::bf16) {
    f = __uint_as_float(static_cast<u32>(x) << 16);
  } else if constexpr (kType == Type::f16) {
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(x));
  } else if constexpr (kType == Type::i8) {
    f = static_cast<float>(static_cast<signed char>(x));
  } else if constexpr (kType == Type::u8) {
    f = static_cast<float>(x);
  } else {
    u32 halves;
    if constexpr (kType == Type::f8e4m3)
      asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(static_cast<u16>(x)));
    else
      asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(halves) : "h"(static_cast<u16>(x)));
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(static_cast<u16>(halves)));
  }
  return f;
}

// The same as float or double: 32-bit integers are doubles as they are.
template <Type kType>
__device__ __forceinline__ void convert(Bits<kType> x, float& to) {
  to = to_float<kType>(x);
}
template <Type kType>
__device__ __forceinline__ void convert(Bits<kType> x, double& to) {
  if constexpr (kType == Type::i32) {
    to = static_cast<int>(x);
  } else {
    to = to_float<kType>(x);
  }
}

// Two neighbours as bits, the first in the low half.
template <Type kType>
__device__ __forceinline__ u32 pack2(float lo, float hi) {
  static_assert(bytes_of(kType) < 4, "two 4-byte elements do not fit one register");
  u32 r;
  if constexpr (kType == Type::bf16) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
  } else if constexpr (kType == Type::f16) {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
  } else if constexpr (kType == Type::i8 || kType == Type::u8) {
    u32 a, b;
    if constexpr (kType == Type::i8) {
      asm("cvt.rni.sat.s8.f32 %0, %1;" : "=r"(a) : "f"(lo));
      asm("cvt.rni.sat.s8.f32 %0, %1;" : "=r"(b) : "f"(hi));
    } else {
      asm("cvt.rni.sat.u8.f32 %0, %1;" : "=r"(a) : "f"(lo));
      asm("cvt.rni.sat.u8.f32 %0, %1;" : "=r"(b) : "f"(hi));
    }
    r = (a & 0xff) | (b & 0xff) << 8;
  } else {
    u16 h;
    if constexpr (kType == Type::f8e4m3)
      asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(h) : "f"(hi), "f"(lo));
    else
      asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(h) : "f"(hi), "f"(lo));
    r = h;
  }
  return r;
}

template <Type kType>
__device__ __forceinline__ u32 word_of(float x) {  // of 4-byte types
  if constexpr (kType == Type::i32) {
    int i;
    asm("cvt.rni.s32.f32 %0, %1;" : "=r"(i) : "f"(x));
    return static_cast<u32>(i);
  } else {
    return __float_as_uint(x);
  }
}

template <Type kType>
__device__ __forceinline__ u32 word_of(double x) {  // of i32, saturated
  static_assert(kType == Type::i32);
  int i;
  asm("cvt.rni.s32.f64 %0, %1;" : "=r"(i) : "d"(x));
  return static_cast<u32>(i);
}

// One element, or four that are aligned together.
template <Type kType, class X>
__device__ __forceinline__ void load(const Bits<kType>* p, X (&x)[1]) {
  convert<kType>(*p, x[0]);
}
template <Type kType, class X>
__device__ __forceinline__ void load(const Bits<kType>* p, X (&x)[4]) {
  Bits<kType> v[4];
  if constexpr (bytes_of(kType) == 4) {
    *reinterpret_cast<uint4*>(v) = *reinterpret_cast<const uint4*>(p);
  } else if constexpr (bytes_of(kType) == 2) {
    *reinterpret_cast<uint2*>(v) = *reinterpret_cast<const uint2*>(p);
  } else {
    *reinterpret_cast<u32*>(v) = *reinterpret_cast<const u32*>(p);
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) convert<kType>(v[i], x[i]);
}

template <Type kType, class X>
__device__ __forceinline__ void store(Bits<kType>* p, const X (&x)[1]) {
  if constexpr (bytes_of(kType) == 4) {
    *p = word_of<kType>(x[0]);
  } else {
    *p = static_cast<Bits<kType>>(pack2<kType>(x[0], 0));
  }
}
template <Type kType, class X>
__device__ __forceinline__ void store(Bits<kType>* p, const X (&x)[4]) {
  if constexpr (bytes_of(kType) == 4) {
    *reinterpret_cast<uint4*>(p) =
        make_uint4(word_of<kType>(x[0]), word_of<kType>(x[1]), word_of<kType>(x[2]), word_of<kType>(x[3]));
  } else {
    const u32 lo = pack2<kType>(x[0], x[1]), hi = pack2<kType>(x[2], x[3]);
    if constexpr (bytes_of(kType) == 2) {
      *reinterpret_cast<uint2*>(p) = make_uint2(lo, hi);
    } else {
      *reinterpret_cast<u32*>(p) = lo | hi << 16;
    }
  }
}

}  // namespace tsr
