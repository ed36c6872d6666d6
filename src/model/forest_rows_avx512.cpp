#include "model/forest_rows.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#include <immintrin.h>

namespace tessera {
namespace {

int split(const float* column, float threshold, size_t words, RowMask& rows, RowMask& right) {
  const __m512 limit = _mm512_set1_ps(threshold);
  uint64_t any_left = 0, any_right = 0;
  for (size_t w = 0; w < words; ++w) {
    uint64_t less = 0;
    if (rows.words[w]) {
      const float* at = column + w * 64;
      for (int i = 0; i < 4; ++i) {
        const __mmask16 m = _mm512_cmp_ps_mask(_mm512_loadu_ps(at + 16 * i), limit, _CMP_LT_OQ);
        less |= static_cast<uint64_t>(m) << (16 * i);
      }
    }
    right.words[w] = rows.words[w] & ~less;
    rows.words[w] &= less;
    any_left |= rows.words[w];
    any_right |= right.words[w];
  }
  return (any_left ? 1 : 0) + (any_right ? 2 : 0);
}

void add(float value, const RowMask& rows, size_t words, float* sums) {
  const __m512 more = _mm512_set1_ps(value);
  for (size_t w = 0; w < words; ++w) {
    for (int i = 0; i < 4; ++i) {
      const auto m = static_cast<__mmask16>(rows.words[w] >> (16 * i));
      if (!m) continue;
      float* at = sums + w * 64 + 16 * i;
      const __m512 old = _mm512_loadu_ps(at);
      _mm512_storeu_ps(at, _mm512_mask_add_ps(old, m, old, more));
    }
  }
}

constexpr RowFunctions kAvx512 = {split, add};

}  // namespace

const RowFunctions* avx512_row_functions() { return &kAvx512; }

}  // namespace tessera

#else

namespace tessera {
const RowFunctions* avx512_row_functions() { return nullptr; }
}  // namespace tessera

#endif
