// What the CUDA driver and its kernels agree on, beyond what all GPUs share.
#pragma once

#include "cuda/tma_ws_shape.h"
#include "gpu/abi.h"

namespace tsr {

// As the driver's CUtensorMap.
struct alignas(64) TensorMap {
  unsigned long long words[16];
};

struct TmaWsArgs {
  int rows, cols, batches;  // as the kernel sees them: n x m with swap_ab
  int tiles_m, tiles_n;     // of clusters
  int k_steps;              // block_k at a time
  int split_steps;          // of one part of k
  int along_m, swizzle;     // how blocks walk over C
  void* c;
  long long c_leading, c_batch_stride;  // of the problem's C, row-major
  float* partials;     // with split_k: block_m * block_n for each (block, part)
  unsigned* arrivals;  // with split_k: one a block, zero before and after
  int wide;            // n and where rows of C and of full D tensors start are multiples of 4 elements
  GpuEpilogueArgs epilogue;
};

// A matrix in rows that start anywhere, to rows that start at multiples of 16 bytes.
struct RealignJob {
  const void* from;
  void* to;
  long long rows, groups;  // none: nothing to do
  long long row_bytes, stride_bytes, group_bytes, to_stride_bytes;
};
struct RealignParams {
  RealignJob jobs[2];
};
constexpr int kRealignThreads = 256;

struct TmaWsParams {
  TensorMap a, b, c;
  TmaWsArgs args;
};

}  // namespace tsr
