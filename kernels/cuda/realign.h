// Copies matrices whose rows start anywhere into rows that start at multiples of 16 bytes, for kernels that
// load by TMA.
#pragma once

#include "cuda/abi.h"
#include "cuda/unaligned.h"

namespace tsr {

struct Realign {
  static constexpr int kThreads = kRealignThreads;

  // A warp a segment of a row. Reads no 16 bytes that hold none of the row's.
  static __device__ __forceinline__ void run(const RealignParams& params) {
    // The kernel before it may write what is copied, or read the copies of the call before. The one after it
    // waits for all of them, so it may take its place already.
    ptx::wait_for_previous_kernel();
    ptx::let_next_kernel_start();
    constexpr int kSegment = kRealignSegment, kStep = 512;  // bytes; of a warp at once
    const int lane = threadIdx.x % 32;
    const i64 warps = static_cast<i64>(gridDim.x) * (kThreads / 32);
    const i64 warp = static_cast<i64>(blockIdx.x) * (kThreads / 32) + threadIdx.x / 32;
#pragma unroll 1
    for (int j = 0; j < 2; ++j) {
      const RealignJob& job = params.jobs[j];
      const i64 segments = (job.row_bytes + kSegment - 1) / kSegment;
#pragma unroll 1
      for (i64 unit = warp; unit < job.rows * job.groups * segments; unit += warps) {
        const i64 row = unit / segments, first = (unit - row * segments) * kSegment;
        const i64 group = row / job.rows, in_group = row - group * job.rows;
        const char* from =
            static_cast<const char*>(job.from) + group * job.group_bytes + in_group * job.stride_bytes;
        char* to = static_cast<char*>(job.to) + row * job.to_stride_bytes;
#pragma unroll
        for (int step = 0; step < kSegment; step += kStep) {
          const i64 at = first + step + lane * 16;
          if (at < job.row_bytes)
            *reinterpret_cast<uint4*>(to + at) =
                unaligned::load(from + at, static_cast<int>(min(job.row_bytes - at, i64{16})));
        }
      }
    }
  }
};

}  // namespace tsr
