#include <immintrin.h>

#include "backend/cpu/copy_pieces.h"
#include "core/cache_line.h"

namespace tessera {

void copy_pieces_avx512(char* to, int64_t to_step, const char* from, int64_t from_step, int64_t bytes,
                        int64_t count) {
  if (bytes == 32) {  // sixteen channels of bf16
    for (; count > 0; --count, to += to_step, from += from_step) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
    }
    return;
  }
  const int64_t whole = bytes / 64 * 64;
  const __mmask64 rest = (__mmask64{1} << (bytes - whole)) - 1;
  for (; count > 0; --count, to += to_step, from += from_step) {
    for (int64_t i = 0; i < whole; i += 64) _mm512_storeu_si512(to + i, _mm512_loadu_si512(from + i));
    if (rest) _mm512_mask_storeu_epi8(to + whole, rest, _mm512_maskz_loadu_epi8(rest, from + whole));
  }
}

void stream_lines_avx512(char* to, int64_t to_step, char* from, int64_t from_step, int64_t bytes,
                         int64_t count, bool begins, bool ends) {
  for (; count > 0; --count, to += to_step, from += from_step) {
    // What lies before the piece in its first line comes with it, or, at the beginning of the row, that line
    // is none of ours alone.
    int64_t i = -(reinterpret_cast<intptr_t>(to) & (kCacheLine - 1));
    if (begins && i < 0) {
      i = i + kCacheLine < bytes ? i + kCacheLine : bytes;
      const __mmask64 before = (__mmask64{1} << i) - 1;
      _mm512_mask_storeu_epi8(to, before, _mm512_maskz_loadu_epi8(before, from));
    }
    for (; i + kCacheLine <= bytes; i += kCacheLine)
      _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i), _mm512_loadu_si512(from + i));
    if (!ends) {
      _mm512_storeu_si512(from - kCacheLine, _mm512_loadu_si512(from + bytes - kCacheLine));
    } else if (i < bytes) {
      const __mmask64 rest = (__mmask64{1} << (bytes - i)) - 1;
      _mm512_mask_storeu_epi8(to + i, rest, _mm512_maskz_loadu_epi8(rest, from + i));
    }
  }
}

void widen_pixels_avx512(char* to, const char* from, int64_t channels, int64_t wide, int64_t count) {
  if (wide > 32) {
    for (int64_t i = 0; i < count; ++i, to += wide * 2, from += channels * 2) {
      copy_pieces_avx512(to, wide * 2, from, channels * 2, channels * 2, 1);
      for (int64_t c = channels; c < wide; ++c) to[2 * c] = to[2 * c + 1] = 0;
    }
    return;
  }
  // As many whole pixels as a vector holds, their elements brought to their places at once.
  const int64_t pixels = 32 / wide;
  alignas(64) uint16_t places[32] = {};
  __mmask32 there = 0;
  for (int64_t i = 0; i < pixels * wide; ++i) {
    places[i] = static_cast<uint16_t>(i / wide * channels + i % wide);
    if (i % wide < channels) there |= __mmask32{1} << i;
  }
  const __m512i index = _mm512_load_si512(places);
  auto whole = [](int64_t elements) { return static_cast<__mmask32>((uint64_t{1} << elements) - 1); };
  const __mmask32 read = whole(pixels * channels), written = whole(pixels * wide);
  for (; count >= pixels; count -= pixels, to += pixels * wide * 2, from += pixels * channels * 2) {
    const __m512i v = _mm512_maskz_loadu_epi16(read, from);
    _mm512_mask_storeu_epi16(to, written, _mm512_maskz_permutexvar_epi16(there, index, v));
  }
  const __m512i v = _mm512_maskz_loadu_epi16(whole(count * channels), from);
  _mm512_mask_storeu_epi16(to, whole(count * wide), _mm512_maskz_permutexvar_epi16(there, index, v));
}

}  // namespace tessera
