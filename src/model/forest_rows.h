// What a forest does to many rows at once, by what the processor offers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera {

// One bit per row.
struct RowMask {
  uint64_t words[8];
};

struct RowFunctions {
  // Keeps in `rows` those whose value is less than the threshold and puts the others into `right`. Returns 1
  // when some are less, plus 2 when some are not.
  int (*split)(const float* column, float threshold, size_t words, RowMask& rows, RowMask& right);
  // sums[r] += value for every row of the mask.
  void (*add)(float value, const RowMask& rows, size_t words, float* sums);
};

const RowFunctions& row_functions();
const RowFunctions& plain_row_functions();
const RowFunctions* avx512_row_functions();  // null where the build lacks it; for processors that have it
bool has_avx512_rows();                      // whether the processor has it

}  // namespace tessera
