// cpu_direct's operands by their part in the product, and whether they lie in memory as the arithmetic wants
// them.
#pragma once

#include "cpu/words.h"

namespace tsr {

template <class C>
struct DirectShape {
  using Math = WordMath<C>;
  static constexpr int L = Math::L, kGroup = Math::kGroup;
  static constexpr int kRows = C::tile_m, kCols = C::tile_n;
  // Columns are B in panels of words, one for each tile of columns (backend/cpu/prepacked_b.h). As rows a
  // packed B lies like any other.
  static constexpr bool kPanels = C::preshuffle && !C::swap_ab;
  static constexpr int kRowSize = bytes_of(Math::kRow), kColSize = kPanels ? 4 : bytes_of(Math::kCol);
  // Columns as words in memory.
  static constexpr bool kWordCols = kPanels || (kGroup == 1 && Math::kCol == Type::f32);

  const char *rows, *cols;
  long long row_stride, row_k, col_stride, col_k;  // bytes between neighbours
  long long row_begin, row_end, col_begin, col_end;

  // One after the other: as a vector they would wait until the driver's writes have left for the cache.
  static TSR_INLINE long long read(long long x) {
    asm("" : "+r"(x));
    return x;
  }
  TSR_INLINE explicit DirectShape(const UnpackedArgs& args) {
    constexpr bool kSwap = C::swap_ab;
    rows = static_cast<const char*>(kSwap ? args.b : args.a);
    cols = static_cast<const char*>(kSwap ? args.a : args.b);
    row_stride = read(kSwap ? args.b_col_bytes : args.a_row_bytes);
    row_k = read(kSwap ? args.b_k_bytes : args.a_k_bytes);
    col_stride = read(kSwap ? args.a_row_bytes : args.b_col_bytes);
    col_k = read(kSwap ? args.a_k_bytes : args.b_k_bytes);
    row_begin = read(kSwap ? args.col_begin : args.row_begin);
    row_end = read(kSwap ? args.col_end : args.row_end);
    col_begin = read(kSwap ? args.row_begin : args.col_begin);
    col_end = read(kSwap ? args.row_end : args.col_end);
  }

  // Whether lines `stride` apart find room beside each other in the first-level cache: those whose distance
  // is a multiple of a page compete for the ways of one set, of which there are at least 8.
  static TSR_INLINE bool fits_ways(long long stride, int lines) {
    // The lowest bit set says how soon the pattern repeats.
    return lines * least(stride & -stride, 4096) <= 8 * 4096;
  }

  // The correction behind the words of the panel of column c, for the part of k that comes first.
  TSR_INLINE const int* panel_start(const UnpackedArgs& args, long long c) const {
    static constexpr int kNone[kCols] = {};
    if (args.k_begin > 0 || args.k_end == 0) return kNone;
    return reinterpret_cast<const int*>(cols + c * col_stride +
                                        (args.k + kGroup - 1) / kGroup * kGroup * col_k);
  }
  TSR_INLINE bool cols_in_place(long long depth) const {
    if constexpr (kPanels) return true;
    // A tile of few rows reads its columns so fast that only the first-level cache can keep up.
    return kWordCols && (col_stride == kColSize || col_end - col_begin == 1) &&
           (kRows >= 6 || row_end - row_begin <= kRows || depth <= 2 * L ||
            fits_ways(col_k, Stage<C>::kDepth));
  }
  TSR_INLINE bool rows_in_place(long long depth) const {
    // Up to 16 lines cost less where they compete than their copies do.
    return Math::template in_memory<Math::kRow, Math::kOffset>(row_k, depth) &&
           (kRows <= 16 || fits_ways(row_stride, kRows) || row_k != kRowSize || depth <= 2 * L);
  }
};

}  // namespace tsr
