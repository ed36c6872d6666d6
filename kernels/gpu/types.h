// Names that the prelude of a generated GPU unit uses. Same order as DType, EpilogueKind and the instruction
// names of arch/. In memory a type is its bits, in registers a float (or an int of i8 products).
#pragma once

namespace tsr {

enum class Type : int { f32, f16, bf16, f8e4m3, f8e5m2, i8, u8, i32 };

enum class Inst : int { wgmma, mma, fma, dp4a, mfma, wmma };

enum class Step : int {
  bias,
  add,
  add_row,
  add_col,
  mul,
  mul_row,
  mul_col,
  scale,
  relu,
  leaky_relu,
  gelu,
  gelu_tanh,
  silu,
  sigmoid,
  tanh,
  hardswish,
  clamp,
  quant,
  none
};

constexpr int bytes_of(Type t) {
  return t == Type::f32 || t == Type::i32 ? 4 : t == Type::f16 || t == Type::bf16 ? 2 : 1;
}
constexpr bool is_float(Type t) { return t != Type::i8 && t != Type::u8 && t != Type::i32; }

constexpr bool reads_d(Step s) { return s <= Step::mul_col; }
constexpr bool reads_row(Step s) { return s == Step::bias || s == Step::add_row || s == Step::mul_row; }
constexpr bool reads_column(Step s) { return s == Step::add_col || s == Step::mul_col; }

template <int kBytes>
struct BitsOf;
template <>
struct BitsOf<1> {
  typedef unsigned char type;
};
template <>
struct BitsOf<2> {
  typedef unsigned short type;
};
template <>
struct BitsOf<4> {
  typedef unsigned int type;
};
template <Type kType>
using Bits = typename BitsOf<bytes_of(kType)>::type;

}  // namespace tsr
