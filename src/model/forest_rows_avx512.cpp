#include "model/forest_rows.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#include <immintrin.h>

namespace tessera {
namespace {

constexpr size_t kLanes = 16;

// Lanes of a vector at `at` of so many numbers.
__mmask16 live(size_t at, size_t count) {
  return count - at >= kLanes ? __mmask16{0xffff} : static_cast<__mmask16>((1u << (count - at)) - 1);
}

void range(const float* column, size_t rows, float& least, float& most) {
  __m512 low = _mm512_set1_ps(column[0]), high = low;
  for (size_t r = 0; r < rows; r += kLanes) {
    const __mmask16 lanes = live(r, rows);
    const __m512 x = _mm512_maskz_loadu_ps(lanes, column + r);
    low = _mm512_mask_min_ps(low, lanes, low, x);
    high = _mm512_mask_max_ps(high, lanes, high, x);
  }
  least = _mm512_reduce_min_ps(low);
  most = _mm512_reduce_max_ps(high);
}

uint32_t not_above(const float* sorted, uint32_t count, float x) {
  const __m512 limit = _mm512_set1_ps(x);
  uint32_t sum = 0;
  for (uint32_t i = 0; i < count; i += kLanes) {
    const __mmask16 lanes = live(i, count);
    const __m512 values = _mm512_maskz_loadu_ps(lanes, sorted + i);
    sum +=
        static_cast<uint32_t>(__builtin_popcount(_mm512_mask_cmp_ps_mask(lanes, values, limit, _CMP_LE_OQ)));
  }
  return sum;
}

// Sixteen masks of one word each, as two vectors.
struct Words {
  __m512i low, high;
};

// Masks of W words. Rows go down all trees of a group together, sixteen arrivals at a time; what they are
// handed on to comes behind them, first come first served. Nothing branches on where rows go, since nothing
// predicts it.
template <size_t W>
class Walk {
 public:
  Walk(const ForestTables& f, const ForestScratch& s, const float* const* columns, const uint8_t* same,
       size_t first, size_t rows)
      : f_(f), s_(s), rows_(rows) {
    uint64_t* masks = s.masks;
    const auto all_of = [&](uint32_t tests, int byte) {
      __builtin_memset(masks, byte, tests * W * sizeof(uint64_t));
      masks += tests * W;
    };
    for (uint32_t feature = 0; feature < f.features; ++feature) {
      const float* const thresholds = f.thresholds + f.first_test[feature];
      const uint32_t tests = f.first_test[feature + 1] - f.first_test[feature];
      if (tests == 0) continue;
      const float* const column = columns[feature] + (same[feature] ? 0 : first);
      float least = column[0], most = least;
      if (!same[feature]) range(column, rows, least, most);
      const uint32_t none = not_above(thresholds, tests, least),
                     some = least == most ? 0 : not_above(thresholds + none, tests - none, most);
      all_of(none, 0);
      if (some) less(column, thresholds + none, some, masks);
      masks += some * W;
      all_of(tests - none - some, 0xff);
    }
  }

  void add(float* sums) {
    for (uint32_t first = 0; first < f_.count; first += kForestGroup) {
      const uint32_t count = f_.count - first < kForestGroup ? f_.count - first : uint32_t{kForestGroup};
      const uint32_t base = f_.roots[first] & ~ForestTables::kLeafRoot;
      spread(descend(f_.roots + first, count, base), f_.nodes + base);
      add_up(count, sums);
    }
  }

 private:
  // Where rows arrive, and which ones, word for word.
  struct Queue {
    uint32_t* nodes;
    uint64_t* rows;  // W times `most`
    size_t most, count;

    void push(__mmask16 lanes, __m512i where, const Words* which) {
      const auto low = static_cast<__mmask8>(lanes), high = static_cast<__mmask8>(lanes >> 8);
      const auto lows = static_cast<size_t>(__builtin_popcount(low));
      _mm512_storeu_si512(nodes + count, _mm512_maskz_compress_epi32(lanes, where));
      for (size_t w = 0; w < W; ++w) {
        uint64_t* const to = rows + w * most + count;
        _mm512_storeu_si512(to, _mm512_maskz_compress_epi64(low, which[w].low));
        _mm512_storeu_si512(to + lows, _mm512_maskz_compress_epi64(high, which[w].high));
      }
      count += static_cast<size_t>(__builtin_popcount(lanes));
    }
  };

