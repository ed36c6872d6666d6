// Columns of C past whole vectors, as dot products along k: a vector of columns with one or a few live lanes
// would cost as much as a whole one.
#pragma once

#include <cstdint>

#include "core/tile_math.h"
#include "tessera/dtype.h"

namespace tessera {

// Strides in bytes.
struct EdgeColumns {
  const void* a;  // row i at a + i * a_stride, k contiguous
  int64_t a_stride;
  const void* b;  // column j at b + j * b_stride, k contiguous
  int64_t b_stride;
  int64_t rows, k;  // k of f32: a vector or more
  int cols;         // 1 to kMostEdgeColumns
  void* sums;       // row i at sums + i * sums_stride: cols values of 32 bits
  int64_t sums_stride;
};

using EdgeDot = void (*)(const EdgeColumns&);

// f32, with vectors of 512 (AVX-512) or 256 bits (AVX2 and FMA).
EdgeDot edge_dot(int vector_bits);
void edge_dot_avx2(const EdgeColumns&);
void edge_dot_avx512(const EdgeColumns&);

// A of bf16 with a B of bf16 by the instruction for pairs of them, of u8 or i8 with a B of i8 by the one for
// four bytes; vectors of 512 bits.
EdgeDot edge_dot_words_avx512(DType a);

}  // namespace tessera
