// What a launch tells a tma_ws kernel besides its tensor maps. Plain: the driver includes it too.
#pragma once

#include "gpu/epilogue_args.h"

struct TmaWsArgs {
  int rows, cols, batches;
  int tiles_m, tiles_n;  // of clusters
  int k_steps;           // block_k at a time
  int split_steps;       // of one part of k
  int raster, swizzle;
  void* c;
  long long c_leading, c_batch_stride;  // of the problem's C, row-major
  float* partials;       // with split_k: block_m * block_n for each (block, part)
  unsigned* arrivals;    // with split_k: one a (block, team), zero before and after
  EpilogueArgs epilogue;
};
