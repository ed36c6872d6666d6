// The left operand of AMX tiles, with 512-bit vectors. Everything here is local to the file: see
// cmake/isa_flags.cmake.
#include <immintrin.h>

#include "backend/cpu/pack.h"
#include "backend/cpu/pack_tiles.h"
#include "backend/cpu/pack_words_avx512.h"
#include "core/cache_line.h"

namespace tessera {
namespace {

// 16 elements at p (`live` of them there) as f32 bits.
inline __m512i floats(const char* p, int64_t live, DType t) {
  switch (t) {
    case DType::f32: return floats<DType::f32>(p, live);
    case DType::bf16: return floats<DType::bf16>(p, live);
    case DType::f16: return floats<DType::f16>(p, live);
    case DType::f8e4m3: return floats<DType::f8e4m3>(p, live);
    default: return floats<DType::f8e5m2>(p, live);
  }
}

// 16 words from 16 * group elements contiguous along k.
inline __m512i words_along_k(const char* p, int64_t live, const PanelSource& s) {
  if (s.group == 1) return floats(p, live, s.memory);
  if (s.memory == DType::bf16) return load64(p, live * 2);
  if (s.group == 4) return load64(p, live);
  const __m512i pairs = _mm512_cvtepu16_epi32(load32(p, live));
  if (info(s.memory).is_float) {  // f8 as bf16
    const bool e4m3 = s.memory == DType::f8e4m3;
    const __m512i low = f8_bits(_mm512_and_si512(pairs, _mm512_set1_epi32(0xff)), e4m3);
    const __m512i high = f8_bits(_mm512_srli_epi32(pairs, 8), e4m3);
    return _mm512_or_si512(_mm512_srli_epi32(low, 16), _mm512_and_si512(high, _mm512_set1_epi32(-65536)));
  }
  const __m256i bytes = load32(p, live);
  return s.memory == DType::u8 ? _mm512_cvtepu8_epi16(bytes) : _mm512_cvtepi8_epi16(bytes);
}

// 16 lanes of one k group from `live_k` rows (k) that are contiguous along the lanes.
inline __m512i words_along_lanes(const char* p, int64_t k_bytes, int live_k, int live, const PanelSource& s) {
  if (s.group == 1) return floats(p, live, s.memory);
  __m512i word = _mm512_setzero_si512();
  for (int j = 0; j < live_k; ++j, p += k_bytes) {
    __m512i e;
    if (s.memory == DType::bf16) {
      e = _mm512_cvtepu16_epi32(load32(p, live * 2));
    } else if (info(s.memory).is_float) {
      e = _mm512_srli_epi32(floats(p, live, s.memory), 16);
    } else if (s.group == 2 && s.memory == DType::i8) {
      e = _mm512_and_si512(_mm512_cvtepi8_epi32(load16(p, live)), _mm512_set1_epi32(0xffff));
    } else {
      e = _mm512_cvtepu8_epi32(load16(p, live));
    }
    word = _mm512_or_si512(word, _mm512_slli_epi32(e, static_cast<unsigned>(j * 32 / s.group)));
  }
  return word;
}

// 16 x 16 words: row i of the result holds word i of every input.
inline void transpose(__m512i (&r)[16]) {
  __m512i t[16];
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  // r[4 q + c] holds, in 128-bit part p, column 4 p + c of rows 4 q ... 4 q + 3.
  for (int c = 0; c < 4; ++c) {
    const __m512i low = _mm512_shuffle_i32x4(r[c], r[4 + c], 0x88),
                  low2 = _mm512_shuffle_i32x4(r[c], r[4 + c], 0xdd);
    const __m512i high = _mm512_shuffle_i32x4(r[8 + c], r[12 + c], 0x88),
                  high2 = _mm512_shuffle_i32x4(r[8 + c], r[12 + c], 0xdd);
    t[c] = _mm512_shuffle_i32x4(low, high, 0x88);
    t[8 + c] = _mm512_shuffle_i32x4(low, high, 0xdd);
    t[4 + c] = _mm512_shuffle_i32x4(low2, high2, 0x88);
    t[12 + c] = _mm512_shuffle_i32x4(low2, high2, 0xdd);
  }
  for (int i = 0; i < 16; ++i) r[i] = t[i];
}

// 32 lanes in bf16, lines of two rows of k, to words: part p of words[i] has lanes 8 p + 4 i and the three
// after it. Of four rows of bytes: pack_words_avx512.h.
inline void interleave_lines(const __m512i (&lines)[2], __m512i (&words)[2]) {
  words[0] = _mm512_unpacklo_epi16(lines[0], lines[1]);
  words[1] = _mm512_unpackhi_epi16(lines[0], lines[1]);
}

// Lines of `depth` rows along k to tiles of 16 lanes. kGroup vectors hold the lanes of kGroup tiles. The next
// lines of rows that lie pages apart are asked for, since the processor does not see them coming.
template <int kGroup>
void turn_neighbours(const char* data, int64_t row_bytes, int64_t depth, char* out, int64_t tile_bytes) {
  constexpr int kLanes = 16 * kGroup;
  const bool far = row_bytes >= kPageBytes;
  for (int64_t k = 0; k < depth; k += kLanes, out += 1024) {
    __m512i turned[kGroup][16];
    for (int i = 0; i < 16; ++i) {
      __m512i lines[kGroup], words[kGroup];
      for (int j = 0; j < kGroup; ++j) {
        const int64_t row = k + kGroup * i + j;
        if (far && row < depth) _mm_prefetch(data + row * row_bytes + kCacheLine, _MM_HINT_T1);
        lines[j] = row < depth ? _mm512_loadu_si512(data + row * row_bytes) : _mm512_setzero_si512();
      }
      interleave_lines(lines, words);
      for (int v = 0; v < kGroup; ++v) turned[v][i] = words[v];
    }
    for (int v = 0; v < kGroup; ++v) {
      transpose(turned[v]);
      for (int i = 0; i < 16; ++i) {
        const int lane = i / 4 * (4 * kGroup) + 4 * v + i % 4;
        _mm512_storeu_si512(out + lane / 16 * tile_bytes + lane % 16 * 64, turned[v][i]);
      }
    }
  }
}

// store(i, words): 16 channels of pixels 2 i and 2 i + 1 side by side.
template <class Store>
inline void pair_up(const char* const* pixels, int64_t pairs, int64_t offset, int live, const Store& store) {
  const __m512i interleave = _mm512_load_si512(kInterleave.at);
  const auto mask = static_cast<__mmask16>((1u << live) - 1);
  if (live == 16) {
    for (int64_t i = 0; i < pairs; ++i) {
      const __m256i even = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(pixels[2 * i] + offset));
      const __m512i both = _mm512_inserti64x4(
          _mm512_castsi256_si512(even),
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(pixels[2 * i + 1] + offset)), 1);
      store(i, _mm512_permutexvar_epi16(interleave, both));
    }
    return;
  }
  for (int64_t i = 0; i < pairs; ++i) {
    const __m512i both =
        _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_maskz_loadu_epi16(mask, pixels[2 * i] + offset)),
                           _mm256_maskz_loadu_epi16(mask, pixels[2 * i + 1] + offset), 1);
    store(i, _mm512_permutexvar_epi16(interleave, both));
  }
}

