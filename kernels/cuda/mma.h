// mma.sync: D (16 x 8) += A (16 x 32 bytes) B (32 bytes x 8), operands and sums in the registers of one warp;
// ldmatrix and cp.async, which feed it.
#pragma once

#include "cuda/ptx.h"
#include "gpu/types.h"

namespace tsr {

// Lane 4 g + t holds rows g and g + 8 of A, column g of B, and of D columns 2 t and 2 t + 1 of rows g and g
// + 8.
#define TSR_MMA(shape, sum, operand, types)                                       \
  asm volatile("mma.sync.aligned." shape ".row.col." sum "." types "." sum        \
               " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
               : operand(d[0]), operand(d[1]), operand(d[2]), operand(d[3])       \
               : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1))
#define TSR_MMA_FLOAT(types) TSR_MMA("m16n8k16", "f32", "+f", types)
#define TSR_MMA_INTEGER(types) TSR_MMA("m16n8k32", "s32", "+r", types)

template <Type kA, Type kB>
__device__ __forceinline__ void mma(float (&d)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
  if constexpr (kA == Type::bf16) {
    TSR_MMA_FLOAT("bf16.bf16");
  } else {  // f16, and 8-bit floats converted to it
    TSR_MMA_FLOAT("f16.f16");
  }
}
template <Type kA, Type kB>
__device__ __forceinline__ void mma(int (&d)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
  if constexpr (kA == Type::u8 && kB == Type::u8) {
    TSR_MMA_INTEGER("u8.u8");
  } else if constexpr (kA == Type::u8) {
    TSR_MMA_INTEGER("u8.s8");
  } else if constexpr (kB == Type::u8) {
    TSR_MMA_INTEGER("s8.u8");
  } else {
    TSR_MMA_INTEGER("s8.s8");
  }
}
#undef TSR_MMA_INTEGER
#undef TSR_MMA_FLOAT
#undef TSR_MMA

namespace ptx {

__device__ __forceinline__ void ldmatrix(u32 (&r)[4], u32 from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(from)
               : "memory");
}
__device__ __forceinline__ void ldmatrix_transposed(u32 (&r)[4], u32 from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(from)
               : "memory");
}

// 16 bytes, of which those beyond the first `bytes` become zero.
__device__ __forceinline__ void cp_async(u32 to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kPending>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

__device__ __forceinline__ void store_shared(u32 to, const uint4& v) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}

}  // namespace ptx

// Two pairs of 8-bit floats to two pairs of f16, exactly.
template <Type kType>
__device__ __forceinline__ void to_halves(u32 word, u32& lo, u32& hi) {
  if constexpr (kType == Type::f8e4m3) {
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(lo) : "h"(static_cast<u16>(word)));
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(hi) : "h"(static_cast<u16>(word >> 16)));
  } else {
    asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(lo) : "h"(static_cast<u16>(word)));
    asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(hi) : "h"(static_cast<u16>(word >> 16)));
  }
}

}  // namespace tsr
