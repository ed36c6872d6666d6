// AMX tile registers: 16 rows of 64 bytes each.
#pragma once

#include "cpu/vec.h"

namespace tsr {

template <int kTile>
TSR_INLINE void tile_zero() {
  asm volatile("tilezero %%tmm%c0" ::"i"(kTile));
}
template <int kTile>
TSR_INLINE void tile_load(const void* p, long long stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(p), "r"(stride), "i"(kTile) : "memory");
}
// The same past L1: what lies there stays (tileloaddt1, "no reuse at L1").
template <int kTile>
TSR_INLINE void tile_stream(const void* p, long long stride) {
  asm volatile("tileloaddt1 (%0,%1,1), %%tmm%c2" ::"r"(p), "r"(stride), "i"(kTile) : "memory");
}
template <int kTile, bool kStreamed>
TSR_INLINE void tile_load(const void* p, long long stride) {
  kStreamed ? tile_stream<kTile>(p, stride) : tile_load<kTile>(p, stride);
}
template <int kTile>
TSR_INLINE void tile_store(void* p, long long stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(p), "r"(stride), "i"(kTile) : "memory");
}

// kAcc += kA * kB, pairs of bf16.
template <int kAcc, int kA, int kB>
TSR_INLINE void tile_multiply_bf16() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kAcc), "i"(kA), "i"(kB));
}

// f.template operator()<i>() for i from 0 to kCount - 1: tile numbers are part of the instructions.
template <int kCount, class F>
TSR_INLINE void each_tile(const F& f) {
  if constexpr (kCount > 0) {
    each_tile<kCount - 1>(f);
    f.template operator()<kCount - 1>();
  }
}

}  // namespace tsr
