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
    asm("vdpbf16ps %2, %1, %0" : "+v"(acc) : "v"(a), "v"(b));
  } else if constexpr (kInst == Inst::vnni) {
    asm("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(a), "v"(b));
  } else if constexpr (kFewRegisters) {
    V product;
    asm volatile("vpmaddwd %3, %2, %1\n\tvpaddd %1, %0, %0" : "+x"(acc), "=&x"(product) : "x"(a), "x"(b));
  } else {
    V product;
    asm("vpmaddwd %2, %1, %0" : "=v"(product) : "v"(a), "v"(b));
    acc += product;
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
