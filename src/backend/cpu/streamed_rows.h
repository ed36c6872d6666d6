// Rows of C that are no lines of memory, written past the caches: the columns of each panel are computed
// apart and leave as far as they fill lines, while the next panel is computed.
#pragma once

#include <cstdint>

#include "backend/cpu/packed_operands.h"
#include "core/gemm_view.h"
#include "cpu/abi.h"

namespace tessera {

class StreamedRows {
 public:
  // Panels of at least a line and at most `tile_n` columns. `epilogue` says where C is, and from take() on
  // where the kernel writes: in `apart`, of at least rows * row_bytes() bytes.
  StreamedRows(const GemmView& view, int tile_n, char* apart, tsr::EpilogueArgs& epilogue);
  static int64_t row_bytes(const GemmView& view, int tile_n);

  // The next panels are those of columns [n0, n1), from left to right.
  void begin(const PackedBlock& block, int64_t n0, int64_t n1);
  void take(int64_t n);               // the kernel computes columns from n on
  void give(int64_t n, int64_t end);  // and has done so up to `end`

 private:
  const int64_t size_, row_, step_;  // bytes of an element, between rows of C and between those apart
  char *const c_, *const apart_;
  tsr::EpilogueArgs& epilogue_;
  int64_t m0_ = 0, rows_ = 0, n0_ = 0, n1_ = 0;
};

}  // namespace tessera
