// Copies matrices whose rows start anywhere into rows that start at multiples of 16 bytes, for kernels that load by TMA.
#pragma once

#include "cuda/abi.h"
#include "cuda/ptx.h"

namespace tsr {

struct Realign {
  static constexpr int kThreads = kRealignThreads;

  // 16 bytes from an address that lies `skip` bytes behind one of 16. `more`: bytes of the second 16 are wanted, too.
  static __device__ __forceinline__ uint4 load(const char* at, int skip, bool more) {
    const uint4* from = reinterpret_cast<const uint4*>(at - skip);
    uint4 a = __ldg(from), b = more ? __ldg(from + 1) : make_uint4(0, 0, 0, 0);
    if (skip & 8) a.x = a.z, a.y = a.w, a.z = b.x, a.w = b.y, b.x = b.z, b.y = b.w;
    if (skip & 4) a.x = a.y, a.y = a.z, a.z = a.w, a.w = b.x, b.x = b.y;
    u32 bits = skip % 4 * 8;
    return make_uint4(__funnelshift_r(a.x, a.y, bits), __funnelshift_r(a.y, a.z, bits), __funnelshift_r(a.z, a.w, bits),
                      __funnelshift_r(a.w, b.x, bits));
  }

  // A warp a row. Reads no 16 bytes that hold none of the row's.
  static __device__ __forceinline__ void run(const RealignParams& params) {
    const int lane = threadIdx.x % 32;
    const i64 warps = static_cast<i64>(gridDim.x) * (kThreads / 32);
    const i64 warp = static_cast<i64>(blockIdx.x) * (kThreads / 32) + threadIdx.x / 32;
#pragma unroll 1
    for (int j = 0; j < 2; ++j) {
      const RealignJob& job = params.jobs[j];
#pragma unroll 1
      for (i64 row = warp; row < job.rows * job.groups; row += warps) {
        const i64 group = row / job.rows, in_group = row - group * job.rows;
        const char* from = static_cast<const char*>(job.from) + group * job.group_bytes + in_group * job.stride_bytes;
        char* to = static_cast<char*>(job.to) + row * job.to_stride_bytes;
        const int skip = static_cast<int>(reinterpret_cast<u64>(from) % 16);
#pragma unroll 4
        for (i64 at = lane * 16; at < job.row_bytes; at += 512)
          *reinterpret_cast<uint4*>(to + at) = load(from + at, skip, skip > 0 && at + 16 - skip < job.row_bytes);
      }
    }
    ptx::let_next_kernel_start();
  }
};

}  // namespace tsr
