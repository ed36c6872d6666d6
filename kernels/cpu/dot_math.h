// One step of cpu_dot along k, kStep elements of both operands: how they are read, and multiplied.
#pragma once

#include "cpu/lines.h"
#include "cpu/unpacked_math.h"

namespace tsr {

template <class C>
struct DotMath : UnpackedMath<C> {
  using Base = UnpackedMath<C>;
  using Base::kCol, Base::kGroup, Base::kOffset, Base::kPairs, Base::kRow, Base::kVnni, Base::L;
  using typename Base::Acc, typename Base::F, typename Base::I;
  // Two bf16 of a 32-bit lane become two floats by a shift and a mask: a dot product does not mind the order
  // of k.
  static constexpr bool kHalves = C::inst == Inst::fma && kRow == Type::bf16 && kCol == Type::bf16;
  static constexpr int kStep = (kHalves ? 2 : kGroup) * L;

  struct Fragment {
    Acc x, y;  // y where a step takes two multiplications
  };

  template <Type kType>
  static TSR_INLINE Fragment load(const char* p, Part part) {
    if constexpr (kHalves) {
      return halves(load_copy16<I>(p, part));
    } else {
      return {(Acc)Base::template along<kType>(p, part), Acc{}};
    }
  }
  // A whole step: where memory needs no conversion the load stays visible to the compiler, which may fold it.
  template <Type kType>
  static TSR_INLINE Fragment load(const char* p) {
    if constexpr (kVnni || kPairs || kType == Type::f32) {
      return {load_whole<Acc>(p), Acc{}};
    } else if constexpr (kHalves) {
      return halves(load_whole<I>(p));
    } else {
      return load<kType>(p, Part(kStep));
    }
  }
  static TSR_INLINE Fragment halves(I v) { return {(F)(v << 16), (F)(v & static_cast<int>(0xffff0000u))}; }

  template <class... Rest>
  static TSR_INLINE Fragment load_row(const char* p, Rest... part) {
    return load<kRow>(p, part...);
  }
  // It is the columns that kOffset moves.
  template <class... Rest>
  static TSR_INLINE Fragment load_col(const char* p, Rest... part) {
    Fragment f = load<kCol>(p, part...);
    if constexpr (kOffset) f.x ^= static_cast<int>(0x80808080u);
    return f;
  }

  static TSR_INLINE Acc multiply(Acc c, const Fragment& row, const Fragment& col) {
    c = Base::template multiply<kRow == Type::u8>(c, row.x, col.x);
    if constexpr (kHalves) c = c + row.y * col.y;
    return c;
  }
};

}  // namespace tsr
