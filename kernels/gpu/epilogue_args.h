// What a launch tells the epilogue. Plain: drivers include it too.
#pragma once

struct EpilogueArgs {
  float alpha, beta;
  const void* d[5];
  long long d_batch_stride;  // of full D tensors: m * n
  float params[8][2];
};
