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

// Where and how results leave.
struct GpuOutput {
  void* c;
  long long c_leading, c_batch_stride;  // of the problem's C, row-major
  int wide;  // n and where rows of C and of full D tensors start are multiples of 4 elements
  GpuEpilogueArgs epilogue;
};

}  // namespace tsr
