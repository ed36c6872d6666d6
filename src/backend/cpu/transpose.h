// Matrices in memory with their axes exchanged.
#pragma once

#include <cstdint>

namespace tessera {

// `count` matrices of rows x cols elements each: from one row of a matrix in memory to the next, from one row
// of what comes of it to the next, and from one matrix to the next of each.
struct TransposeShape {
  int64_t count, rows, cols, from_step, to_step, from_apart, to_apart;  // elements
};

// to[c][r] = from[r][c] of each. Elements have 1, 2 or 4 bytes. Up to `threads` threads share the work.
void transpose(const void* from, void* to, const TransposeShape& shape, int element_bytes, int threads);

// The same of `count` matrices after one another, of rows x cols elements each.
void transpose(const void* from, void* to, int64_t count, int64_t rows, int64_t cols, int element_bytes,
               int threads);

}  // namespace tessera
