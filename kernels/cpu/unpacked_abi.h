// Arguments of the families that read both operands where they lie.
#pragma once

#include "cpu/abi.h"

namespace tsr {

// How one tile of cpu_dot's rows reads columns that lie side by side in memory: as they are at hand; to rows
// that the first-level cache keeps, from beyond the second-level cache; or asking for them shortly before,
// into the first-level cache, those of a tile beside one another or one after the other. cpu_direct asks for
// panels into the second-level cache, all lines (far) or one of four (sparse), or into the first-level cache
// (near).
enum class Streams { none, far, sparse, near, in_turn };
constexpr int kRowsInTurn = 2;  // the most rows of a tile that may read columns in turn

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
  Streams streams;
  // How far ahead lines of cpu_dot's columns, and of cpu_direct's panels and rows of bytes, are asked for; 0:
  // none are.
  long long ahead_bytes;
  long long pass;  // rows of bytes that cpu_direct reads side by side, whole words of them
  EpilogueArgs epilogue;
};

}  // namespace tsr
