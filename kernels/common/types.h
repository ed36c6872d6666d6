// Names that the prelude of a generated unit uses on any device. Same order as DType and EpilogueKind.
#pragma once

namespace tsr {

enum class Type : int { f32, f16, bf16, f8e4m3, f8e5m2, i8, u8, i32 };

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

}  // namespace tsr
