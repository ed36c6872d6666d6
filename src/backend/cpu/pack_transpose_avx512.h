// Rows of words in memory become columns. Included by files for 512-bit vectors alone, each of which keeps
// its own copy: see cmake/isa_flags.cmake.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace tessera {
namespace {

// Adds the four signed bytes of each word; of processors with AVX512-VNNI.
inline __attribute__((always_inline)) void add_words(__m512i& sums, __m512i words) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sums) : "v"(_mm512_set1_epi8(1)), "v"(words));
}

// 16 rows whose words become columns, `bytes` apart, or, where `offset` is given, so far from p.
struct Rows {
  const char* p;
  int64_t bytes;
  const int64_t* offset;
  __mmask16 live;  // of those with offsets; others count as zeros
};

// Where they begin.
template <bool kAll>
struct Begins {
  static constexpr bool kMasked = !kAll;
  const char* base[4];
  int64_t bytes;
  const int64_t* offset;
  __mmask16 live;
  explicit inline __attribute__((always_inline)) Begins(const Rows& r)
      : bytes(r.bytes), offset(r.offset), live(r.live) {
    for (int i = 0; i < 4; ++i) base[i] = kAll ? r.p + 4 * i * bytes : r.p;
    // Kept from the compiler, which would work out and spill sixteen addresses.
    if constexpr (kAll) asm("" : "+r"(base[1]), "+r"(base[2]), "+r"(base[3]));
  }
  inline __attribute__((always_inline)) const char* operator[](int row) const {
    return kAll ? base[row / 4] + row % 4 * bytes : base[0] + offset[row];
  }
};

// Of 16 rows the last eight, copied some blocks of words ahead, a few rows at a time. Lines a multiple of 4
// KiB apart share a set of L1: of 16, and what the processor fetches after them, it would drop some before
// they are read.
struct HalfStaged {
  static constexpr int kBytes = 512, kPitch = kBytes + 64;
  alignas(64) char copy[8 * kPitch];

  // kBytes of each. Unrolled, which also keeps compilers from calling it a copy of memory.
  inline __attribute__((always_inline)) void take(const Rows& rows) {
    for (int row = 0; row < 8; row += kSide) {
      const char* from = rows.p + (8 + row) * rows.bytes;
      char* to = copy + row * kPitch;
#pragma GCC unroll 8
      for (int at = 0; at < kBytes; at += 64) {
#pragma GCC unroll 4
        for (int i = 0; i < kSide; ++i)
          _mm512_store_si512(to + at + i * kPitch, _mm512_loadu_si512(from + at + i * rows.bytes));
      }
    }
  }

  struct Begins {
    static constexpr bool kMasked = false;
    static constexpr __mmask16 live = 0xffff;
    const char *base[2], *staged;
    int64_t bytes, bytes3;
    inline __attribute__((always_inline)) const char* operator[](int row) const {
      if (row >= 8) return staged + (row - 8) * kPitch;
      return base[row / 4] + (row % 4 < 3 ? row % 4 * bytes : bytes3);
    }
  };
  inline __attribute__((always_inline)) Begins at(const Rows& rows, int64_t byte) const {
    const char* p = rows.p + byte;
    Begins b{{p, p + 4 * rows.bytes}, copy + byte, rows.bytes, 3 * rows.bytes};
    asm("" : "+r"(b.base[1]), "+r"(b.bytes3));
    return b;
  }

 private:
  static constexpr int kSide = 4;
};

