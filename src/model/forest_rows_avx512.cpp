#include "model/forest_rows.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#include <immintrin.h>

#include "model/forest_walk.h"

namespace tessera {
namespace {

constexpr size_t kLanes = 16;

// Lanes of a vector at `at` of so many numbers.
__mmask16 live(size_t at, size_t count) {
  return count - at >= kLanes ? __mmask16{0xffff} : static_cast<__mmask16>((1u << (count - at)) - 1);
}

struct Avx512 {
  template <size_t W>
  static auto load(const uint64_t* from) {
    if constexpr (W == 8) {
      return _mm512_loadu_si512(from);
    } else {
      return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    }
  }
  static void store(uint64_t* to, __m512i m) { _mm512_storeu_si512(to, m); }
  static void store(uint64_t* to, __m256i m) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), m); }
  static __m512i both(__m512i a, __m512i b) { return _mm512_and_si512(a, b); }
  static __m256i both(__m256i a, __m256i b) { return _mm256_and_si256(a, b); }
  static __m512i without(__m512i a, __m512i b) { return _mm512_andnot_si512(b, a); }
  static __m256i without(__m256i a, __m256i b) { return _mm256_andnot_si256(b, a); }
  static uint64_t any(__m512i a) { return _mm512_test_epi64_mask(a, a) != 0; }
  static uint64_t any(__m256i a) { return !_mm256_testz_si256(a, a); }

  static void range(const float* column, size_t rows, float& least, float& most) {
    __m512 low[2], high[2];
    low[0] = low[1] = high[0] = high[1] = _mm512_set1_ps(column[0]);
    for (size_t r = 0; r < rows; r += kLanes) {
      const size_t chain = r / kLanes % 2;
      const __mmask16 lanes = live(r, rows);
      const __m512 x = _mm512_maskz_loadu_ps(lanes, column + r);
      low[chain] = _mm512_mask_min_ps(low[chain], lanes, low[chain], x);
      high[chain] = _mm512_mask_max_ps(high[chain], lanes, high[chain], x);
    }
    least = _mm512_reduce_min_ps(_mm512_min_ps(low[0], low[1]));
    most = _mm512_reduce_max_ps(_mm512_max_ps(high[0], high[1]));
  }

  static uint32_t not_above(const float* sorted, uint32_t count, float x) {
    const __m512 limit = _mm512_set1_ps(x);
    uint32_t sum = 0;
    for (uint32_t i = 0; i < count; i += kLanes) {
      const __mmask16 lanes = live(i, count);
      const __m512 values = _mm512_maskz_loadu_ps(lanes, sorted + i);
      sum += static_cast<uint32_t>(
          __builtin_popcount(_mm512_mask_cmp_ps_mask(lanes, values, limit, _CMP_LE_OQ)));
    }
    return sum;
  }

  // 256 rows at a time stay in registers.
  template <size_t W>
  static void less_of_each(const float* column, const float* thresholds, uint32_t count, uint64_t* masks) {
    constexpr size_t kVectors = 16;
    for (size_t first = 0; first < 64 * W; first += kLanes * kVectors) {
      __m512 x[kVectors];
      for (size_t j = 0; j < kVectors; ++j) x[j] = _mm512_loadu_ps(column + first + kLanes * j);
      for (uint32_t t = 0; t < count; ++t) {
        const __m512 limit = _mm512_set1_ps(thresholds[t]);
        char* const to = reinterpret_cast<char*>(masks + t * W) + first / 8;
        for (size_t j = 0; j < kVectors; ++j) {
          const __mmask16 m = _mm512_cmp_ps_mask(x[j], limit, _CMP_LT_OQ);
          __builtin_memcpy(to + 2 * j, &m, sizeof m);
        }
      }
    }
  }

  // The mask of one threshold; returns the least of the values that are not less.
  template <size_t W>
  static float less_and_next(const float* column, float threshold, uint64_t* mask) {
    const __m512 limit = _mm512_set1_ps(threshold);
    __m512 next[4];
    for (__m512& n : next) n = _mm512_set1_ps(__builtin_inff());
    for (size_t j = 0; j < 4 * W; ++j) {
      const __m512 x = _mm512_loadu_ps(column + kLanes * j);
      const __mmask16 m = _mm512_cmp_ps_mask(x, limit, _CMP_LT_OQ);
      __builtin_memcpy(reinterpret_cast<char*>(mask) + 2 * j, &m, sizeof m);
      next[j % 4] = _mm512_mask_min_ps(next[j % 4], _knot_mask16(m), next[j % 4], x);
    }
    return _mm512_reduce_min_ps(
        _mm512_min_ps(_mm512_min_ps(next[0], next[1]), _mm512_min_ps(next[2], next[3])));
  }

  // Thresholds between which no value lies have one mask. Looking for that takes as long as another mask, so
  // where it was in vain the next few are not looked at.
  template <size_t W>
  static uint32_t less(const float* column, const float* thresholds, uint32_t count, uint64_t* masks,
                       uint32_t first, uint16_t* answers) {
    constexpr uint32_t kFew = 8;
    uint32_t made = 0;
    for (uint32_t t = 0; t < count;) {
      const float next = less_and_next<W>(column, thresholds[t], masks + made * W);
      const uint32_t begin = t;
      do answers[t++] = static_cast<uint16_t>(first + made);
      while (t < count && thresholds[t] <= next);
      ++made;
      if (t > begin + 1) continue;
      const uint32_t few = count - t < kFew ? count - t : kFew;
      less_of_each<W>(column, thresholds + t, few, masks + made * W);
      for (uint32_t i = 0; i < few; ++i) answers[t++] = static_cast<uint16_t>(first + made++);
    }
    return made;
  }

  // Trees of at most 32 leaves reached are looked up by the leaf that each row has arrived at. Of others
  // each row's value is spread out before.
  template <size_t W>
  struct Spread {
    static constexpr uint32_t kLookedUp = 32;
    alignas(64) float table[kLookedUp];
    alignas(64) uint8_t leaf[W * 64];
    alignas(64) float value[W * 64];
    uint32_t leaves;
  };

  template <size_t W>
  static void spread(const ForestScratch& s, uint32_t begin, uint32_t end, Spread<W>& to) {
    to.leaves = end - begin;
    if (to.leaves > Spread<W>::kLookedUp) {
      for (uint32_t i = begin; i < end; ++i) {
        const __m512 value = _mm512_set1_ps(s.values[i]);
        const char* const from = reinterpret_cast<const char*>(s.rows + size_t{s.order[i]} * W);
        for (size_t j = 0; j < W * 4; ++j) {
          __mmask16 m;
          __builtin_memcpy(&m, from + 2 * j, sizeof m);
          _mm512_mask_storeu_ps(to.value + kLanes * j, m, value);
        }
      }
      return;
    }
    for (uint32_t i = 0; i < to.leaves; ++i) to.table[i] = s.values[begin + i];
    __m512i leaf[W];
    for (size_t w = 0; w < W; ++w) leaf[w] = _mm512_setzero_si512();
    for (uint32_t i = 1; i < to.leaves; ++i) {
      const __m512i number = _mm512_set1_epi8(static_cast<char>(i));
      const uint64_t* const rows = s.rows + size_t{s.order[begin + i]} * W;
      for (size_t w = 0; w < W; ++w) leaf[w] = _mm512_mask_mov_epi8(leaf[w], rows[w], number);
    }
    for (size_t w = 0; w < W; ++w) _mm512_store_si512(to.leaf + 64 * w, leaf[w]);
  }

  // The sums of 128 rows at a time stay in registers.
  template <size_t W>
  static void add(const ForestScratch& s, const uint32_t* ends, uint32_t count, size_t rows, float* sums) {
    constexpr size_t kVectors = 8;
    thread_local Spread<W> trees[kForestSideBySide];
    for (uint32_t t = 0; t < count; ++t) spread(s, t ? ends[t - 1] : 0, ends[t], trees[t]);
    for (size_t first = 0; first < rows; first += kLanes * kVectors) {
      __m512 sum[kVectors];
      for (size_t j = 0; j < kVectors; ++j) sum[j] = _mm512_loadu_ps(sums + first + kLanes * j);
      for (uint32_t t = 0; t < count; ++t) {
        const Spread<W>& tree = trees[t];
        const auto leaf = [&](size_t j) {
          return _mm512_cvtepu8_epi32(
              _mm_load_si128(reinterpret_cast<const __m128i*>(tree.leaf + first + kLanes * j)));
        };
        if (tree.leaves <= kLanes) {
          const __m512 table = _mm512_load_ps(tree.table);
          for (size_t j = 0; j < kVectors; ++j)
            sum[j] = _mm512_add_ps(sum[j], _mm512_permutexvar_ps(leaf(j), table));
        } else if (tree.leaves <= Spread<W>::kLookedUp) {
          const __m512 low = _mm512_load_ps(tree.table), high = _mm512_load_ps(tree.table + kLanes);
          for (size_t j = 0; j < kVectors; ++j)
            sum[j] = _mm512_add_ps(sum[j], _mm512_permutex2var_ps(low, leaf(j), high));
        } else {
          for (size_t j = 0; j < kVectors; ++j)
            sum[j] = _mm512_add_ps(sum[j], _mm512_load_ps(tree.value + first + kLanes * j));
        }
      }
      for (size_t j = 0; j < kVectors; ++j) {
        if (first + kLanes * j < rows)
          _mm512_mask_storeu_ps(sums + first + kLanes * j, live(first + kLanes * j, rows), sum[j]);
      }
    }
  }
};

}  // namespace

WalkRows* avx512_walk_rows() { return walk_rows<Avx512>; }

}  // namespace tessera

#else

namespace tessera {
WalkRows* avx512_walk_rows() { return nullptr; }
}  // namespace tessera

#endif
