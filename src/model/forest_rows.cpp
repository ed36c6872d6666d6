#include "model/forest_rows.h"

#include <bit>

namespace tessera {
namespace {

int split(const float* column, float threshold, size_t words, RowMask& rows, RowMask& right) {
  uint64_t any_left = 0, any_right = 0;
  for (size_t w = 0; w < words; ++w) {
    uint64_t less = 0;
    if (rows.words[w]) {
      for (size_t i = 0; i < 64; ++i) less |= uint64_t{column[w * 64 + i] < threshold} << i;
    }
    right.words[w] = rows.words[w] & ~less;
    rows.words[w] &= less;
    any_left |= rows.words[w];
    any_right |= right.words[w];
  }
  return (any_left ? 1 : 0) + (any_right ? 2 : 0);
}

void add(float value, const RowMask& rows, size_t words, float* sums) {
  for (size_t w = 0; w < words; ++w) {
    for (uint64_t left = rows.words[w]; left; left &= left - 1)
      sums[w * 64 + static_cast<size_t>(std::countr_zero(left))] += value;
  }
}

constexpr RowFunctions kPlain = {split, add};

}  // namespace

const RowFunctions& plain_row_functions() { return kPlain; }

bool has_avx512_rows() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#else
  return false;
#endif
}

const RowFunctions& row_functions() {
  static const RowFunctions& chosen =
      has_avx512_rows() && avx512_row_functions() ? *avx512_row_functions() : kPlain;
  return chosen;
}

}  // namespace tessera
