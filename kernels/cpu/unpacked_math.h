// Elements of both operands side by side in vectors, and the products of those: what words (words.h) and dot
// products along k (dot_math.h) have in common. "Rows" is the operand that C's rows come from, A, or with
// swap_ab, which computes C^T, B.
#pragma once

#include "cpu/lines.h"
#include "cpu/multiply.h"

namespace tsr {

template <class C>
struct UnpackedMath {
  static constexpr int L = C::vector_bits / 32;
  static constexpr Type kRow = C::swap_ab ? C::type_b : C::type_a;
  static constexpr Type kCol = C::swap_ab ? C::type_a : C::type_b;
  static constexpr bool kVnni = C::inst == Inst::vnni, kMadd = C::inst == Inst::madd16,
                        kPairs = C::inst == Inst::dpbf16;
  static_assert(!kPairs || (kRow == Type::bf16 && kCol == Type::bf16));
  static constexpr int kGroup = kVnni ? 4 : kMadd || kPairs ? 2 : 1;  // elements of k in a lane
  // vpdpbusd wants unsigned x signed: of two signed operands one is moved up by 128, and 128 * (sum of the
  // other) is taken off the result.
  static constexpr bool kOffset = kVnni && kRow != Type::u8 && kCol != Type::u8;

  using F = typename Vec<L>::F;
  using I = typename Vec<L>::I;
  using U = typename Vec<L>::U;
  using Acc = typename Accumulator<L, kVnni || kMadd>::type;

  // Elements along k: `part` of kGroup * L.
  template <Type kType>
  static TSR_INLINE U along(const char* p, Part part) {
    if constexpr (kVnni) {
      return load_copy8<U>(p, part);
    } else if constexpr (kPairs) {
      return load_copy16<U>(p, part);
    } else if constexpr (kMadd && kType == Type::u8) {
      return load_u8_as_16<U>(p, part);
    } else if constexpr (kMadd) {
      return load_i8_as_16<U>(p, part);
    } else {
      return as_bits<L>(load_floats<L, kType>(p, part));
    }
  }

  // kRowIsUnsigned: where the instruction takes unsigned x signed, else the column is the unsigned one.
  template <bool kRowIsUnsigned>
  static TSR_INLINE Acc multiply(Acc c, Acc row, Acc col) {
    if constexpr (kVnni && kRowIsUnsigned) {
      return dot_u8(c, row, col);
    } else if constexpr (kVnni) {
      return dot_u8(c, col, row);
    } else if constexpr (kMadd) {
      return c + dot_i16(row, col);
    } else if constexpr (kPairs) {
      return dot_bf16(c, row, col);
    } else {
      return c + row * col;
    }
  }
};

}  // namespace tsr
