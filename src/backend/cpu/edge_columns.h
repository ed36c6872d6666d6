// Columns of C past whole vectors, as dot products along k: a vector of columns with one or a few live lanes
// would cost as much as a whole one.
#pragma once

#include <cstdint>

#include "core/tile_math.h"

namespace tessera {

struct EdgeColumns {
  const float* a;  // row i at a + i * a_stride, k contiguous
  int64_t a_stride;
  const float* b;  // column j at b + j * b_stride, k contiguous
  int64_t b_stride;
  int64_t rows, k;  // k: a vector or more
  int cols;         // 1 to kMostEdgeColumns
  float* sums;      // row i at sums + i * sums_stride: cols values
  int64_t sums_stride;
};

// With vectors of 512 (AVX-512) or 256 bits (AVX2 and FMA).
using EdgeDot = void (*)(const EdgeColumns&);
EdgeDot edge_dot(int vector_bits);

void edge_dot_avx2(const EdgeColumns&);
void edge_dot_avx512(const EdgeColumns&);

}  // namespace tessera