  // As many rows as stay in registers, threshold after threshold.
  static void less(const float* column, const float* thresholds, uint32_t count, uint64_t* masks) {
    constexpr size_t kVectors = 4 * W;
    __m512 x[kVectors];
    for (size_t j = 0; j < kVectors; ++j) x[j] = _mm512_loadu_ps(column + kLanes * j);
    for (uint32_t t = 0; t < count; ++t) {
      const __m512 limit = _mm512_set1_ps(thresholds[t]);
      for (size_t w = 0; w < W; ++w) {
        uint64_t word = 0;
        for (size_t j = 0; j < 4; ++j)
          word |= uint64_t{_mm512_cmp_ps_mask(x[4 * w + j], limit, _CMP_LT_OQ)} << (kLanes * j);
        masks[t * W + w] = word;
      }
    }
  }

  // Returns the leaves that rows arrive at.
  Queue descend(const uint32_t* roots, uint32_t count, uint32_t base) {
    Queue open{s_.fork_nodes, s_.fork_rows, s_.most_forks, 0},
        leaves{s_.leaf_nodes, s_.leaf_rows, s_.most_leaves, 0};
    for (uint32_t t = 0; t < count; ++t) {
      const bool leaf = roots[t] & ForestTables::kLeafRoot;
      Queue& to = leaf ? leaves : open;
      to.nodes[to.count] = ForestTables::arrival(t, roots[t], base);
      for (size_t w = 0; w < W; ++w) { to.rows[w * to.most + to.count] = ForestTables::word(rows_, w); }
      ++to.count;
    }
    const uint32_t* const nodes = f_.nodes + base;
    const __m512i one = _mm512_set1_epi32(1);
    for (size_t at = 0, taken; at < open.count; at += taken) {
      taken = open.count - at < kLanes ? open.count - at : kLanes;
      const __mmask16 lanes = live(at, open.count);
      // Lanes without an arrival repeat the first one, and hand nothing on.
      for (size_t i = taken; i < kLanes; ++i) open.nodes[at + i] = open.nodes[at];
      const __m512i from = _mm512_loadu_si512(open.nodes + at);
      uint32_t forks[kLanes];
      for (size_t i = 0; i < kLanes; ++i) forks[i] = nodes[ForestTables::node(open.nodes[at + i])];
      const __m512i fork = vector_of(forks);
      Words left[W], right[W];
      __m512i lefts_low = _mm512_setzero_si512(), lefts_high = lefts_low, rights_low = lefts_low,
              rights_high = lefts_low;
      for (size_t w = 0; w < W; ++w) {
        const __m512i less_low = masks_of(forks, w), less_high = masks_of(forks + 8, w);
        const uint64_t* const rows = open.rows + w * open.most + at;
        const __m512i rows_low = _mm512_loadu_si512(rows), rows_high = _mm512_loadu_si512(rows + 8);
        left[w] = {_mm512_and_si512(rows_low, less_low), _mm512_and_si512(rows_high, less_high)};
        right[w] = {_mm512_andnot_si512(less_low, rows_low), _mm512_andnot_si512(less_high, rows_high)};
        lefts_low = _mm512_or_si512(lefts_low, left[w].low);
        lefts_high = _mm512_or_si512(lefts_high, left[w].high);
        rights_low = _mm512_or_si512(rights_low, right[w].low);
        rights_high = _mm512_or_si512(rights_high, right[w].high);
      }
      const auto any = [&](__m512i x, __m512i y) {
        return static_cast<__mmask16>(
            (_mm512_test_epi64_mask(x, x) | static_cast<unsigned>(_mm512_test_epi64_mask(y, y)) << 8) &
            lanes);
      };
      const __mmask16 lefts = any(lefts_low, lefts_high), rights = any(rights_low, rights_high);
      const __mmask16 left_leaf =
                          _mm512_test_epi32_mask(fork, _mm512_set1_epi32(1 << ForestTables::kLeftLeaf)),
                      right_leaf = _mm512_movepi32_mask(fork);
      const __m512i to_left = _mm512_add_epi32(from, one),
                    to_right =
                        _mm512_add_epi32(from, _mm512_and_si512(_mm512_srli_epi32(fork, 16),
                                                                _mm512_set1_epi32(ForestTables::kMostRight)));
      open.push(static_cast<__mmask16>(lefts & ~left_leaf), to_left, left);
      open.push(static_cast<__mmask16>(rights & ~right_leaf), to_right, right);
      leaves.push(static_cast<__mmask16>(lefts & left_leaf), to_left, left);
      leaves.push(static_cast<__mmask16>(rights & right_leaf), to_right, right);
    }
    return leaves;
  }