// 16 words of 16 rows; word i of all rows to out + i * width. Halves of rows are put together on their way
// from memory, which saves a quarter of the shuffles; both of a row are asked for one after the other, while
// its line is at hand. kStream: past the caches, to an `out` whose rows are lines. kSums: the bytes of
// each row are added up.
template <bool kStream, bool kSums, class At>
inline __attribute__((always_inline)) void transpose(const At& rows, uint32_t* out, int64_t width,
                                                     __m512i& sums) {
  auto half = [](const char* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); };
  __m512i halves[2][8];  // rows 0-3 and with them rows 4-7, rows 8-11 and with them rows 12-15
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    const int row = i % 4 + i / 4 * 8;
    const __m256i low = half(rows[row]), high = half(rows[row] + 32);
    halves[0][i] = _mm512_inserti64x4(_mm512_castsi256_si512(low), half(rows[row + 4]), 1);
    halves[1][i] = _mm512_inserti64x4(_mm512_castsi256_si512(high), half(rows[row + 4] + 32), 1);
  }
  // Four words from an address that the compiler is to keep, rather than one for each.
  auto* to = reinterpret_cast<char*>(out);
  const int64_t bytes = width * 4;
  int64_t bytes3 = 3 * bytes;
  asm("" : "+r"(bytes3));
  __m512i parts[4] = {};  // one after another they would wait for each other
#pragma GCC unroll 2
  for (int h = 0; h < 2; ++h) {
    __m512i(&r)[8] = halves[h], t[8];
#pragma GCC unroll 4
    for (int i = 0; i < 8; i += 2) {
      t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
      t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += 4) {
      r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
      r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
      r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
      r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    // r[c], in quarters: word c of rows 0-3, word 4 + c of them, both of rows 4-7; r[4 + c]: of rows 8-15.
#pragma GCC unroll 8
    for (int c = 0; c < 8; ++c) {
      __m512i words =
          c < 4 ? _mm512_shuffle_i32x4(r[c], r[4 + c], 0x88) : _mm512_shuffle_i32x4(r[c - 4], r[c], 0xdd);
      if constexpr (At::kMasked) words = _mm512_maskz_mov_epi32(rows.live, words);
      if constexpr (kSums) add_words(parts[c % 4], words);
      char* const at = to + (c % 4 < 3 ? c % 4 * bytes : bytes3);
      if constexpr (kStream) {
        _mm512_stream_si512(reinterpret_cast<__m512i*>(at), words);
      } else {
        _mm512_storeu_si512(at, words);
      }
      if (c % 4 < 3) continue;
      to += 4 * bytes;
      asm("" : "+r"(to));
    }
  }
  if constexpr (kSums) {
    for (const __m512i& part : parts) sums = _mm512_add_epi32(sums, part);
  }
}

// The first `bytes` of each row, at most 16, as words of `written` rows.
template <bool kAll, bool kSums>
inline void transpose_quarter(const Rows& rows, int bytes, uint32_t* out, int64_t width, int written,
                              __m512i& sums) {
  const Begins<kAll> at(rows);
  const auto there = static_cast<__mmask16>((1u << bytes) - 1);
  auto piece = [&](int i) __attribute__((always_inline)) { return _mm_maskz_loadu_epi8(there, at[i]); };
  __m512i r[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm512_inserti32x4(_mm512_castsi128_si512(piece(i)), piece(4 + i), 1);
    r[i] = _mm512_inserti32x4(_mm512_inserti32x4(r[i], piece(8 + i), 2), piece(12 + i), 3);
  }
  const __m512i t0 = _mm512_unpacklo_epi32(r[0], r[1]), t1 = _mm512_unpackhi_epi32(r[0], r[1]);
  const __m512i t2 = _mm512_unpacklo_epi32(r[2], r[3]), t3 = _mm512_unpackhi_epi32(r[2], r[3]);
  const __m512i words[] = {_mm512_unpacklo_epi64(t0, t2), _mm512_unpackhi_epi64(t0, t2),
                           _mm512_unpacklo_epi64(t1, t3), _mm512_unpackhi_epi64(t1, t3)};
  const auto stored = static_cast<__mmask16>((1u << written) - 1);
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const __m512i word = kAll ? words[i] : _mm512_maskz_mov_epi32(rows.live, words[i]);
    if constexpr (kSums) add_words(sums, word);
    if (4 * i < bytes) _mm512_mask_storeu_epi32(out + i * width, stored, word);
  }
}

}  // namespace
}  // namespace tessera
