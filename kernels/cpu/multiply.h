// The instructions that multiply and add.
#pragma once

#include "cpu/types.h"
#include "cpu/vec.h"

namespace tsr {

// acc += a * b on 32-bit lanes, each lane one k group: 1 float, 2 16-bit or 4 8-bit elements. With 16 registers
// the order is as written: a compiler that moves loads, or sums into other registers, spills what it has not.
template <Inst kInst, class U>
TSR_INLINE void multiply_add(U& acc, U a, U b) {
  constexpr int L = sizeof(U) / 4;
  if constexpr (kInst == Inst::fma && L == 8) {
    asm volatile("vfmadd231ps %2, %1, %0" : "+x"(acc) : "x"(a), "x"(b));
  } else if constexpr (kInst == Inst::fma) {
    acc = as_bits<L>(as_float<L>(acc) + as_float<L>(a) * as_float<L>(b));
  } else if constexpr (kInst == Inst::dpbf16) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(acc) : "v"(a), "v"(b));
  } else if constexpr (kInst == Inst::vnni) {
    asm("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(a), "v"(b));
  } else if constexpr (L == 8) {
    U product;
    asm volatile("vpmaddwd %3, %2, %1\n\tvpaddd %1, %0, %0" : "+x"(acc), "=&x"(product) : "x"(a), "x"(b));
  } else {
    U product;
    asm("vpmaddwd %2, %1, %0" : "=v"(product) : "v"(a), "v"(b));
    acc += product;
  }
}

}  // namespace tsr
