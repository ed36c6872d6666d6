// A line of sums to C, a pixel for each row.
#pragma once

#include "cpu/epilogue.h"

namespace tsr {

// `count` pixels of `cols` sums each, neighbours, to rows of C from `row` on, columns from `col` on. `flat`:
// rows of C follow each other in memory and every element is treated alike, so that the line is one row. The
// line may be read up to a whole vector.
template <class C>
TSR_INLINE void line_results(const EpilogueArgs& e, const float* line, long long row, long long count,
                             long long col, long long cols, bool flat) {
  using E = Epilogue<C>;
  constexpr int L = E::L;
  const long long rows = flat ? 1 : count, width = flat ? count * cols : cols;
  for (long long i = 0; i < rows; ++i, line += width) {
    for (long long j = 0; j < width; j += L) {
      const int live = static_cast<int>(width - j < L ? width - j : L);
      E::store(load_whole<typename E::U>(line + j), e, row + i, col + j, live);
    }
  }
}

}  // namespace tsr
