// Reading 16 bytes from any address: from aligned pieces that hold some of the wanted bytes, never from
// others.
#pragma once

#include "cuda/ptx.h"

namespace tsr {

namespace unaligned {

__device__ __forceinline__ int skip_of(const char* at) {
  return static_cast<int>(reinterpret_cast<u64>(at) % 16);
}

__device__ __forceinline__ uint4 combine(uint4 a, uint4 b, int skip) {
  if (skip & 8) a.x = a.z, a.y = a.w, a.z = b.x, a.w = b.y, b.x = b.z, b.y = b.w;
  if (skip & 4) a.x = a.y, a.y = a.z, a.z = a.w, a.w = b.x, b.x = b.y;
  const u32 bits = skip % 4 * 8;
  return make_uint4(__funnelshift_r(a.x, a.y, bits), __funnelshift_r(a.y, a.z, bits),
                    __funnelshift_r(a.z, a.w, bits), __funnelshift_r(a.w, b.x, bits));
}

// `left`: bytes from `at` on that are wanted, at least 1; what follows them is undefined.
__device__ __forceinline__ uint4 load(const char* at, int left) {
  const int skip = skip_of(at);
  const uint4* from = reinterpret_cast<const uint4*>(at - skip);
  const uint4 a = __ldg(from);
  const uint4 b = skip > 0 && left > 16 - skip ? __ldg(from + 1) : make_uint4(0, 0, 0, 0);
  return combine(a, b, skip);
}

// The first `left` bytes, the others zero.
__device__ __forceinline__ u32 first_bytes(u32 word, int left) {
  return left >= 4 ? word : left <= 0 ? 0 : word & ((1u << 8 * left) - 1);
}
__device__ __forceinline__ uint4 first_bytes(uint4 v, int left) {
  return make_uint4(first_bytes(v.x, left), first_bytes(v.y, left - 4), first_bytes(v.z, left - 8),
                    first_bytes(v.w, left - 12));
}

}  // namespace unaligned

}  // namespace tsr
