// Arguments that the ahead-of-time drivers pass to generated units. Strides named _bytes are in bytes, others in
// elements. Changing a struct here means raising kKernelAbi (src/core/artifact.h).
#pragma once

namespace tsr {

struct EpilogueArgs {
  static constexpr int kMaxSteps = 8, kMaxD = 5;

  void* c;                       // of the group; element (i, j) at i * c_stride + j
  long long c_stride;
  float alpha, beta;
  int plain;                     // alpha == 1 and beta == 0
  const void* d[kMaxD];          // one per step that reads a D tensor, in order
  long long d_row[kMaxD], d_col[kMaxD];  // element strides; 0 broadcasts
  float params[kMaxSteps][2];
};

// Rows [0, rows) x columns [0, cols) of C from one panel of packed B, cols <= tile_n.
// Packed B: [steps][tile_n] 32-bit lanes, each holding the elements of one k group; behind them tile_n i32 values to
// start the accumulators from where the instruction needs a correction (vnni with signed A).
struct PackedArgs {
  const void* a;                 // first row tile; the word of (row r, step s) at r * a_row_bytes + s * a_step_bytes
  long long a_row_bytes, a_step_bytes, a_tile_bytes;  // next row tile
  const void* b;
  long long rows, cols, steps;
  int a_padded;                  // 1: the last row tile may be read whole (packed A); 0: it is moved up to end at `rows`
  int first, last;               // block along k: first starts from zero, last runs the epilogue
  float* partial;                // sums of the blocks before, tile by tile: rows x tile_n, or null when first and last
  long long partial_stride;      // elements between rows
  long long row0, col0;          // of this piece in C
  const EpilogueArgs* epilogue;
};

}  // namespace tsr
