// How elements in memory become vectors of 32-bit words of k groups. Included by files for 256-bit vectors
// alone, each of which keeps its own copy: see cmake/isa_flags.cmake.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "tessera/dtype.h"

namespace tessera {
namespace {

template <class T>
inline T bits_at(const char* p) {
  T bits;
  std::memcpy(&bits, p, sizeof(T));
  return bits;
}

// The first `bytes` (at most 8) from p, zeros behind them: two reads that may overlap.
inline uint64_t load8(const char* p, int64_t bytes) {
  if (bytes >= 8) return bits_at<uint64_t>(p);
  if (bytes >= 4) {
    const uint64_t low = bits_at<uint32_t>(p), high = bits_at<uint32_t>(p + bytes - 4);
    return bytes == 4 ? low : low | high >> 8 * (8 - bytes) << 32;
  }
  uint64_t word = 0;
  if (bytes & 2) word = bits_at<uint16_t>(p);
  if (bytes & 1) word |= uint64_t{static_cast<uint8_t>(p[bytes - 1])} << 8 * (bytes - 1);
  return word;
}

// The same of at most 16.
inline __m128i load16(const char* p, int64_t bytes) {
  if (bytes >= 16) return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  const uint64_t low = load8(p, bytes), high = bytes > 8 ? load8(p + 8, bytes - 8) : 0;
  return _mm_set_epi64x(static_cast<int64_t>(high), static_cast<int64_t>(low));
}

// The same of at most 32.
inline __m256i load32(const char* p, int64_t bytes) {
  if (bytes >= 32) return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  const __m128i high = bytes > 16 ? load16(p + 16, bytes - 16) : _mm_setzero_si128();
  return _mm256_set_m128i(high, load16(p, bytes));
}

struct LaneMasks {
  int at[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
};
constexpr LaneMasks kLaneMasks;

// Lanes below `lanes` are all ones.
inline __m256i lane_mask(int64_t lanes) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kLaneMasks.at + 8 - lanes));
}

// The first `lanes` words of v. In pieces: masked stores take AMD's processors dozens of operations.
inline void store_words(uint32_t* p, int64_t lanes, __m256i v) {
  if (lanes >= 8) return _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v);
  __m128i part = _mm256_castsi256_si128(v);
  if (lanes & 4) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), part);
    part = _mm256_extracti128_si256(v, 1);
    p += 4;
  }
  if (lanes & 2) {
    _mm_storel_epi64(reinterpret_cast<__m128i*>(p), part);
    part = _mm_unpackhi_epi64(part, part);
    p += 2;
  }
  if (lanes & 1) _mm_storeu_si32(p, part);
}

// 8 8-bit floats as f32 bits. They go through f16, whose conversion is as fast for subnormals as for other
// numbers.
inline __m256i f8_bits(__m128i bytes, bool e4m3) {
  const __m128i half = _mm_slli_epi16(_mm_cvtepu8_epi16(bytes), 8);
  if (!e4m3) return _mm256_castps_si256(_mm256_cvtph_ps(half));  // the upper byte of f16
  const __m128i magnitude = _mm_and_si128(half, _mm_set1_epi16(0x7f00));
  const __m128i sign = _mm_andnot_si128(_mm_set1_epi16(0x7fff), half);
  const __m256 f = _mm256_mul_ps(_mm256_cvtph_ps(_mm_or_si128(_mm_srli_epi16(magnitude, 1), sign)),
                                 _mm256_set1_ps(256.0f));  // exponent biases 15 and 7
  const __m256i nan = _mm256_cvtepi16_epi32(_mm_cmpeq_epi16(magnitude, _mm_set1_epi16(0x7f00)));
  return _mm256_blendv_epi8(_mm256_castps_si256(f), _mm256_set1_epi32(0x7fc00000), nan);
}

// 8 elements at p, `live` of them there, as f32 bits.
template <DType kType>
inline __m256i floats(const char* p, int64_t live) {
  if constexpr (kType == DType::f32) {
    if (live >= 8) return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return _mm256_maskload_epi32(reinterpret_cast<const int*>(p), lane_mask(live));
  }
  if constexpr (kType == DType::bf16)
    return _mm256_slli_epi32(_mm256_cvtepu16_epi32(load16(p, live * 2)), 16);
  if constexpr (kType == DType::f16) return _mm256_castps_si256(_mm256_cvtph_ps(load16(p, live * 2)));
  return f8_bits(_mm_cvtsi64_si128(static_cast<int64_t>(load8(p, live))), kType == DType::f8e4m3);
}

// How memory elements become words: of one element as f32, of two 8-bit integers as 16-bit ones, or of four
// as they are.
template <DType kType, int kGroupSize>
struct Words {
  static constexpr int kGroup = kGroupSize;
  static constexpr int kBytes = kType == DType::f32 ? 4 : kType == DType::f16 || kType == DType::bf16 ? 2 : 1;
  static constexpr bool kRaw = kBytes * kGroup == 4;  // the bytes in memory are the word

  static inline __m256i widen(__m128i bytes) {
    return kType == DType::u8 ? _mm256_cvtepu8_epi16(bytes) : _mm256_cvtepi8_epi16(bytes);
  }
  // 8 words from elements contiguous along k, `live` elements there.
  static inline __m256i along_k(const char* p, int64_t live) {
    if constexpr (kGroup == 1) return floats<kType>(p, live);
    if constexpr (kGroup == 4) return load32(p, live);
    return widen(load16(p, live));
  }
  // Lane by lane, element (j, lane) of `live_k` rows k_bytes apart, `live` lanes there.
  static inline __m256i along_lanes(const char* p, int64_t k_bytes, int64_t live_k, int64_t live) {
    if constexpr (kGroup == 1) return floats<kType>(p, live);
    const auto pairs = [&](int64_t k) {
      const auto row = [&](int64_t i) {
        return _mm_cvtsi64_si128(i < live_k ? static_cast<int64_t>(load8(p + i * k_bytes, live)) : 0);
      };
      return _mm_unpacklo_epi8(row(k), row(k + 1));
    };
    if constexpr (kGroup == 2) return widen(pairs(0));
    const __m128i low = pairs(0), high = pairs(2);
    return _mm256_set_m128i(_mm_unpackhi_epi16(low, high), _mm_unpacklo_epi16(low, high));
  }
};

}  // namespace
}  // namespace tessera
