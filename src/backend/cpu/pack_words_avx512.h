// How elements in memory become vectors of 32-bit words of k groups. Included by files for 512-bit vectors
// alone, each of which keeps its own copy: see cmake/isa_flags.cmake.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "tessera/dtype.h"

namespace tessera {
namespace {

// `bytes` from p (at most what the type holds), zeros behind them.
inline __m512i load64(const char* p, int64_t bytes) {
  if (bytes >= 64) return _mm512_loadu_si512(p);
  return _mm512_maskz_loadu_epi8((uint64_t{1} << bytes) - 1, p);
}
inline __m256i load32(const char* p, int64_t bytes) {
  if (bytes >= 32) return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return _mm256_maskz_loadu_epi8(static_cast<__mmask32>((uint64_t{1} << bytes) - 1), p);
}
inline __m128i load16(const char* p, int64_t bytes) {
  if (bytes >= 16) return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm_maskz_loadu_epi8(static_cast<__mmask16>((1u << bytes) - 1), p);
}

// 16 8-bit floats in the low bytes of 32-bit lanes, as f32 bits. They go through f16, whose conversion is as
// fast for subnormals as for other numbers.
inline __m512i f8_bits(__m512i byte, bool e4m3) {
  if (!e4m3) {  // the upper byte of f16
    return _mm512_castps_si512(_mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_slli_epi32(byte, 8))));
  }
  const __m512i magnitude = _mm512_and_si512(byte, _mm512_set1_epi32(0x7f));
  const __m512i sign = _mm512_slli_epi32(_mm512_xor_si512(byte, magnitude), 8);
  const __m256i half = _mm512_cvtepi32_epi16(_mm512_or_si512(_mm512_slli_epi32(magnitude, 7), sign));
  const __m512 f = _mm512_mul_ps(_mm512_cvtph_ps(half), _mm512_set1_ps(256.0f));  // exponent biases 15 and 7
  const __mmask16 nan = _mm512_cmpeq_epi32_mask(magnitude, _mm512_set1_epi32(0x7f));
  return _mm512_mask_mov_epi32(_mm512_castps_si512(f), nan, _mm512_set1_epi32(0x7fc00000));
}

// 16 elements at p, `live` of them there, as f32 bits.
template <DType kType>
inline __m512i floats(const char* p, int64_t live) {
  if constexpr (kType == DType::f32) return load64(p, live * 4);
  if constexpr (kType == DType::bf16)
    return _mm512_slli_epi32(_mm512_cvtepu16_epi32(load32(p, live * 2)), 16);
  if constexpr (kType == DType::f16) return _mm512_castps_si512(_mm512_cvtph_ps(load32(p, live * 2)));
  return f8_bits(_mm512_cvtepu8_epi32(load16(p, live)), kType == DType::f8e4m3);
}

// Of two halves of a vector, 16 elements each, in turn one of each.
struct alignas(64) Interleave {
  uint16_t at[32];
  constexpr Interleave() : at() {
    for (int i = 0; i < 32; ++i) at[i] = static_cast<uint16_t>(i / 2 + i % 2 * 16);
  }
};
constexpr Interleave kInterleave;

// How memory elements become words.
template <DType kType, int kGroupSize>
struct Words {
  static constexpr int kGroup = kGroupSize;
  static constexpr int kBytes = kType == DType::f32 ? 4 : kType == DType::f16 || kType == DType::bf16 ? 2 : 1;
  static constexpr bool kRaw = kBytes * kGroup == 4;  // the bytes in memory are the word
  static constexpr bool kF8 = kType == DType::f8e4m3 || kType == DType::f8e5m2;

