// Columns past whole vectors where 32-bit words hold several elements of k. Everything here is local to the
// file: see cmake/isa_flags.cmake. The instructions are beyond its flags, so they are spelled out; the kernel
// whose columns these are uses them too.
#include <immintrin.h>

#include <cstring>

#include "backend/cpu/edge_columns.h"

namespace tessera {
namespace {

template <DType kA>
struct EdgeWords {
  static constexpr bool kFloat = kA == DType::bf16;
  static constexpr int kSize = kFloat ? 2 : 1;
  // Signed A is moved up by 128, since the instruction wants it unsigned, and 128 times each column taken
  // off.
  static constexpr bool kOffset = kA == DType::i8;
  // Rows at a time: their lanes are added up together.
  static constexpr int kRows = 4;

  static inline __m512i upper_bits() { return _mm512_set1_epi32(static_cast<int>(0x80808080u)); }

  // acc += a * b, lane by lane.
  static inline void multiply_add(__m512i& acc, __m512i a, __m512i b) {
    if constexpr (kFloat) {
      asm("vdpbf16ps %2, %1, %0" : "+v"(acc) : "v"(a), "v"(b));
    } else {
      asm("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(a), "v"(b));
    }
  }

  static inline uint32_t sum(__m512i acc) {
    if constexpr (kFloat) {
      const float s = _mm512_reduce_add_ps(_mm512_castsi512_ps(acc));
      uint32_t bits;
      std::memcpy(&bits, &s, 4);
      return bits;
    } else {
      return static_cast<uint32_t>(_mm512_reduce_add_epi32(acc));
    }
  }

  static inline __m512i add(__m512i x, __m512i y) {
    if constexpr (kFloat) {
      return _mm512_castps_si512(_mm512_add_ps(_mm512_castsi512_ps(x), _mm512_castsi512_ps(y)));
    } else {
      return _mm512_add_epi32(x, y);
    }
  }
  // The sums of four vectors' lanes.
  static inline __m128i sums(__m512i a, __m512i b, __m512i c, __m512i d) {
    const __m512i ab = add(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    const __m512i cd = add(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
    __m512i all = add(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
    all = add(all, _mm512_shuffle_i64x2(all, all, 0x4e));
    return _mm512_castsi512_si128(add(all, _mm512_shuffle_i64x2(all, all, 0xb1)));
  }

  template <int kHeight, int kCols>
  static inline void step(__m512i (&acc)[kHeight][kCols], const EdgeColumns& e, const char* a, int64_t at,
                          __mmask64 mask) {
    __m512i right[kCols];
#pragma GCC unroll 4
    for (int j = 0; j < kCols; ++j)
      right[j] = _mm512_maskz_loadu_epi8(mask, static_cast<const char*>(e.b) + j * e.b_stride + at);
#pragma GCC unroll 4
    for (int i = 0; i < kHeight; ++i) {
      __m512i left = _mm512_maskz_loadu_epi8(mask, a + i * e.a_stride + at);
      if constexpr (kOffset) left = _mm512_xor_si512(left, upper_bits());
#pragma GCC unroll 4
      for (int j = 0; j < kCols; ++j) multiply_add(acc[i][j], left, right[j]);
    }
  }

  template <int kHeight, int kCols>
  static inline void some_rows(const EdgeColumns& e, int64_t row, const uint32_t (&offset)[kCols]) {
    const char* a = static_cast<const char*>(e.a) + row * e.a_stride;
    __m512i acc[kHeight][kCols];
#pragma GCC unroll 4
    for (int i = 0; i < kHeight; ++i) {
#pragma GCC unroll 4
      for (int j = 0; j < kCols; ++j) acc[i][j] = _mm512_setzero_si512();
    }
    const int64_t bytes = e.k * kSize;
    int64_t at = 0;
    for (; at + 64 <= bytes; at += 64) step(acc, e, a, at, ~__mmask64{0});
    if (at < bytes) step(acc, e, a, at, (__mmask64{1} << (bytes - at)) - 1);
    char* to = static_cast<char*>(e.sums) + row * e.sums_stride;
#pragma GCC unroll 4
    for (int j = 0; j < kCols; ++j) {
      uint32_t s[kHeight];
      if constexpr (kHeight == 4) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(s), sums(acc[0][j], acc[1][j], acc[2][j], acc[3][j]));
      } else {
        s[0] = sum(acc[0][j]);
      }
#pragma GCC unroll 4
      for (int i = 0; i < kHeight; ++i) {
        s[i] -= kOffset ? offset[j] : 0;
        std::memcpy(to + i * e.sums_stride + j * 4, &s[i], 4);
      }
    }
  }

  // 128 times the sum of a column.
  static uint32_t offset_of(const char* column, int64_t k) {
    __m512i acc = _mm512_setzero_si512();
    for (int64_t at = 0; at < k; at += 64) {
      const __mmask64 mask = k - at >= 64 ? ~__mmask64{0} : (__mmask64{1} << (k - at)) - 1;
      multiply_add(acc, upper_bits(), _mm512_maskz_loadu_epi8(mask, column + at));
    }
    return sum(acc);
  }

  template <int kCols>
  static void all_rows(const EdgeColumns& e) {
    uint32_t offset[kCols] = {};
    for (int j = 0; j < kCols && kOffset; ++j)
      offset[j] = offset_of(static_cast<const char*>(e.b) + j * e.b_stride, e.k);
    int64_t row = 0;
    for (; row + kRows <= e.rows; row += kRows) some_rows<kRows, kCols>(e, row, offset);
    for (; row < e.rows; ++row) some_rows<1, kCols>(e, row, offset);
  }

  static void run(const EdgeColumns& e) {
    static_assert(kMostEdgeColumns == 4);
    switch (e.cols) {
      case 1: return all_rows<1>(e);
      case 2: return all_rows<2>(e);
      case 3: return all_rows<3>(e);
      default: return all_rows<4>(e);
    }
  }
};

}  // namespace

EdgeDot edge_dot_words_avx512(DType a) {
  if (a == DType::bf16) return EdgeWords<DType::bf16>::run;
  return a == DType::u8 ? EdgeWords<DType::u8>::run : EdgeWords<DType::i8>::run;
}

}  // namespace tessera
