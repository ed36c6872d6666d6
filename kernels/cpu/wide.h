// Vectors of f64 beside those of f32: as many lanes, in two registers.
#pragma once

#include "cpu/vec.h"

namespace tsr {

template <int L>
struct Wide {
  typedef typename Vec<L>::F F;
  typedef typename Vec<L>::I I;
  typedef typename HalfVec<L>::D D;
  typedef typename HalfVec<L>::F HalfF;
  typedef typename HalfVec<L>::I HalfI;
  typedef decltype(D{} < D{}) M;
  struct Mask {
    M low, high;
  };

  D low, high;

  TSR_INLINE Wide() : low{}, high{} {}
  TSR_INLINE Wide(double x) : low(x - D{}), high(x - D{}) {}
  TSR_INLINE Wide(D l, D h) : low(l), high(h) {}

  static TSR_INLINE Wide of(F x) { return from<HalfF>(x); }
  static TSR_INLINE Wide of(I x) { return from<HalfI>(x); }
  TSR_INLINE F floats() const { return to<HalfF, F>(*this); }
  // Rounded to the nearest whole number, the even one of two, below 2^51.
  TSR_INLINE Wide rounded() const {
    constexpr double kAlign = 0x1.8p52;  // the unit in the last place of numbers around it is 1
    const Wide aligned = *this + Wide(kAlign);
    return aligned - Wide(kAlign);
  }
  // The same, saturated; NaN becomes 0.
  TSR_INLINE I integers() const {
    Wide x = pick(*this == *this, *this, Wide());
    x = pick(x < Wide(-2147483648.0), Wide(-2147483648.0), x);
    x = pick(x > Wide(2147483647.0), Wide(2147483647.0), x);
    return to<HalfI, I>(x.rounded());
  }

  friend TSR_INLINE Wide operator+(Wide x, Wide y) { return {x.low + y.low, x.high + y.high}; }
  friend TSR_INLINE Wide operator-(Wide x, Wide y) { return {x.low - y.low, x.high - y.high}; }
  friend TSR_INLINE Wide operator*(Wide x, Wide y) { return {x.low * y.low, x.high * y.high}; }
  friend TSR_INLINE Mask operator<(Wide x, Wide y) { return {x.low < y.low, x.high < y.high}; }
  friend TSR_INLINE Mask operator>(Wide x, Wide y) { return {x.low > y.low, x.high > y.high}; }
  friend TSR_INLINE Mask operator==(Wide x, Wide y) { return {x.low == y.low, x.high == y.high}; }
  static TSR_INLINE Wide pick(Mask m, Wide yes, Wide no) {
    return {m.low ? yes.low : no.low, m.high ? yes.high : no.high};
  }

 private:
  // Halves of a vector come by way of memory.
  template <class Half, class V>
  static TSR_INLINE Wide from(V x) {
    Half half[2];
    __builtin_memcpy(half, &x, sizeof(x));
    return {__builtin_convertvector(half[0], D), __builtin_convertvector(half[1], D)};
  }
  template <class Half, class V>
  static TSR_INLINE V to(Wide x) {
    const Half half[2] = {__builtin_convertvector(x.low, Half), __builtin_convertvector(x.high, Half)};
    V out;
    __builtin_memcpy(&out, half, sizeof(out));
    return out;
  }
};

}  // namespace tsr