  // Forks and masks are loaded one by one: some processors take twice as long to gather them.
  static __m512i vector_of(const uint32_t (&x)[kLanes]) {
    const auto i = [&](size_t at) { return static_cast<int>(x[at]); };
    return _mm512_set_epi32(i(15), i(14), i(13), i(12), i(11), i(10), i(9), i(8), i(7), i(6), i(5), i(4),
                            i(3), i(2), i(1), i(0));
  }
  // Word w of the masks of eight forks.
  __m512i masks_of(const uint32_t* forks, size_t w) const {
    const auto mask = [&](size_t i) {
      return static_cast<long long>(s_.masks[ForestTables::test(forks[i]) * W + w]);
    };
    return _mm512_set_epi64(mask(7), mask(6), mask(5), mask(4), mask(3), mask(2), mask(1), mask(0));
  }

  // What each row gets of each tree of the group.
  void spread(const Queue& leaves, const uint32_t* nodes) {
    for (size_t i = 0; i < leaves.count; ++i) {
      const uint32_t node = leaves.nodes[i];
      const __m512 value =
          _mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int>(nodes[ForestTables::node(node)])));
      float* const to = s_.values + ForestTables::tree(node) * 64 * W;
      for (size_t w = 0; w < W; ++w) {
        const uint64_t rows = leaves.rows[w * leaves.most + i];
        for (size_t j = 0; j < 4; ++j)
          _mm512_mask_storeu_ps(to + w * 64 + kLanes * j, static_cast<__mmask16>(rows >> (kLanes * j)),
                                value);
      }
    }
  }

  void add_up(uint32_t trees, float* sums) {
    constexpr size_t kVectors = 4 * W;
    __m512 sum[kVectors];
    for (size_t j = 0; j < kVectors; ++j)
      sum[j] = _mm512_maskz_loadu_ps(kLanes * j < rows_ ? live(kLanes * j, rows_) : __mmask16{0},
                                     sums + kLanes * j);
    for (uint32_t t = 0; t < trees; ++t) {
      const float* const values = s_.values + t * 64 * W;
      for (size_t j = 0; j < kVectors; ++j)
        sum[j] = _mm512_add_ps(sum[j], _mm512_loadu_ps(values + kLanes * j));
    }
    for (size_t j = 0; j < kVectors && kLanes * j < rows_; ++j)
      _mm512_mask_storeu_ps(sums + kLanes * j, live(kLanes * j, rows_), sum[j]);
  }

  const ForestTables& f_;
  const ForestScratch& s_;
  size_t rows_;
};

template <size_t W>
void walk_of_words(const ForestTables& f, const ForestScratch& s, const float* const* columns,
                   const uint8_t* same, size_t first, size_t rows, float* sums) {
  Walk<W>(f, s, columns, same, first, rows).add(sums + first);
}

// More words at a time take longer than walks one after the other.
void walk_rows(const ForestTables& f, const ForestScratch& s, const float* const* columns,
               const uint8_t* same, size_t rows, float* sums) {
  constexpr size_t kMost = 256;
  for (size_t first = 0; first < rows; first += kMost) {
    const size_t count = rows - first < kMost ? rows - first : kMost;
    const auto walk = count <= 64 ? walk_of_words<1> : count <= 128 ? walk_of_words<2> : walk_of_words<4>;
    walk(f, s, columns, same, first, count, sums);
  }
}

}  // namespace

WalkRows* avx512_walk_rows() { return walk_rows; }

}  // namespace tessera

#else

namespace tessera {
WalkRows* avx512_walk_rows() { return nullptr; }
}  // namespace tessera

#endif
