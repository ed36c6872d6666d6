// What GPU drivers and kernels agree on. Plain structs and sizes: no device code.
#pragma once

namespace tsr {

// alpha * A B + beta * C and the chain of steps behind it.
struct GpuEpilogueArgs {
  float alpha, beta;
  const void* d[5];
  long long d_batch_stride;  // of full D tensors: m * n
  float params[8][2];
};

}  // namespace tsr