int at_most(int64_t x, int limit) { return static_cast<int>(x < limit ? x : limit); }

}  // namespace

void pack_tile_rows(const PanelSource& s, int64_t depth, int live, void* out) {
  const int64_t bytes = bytes_of(s.memory), row_bytes = s.lane_stride * bytes, step_k = 16 * s.group;
  auto* words = static_cast<uint32_t*>(out);
  for (int64_t k = 0; k < depth; k += step_k, words += 256) {
    const int64_t live_k = depth - k < step_k ? depth - k : step_k;
    const char* p = s.data + k * s.k_stride * bytes;
    if (s.k_stride == 1) {
      for (int r = 0; r < 16; ++r) {
        _mm512_storeu_si512(words + 16 * r,
                            r < live ? words_along_k(p + r * row_bytes, live_k, s) : _mm512_setzero_si512());
      }
      continue;
    }
    // Rows contiguous: gather one k group of all rows at a time, then turn it.
    __m512i r[16];
    for (int i = 0; i < 16; ++i) {
      const int groups_k = at_most(live_k - i * s.group, s.group);
      r[i] = groups_k > 0 ? words_along_lanes(p + i * s.group * s.k_stride * bytes, s.k_stride * bytes,
                                              groups_k, live, s)
                          : _mm512_setzero_si512();
    }
    transpose(r);
    for (int i = 0; i < 16; ++i) _mm512_storeu_si512(words + 16 * i, r[i]);
  }
}

int neighbour_rows(const PanelSource& s) {
  if (s.lane_stride != 1) return 0;
  return s.memory == DType::bf16 && s.group == 2 ? 32 : s.group == 4 ? 64 : 0;
}

void pack_neighbour_rows(const PanelSource& s, int64_t depth, void* out, int64_t tile_bytes) {
  if (s.group == 2) {
    turn_neighbours<2>(s.data, s.k_stride * 2, depth, static_cast<char*>(out), tile_bytes);
  } else {
    turn_neighbours<4>(s.data, s.k_stride, depth, static_cast<char*>(out), tile_bytes);
  }
}

void turn_pixels(const char* const* pixels, int64_t offset, int live, void* out) {
  __m512i r[16];
  pair_up(pixels, 16, offset, live, [&](int64_t i, __m512i words) { r[i] = words; });
  transpose(r);
  for (int i = 0; i < 16; ++i) _mm512_storeu_si512(static_cast<char*>(out) + 64 * i, r[i]);
}

void pair_pixels(const char* const* pixels, int64_t pairs, int64_t offset, int live, void* out) {
  pair_up(pixels, pairs, offset, live,
          [&](int64_t i, __m512i words) { _mm512_storeu_si512(static_cast<char*>(out) + 64 * i, words); });
}

}  // namespace tessera
