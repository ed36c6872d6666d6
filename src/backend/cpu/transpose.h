// Matrices in memory with their axes exchanged.
#pragma once

#include <cstdint>

namespace tessera {

// `count` matrices after one another, of rows x cols elements each: to[c][r] = from[r][c]. Elements have 1, 2
// or 4 bytes. Up to `threads` threads share the work.
void transpose(const void* from, void* to, int64_t count, int64_t rows, int64_t cols, int element_bytes,
               int threads);

}  // namespace tessera