  // 16 words from elements contiguous along k, `live` elements there.
  static inline __m512i along_k(const char* p, int64_t live) {
    if constexpr (kRaw) return load64(p, live * kBytes);
    if constexpr (kGroup == 1) return floats<kType>(p, live);
    const __m256i bytes = load32(p, live);
    if constexpr (kF8) {  // as bf16
      const __m512i pairs = _mm512_cvtepu16_epi32(bytes);
      const __m512i low = f8_bits(_mm512_and_si512(pairs, _mm512_set1_epi32(0xff)), kType == DType::f8e4m3);
      const __m512i high = f8_bits(_mm512_srli_epi32(pairs, 8), kType == DType::f8e4m3);
      return _mm512_or_si512(_mm512_srli_epi32(low, 16), _mm512_and_si512(high, _mm512_set1_epi32(-65536)));
    }
    return kType == DType::u8 ? _mm512_cvtepu8_epi16(bytes) : _mm512_cvtepi8_epi16(bytes);
  }

  // Lane by lane, element (j, lane) of `live_k` rows k_bytes apart, `live` lanes there.
  static inline __m512i along_lanes(const char* p, int64_t k_bytes, int live_k, int live) {
    if constexpr (kGroup == 1) return floats<kType>(p, live);
    if constexpr (kRaw && kBytes == 2) {
      const __m256i next = live_k > 1 ? load32(p + k_bytes, live * 2) : _mm256_setzero_si256();
      const __m512i both = _mm512_inserti64x4(_mm512_castsi256_si512(load32(p, live * 2)), next, 1);
      return _mm512_permutexvar_epi16(_mm512_load_si512(kInterleave.at), both);
    }
    __m512i word = _mm512_setzero_si512();
    for (int j = 0; j < live_k; ++j, p += k_bytes) {
      __m512i e;
      if constexpr (kF8) {
        e = _mm512_srli_epi32(floats<kType>(p, live), 16);
      } else if constexpr (kBytes == 2) {
        e = _mm512_cvtepu16_epi32(load32(p, live * 2));
      } else if constexpr (kGroup == 2 && kType == DType::i8) {
        e = _mm512_and_si512(_mm512_cvtepi8_epi32(load16(p, live)), _mm512_set1_epi32(0xffff));
      } else {
        e = _mm512_cvtepu8_epi32(load16(p, live));
      }
      word = _mm512_or_si512(word, _mm512_slli_epi32(e, static_cast<unsigned>(j * 32 / kGroup)));
    }
    return word;
  }
};

// Bytes of 64 lanes, lines of four rows of k, to words: part p of words[i] has lanes 16 p + 4 i and the three
// after it.
inline void interleave_lines(const __m512i (&rows)[4], __m512i (&words)[4]) {
  const __m512i low01 = _mm512_unpacklo_epi8(rows[0], rows[1]),
                low23 = _mm512_unpacklo_epi8(rows[2], rows[3]);
  const __m512i high01 = _mm512_unpackhi_epi8(rows[0], rows[1]),
                high23 = _mm512_unpackhi_epi8(rows[2], rows[3]);
  words[0] = _mm512_unpacklo_epi16(low01, low23);
  words[1] = _mm512_unpackhi_epi16(low01, low23);
  words[2] = _mm512_unpacklo_epi16(high01, high23);
  words[3] = _mm512_unpackhi_epi16(high01, high23);
}

// The same with the words in the order of the lanes.
inline void interleave_64(const char* row, int64_t k_bytes, uint32_t* to) {
  __m512i r[4], words[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) r[i] = _mm512_loadu_si512(row + i * k_bytes);
  interleave_lines(r, words);
  const __m512i even01 = _mm512_shuffle_i32x4(words[0], words[1], 0x88),
                even23 = _mm512_shuffle_i32x4(words[2], words[3], 0x88),
                odd01 = _mm512_shuffle_i32x4(words[0], words[1], 0xdd),
                odd23 = _mm512_shuffle_i32x4(words[2], words[3], 0xdd);
  _mm512_storeu_si512(to, _mm512_shuffle_i32x4(even01, even23, 0x88));
  _mm512_storeu_si512(to + 16, _mm512_shuffle_i32x4(odd01, odd23, 0x88));
  _mm512_storeu_si512(to + 32, _mm512_shuffle_i32x4(even01, even23, 0xdd));
  _mm512_storeu_si512(to + 48, _mm512_shuffle_i32x4(odd01, odd23, 0xdd));
}

}  // namespace
}  // namespace tessera
