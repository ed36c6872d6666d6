// Element types as kernels see them: in memory a type is its bits, in registers a float (or an int of i8 products).
#pragma once

enum class Type : int { f32, f16, bf16, f8e4m3, f8e5m2, i8, u8, i32 };

constexpr int bytes_of(Type t) {
  return t == Type::f32 || t == Type::i32 ? 4 : t == Type::f16 || t == Type::bf16 ? 2 : 1;
}

template <int kBytes> struct BitsOf;
template <> struct BitsOf<1> { typedef unsigned char type; };
template <> struct BitsOf<2> { typedef unsigned short type; };
template <> struct BitsOf<4> { typedef unsigned int type; };
template <Type kType> using Bits = typename BitsOf<bytes_of(kType)>::type;
