// A Problem as groups x (m, n, k) with three operands. After this only operand loaders know which operation
// it was.
#pragma once

#include <cstdint>

#include "tessera/dtype.h"
#include "tessera/epilogue.h"
#include "tessera/problem.h"

namespace tessera {

// A matrix in memory: element (i, j) of group g sits at i * row_stride + j * col_stride + g * group_stride
// elements.
struct Operand {
  DType type = DType::f32;
  int64_t rows = 0, cols = 0;
  int64_t row_stride = 0, col_stride = 0;
  int64_t group_stride = 0;

  bool row_major() const { return col_stride == 1; }
  bool col_major() const { return row_stride == 1; }
  int64_t leading() const { return row_major() ? row_stride : col_stride; }
  // Elements along the unit-stride axis.
  int64_t contiguous() const { return row_major() ? cols : rows; }
};

struct GemmView {
  int64_t groups = 1, m = 0, n = 0, k = 0;
  Operand a, b, c;         // m x k, k x n, m x n
  DType acc = DType::f32;  // accumulator
  DType d = DType::f32;    // D tensors
  Layout layout = Layout::rcr;
  bool b_prepacked = false;
  Epilogue epilogue;

  double flops() const { return 2.0 * static_cast<double>(groups) * m * n * k; }
  // Least traffic with memory: each operand once, C written once, D tensors read once.
  double bytes() const;
};

// `p` must be valid (Problem::parse or validate()).
GemmView lower(const Problem& p);

}  // namespace tessera
