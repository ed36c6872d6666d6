// The instructions that multiply and add.
#pragma once

#include "cpu/types.h"
#include "cpu/vec.h"

namespace tsr {

// Of 16 vector registers a tile fills all but one or two: its products come in the order written, for a
// compiler that moves loads, or sums into other registers, spills what it has not got.
#ifdef __AVX512F__
constexpr bool kFewRegisters = false;
#else
constexpr bool kFewRegisters = true;
#endif

// AVX-VNNI's encoding is not that of AVX512-VNNI, which an assembler takes if it is not told.
#ifdef __AVX512F__
#define TSR_VPDPBUSD "vpdpbusd"
#else
#define TSR_VPDPBUSD "%{vex%} vpdpbusd"
#endif

// Of 32-bit lanes: sum and the products of a lane's four bytes, of which u's are unsigned and s's signed.
template <class V>
TSR_INLINE V dot_u8(V sum, V u, V s) {
  asm(TSR_VPDPBUSD " %2, %1, %0" : "+v"(sum) : "v"(u), "v"(s));
  return sum;
}

// Sum and the products of a lane's two bf16.
template <class V>
TSR_INLINE V dot_bf16(V sum, V x, V y) {
  asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(x), "v"(y));
  return sum;
}

// The sum of the products of a lane's two signed 16-bit integers.
template <class V>
TSR_INLINE V dot_i16(V x, V y) {
  V sum;
#ifdef __AVX512BW__
  asm("vpmaddwd %2, %1, %0" : "=v"(sum) : "v"(x), "v"(y));
#else
  asm("vpmaddwd %2, %1, %0" : "=x"(sum) : "x"(x), "x"(y));
#endif
  return sum;
}

// acc += a * b on 32-bit lanes, each lane one k group: 1 float, 2 16-bit or 4 8-bit elements.
// multiply_add_half does so on the lower half of the lanes, and the others of acc become zero.
template <Inst kInst, class V>
TSR_INLINE void multiply_add(V& acc, V a, V b) {
  constexpr int L = sizeof(V) / 4;
  if constexpr (kInst == Inst::fma && kFewRegisters) {
    asm volatile("vfmadd231ps %2, %1, %0" : "+x"(acc) : "x"(a), "x"(b));
  } else if constexpr (kInst == Inst::fma) {
    acc = as_bits<L>(as_float<L>(acc) + as_float<L>(a) * as_float<L>(b));
  } else if constexpr (kInst == Inst::dpbf16) {
    acc = dot_bf16(acc, a, b);
  } else if constexpr (kInst == Inst::vnni && kFewRegisters) {
    asm volatile(TSR_VPDPBUSD " %2, %1, %0" : "+x"(acc) : "x"(a), "x"(b));
  } else if constexpr (kInst == Inst::vnni) {
    acc = dot_u8(acc, a, b);
  } else if constexpr (kFewRegisters) {
    V product;
    asm volatile("vpmaddwd %3, %2, %1\n\tvpaddd %1, %0, %0" : "+x"(acc), "=&x"(product) : "x"(a), "x"(b));
  } else {
    acc += dot_i16(a, b);
  }
}
template <Inst kInst, class V>
TSR_INLINE void multiply_add_half(V& acc, V a, V b) {
  if constexpr (kInst == Inst::fma) {
    asm("vfmadd231ps %t2, %t1, %t0" : "+v"(acc) : "v"(a), "v"(b));
  } else if constexpr (kInst == Inst::dpbf16) {
    asm("vdpbf16ps %t2, %t1, %t0" : "+v"(acc) : "v"(a), "v"(b));
  } else {
    static_assert(kInst == Inst::vnni);
    asm("vpdpbusd %t2, %t1, %t0" : "+v"(acc) : "v"(a), "v"(b));
  }
}

}  // namespace tsr
