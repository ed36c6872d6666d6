// Arguments of the families that read both operands where they lie.
#pragma once

#include "cpu/abi.h"

namespace tsr {

// Rows [row_begin, row_end) x columns [col_begin, col_end) of C from all m x n x k of the operands.
struct UnpackedArgs {
  const void *a, *b;
  long long m, n, k;
  long long a_row_bytes, a_k_bytes, b_k_bytes, b_col_bytes;  // distance of neighbours along that axis
  long long row_begin, row_end, col_begin, col_end;
  // Parts of k computed apart: the sums over [k_begin, k_end) go to `sums` (m x n, 32 bit) instead of C.
  long long k_begin, k_end;
  void* sums;
  int parts;  // > 0: adds up that many `sums`, one after the other in memory, into C; a and b are not read
  long long block_k;  // most elements of k between two visits of a tile: whole vectors, or words
  // cpu_dot's columns, side by side in memory: whether they come from beyond the second-level cache to rows
  // that the first-level cache keeps, and how far ahead lines are asked for; 0: none are.
  bool streams;
  long long ahead_bytes;
  EpilogueArgs epilogue;
};

}  // namespace tsr
