// cpu_direct's operands as 32-bit words that hold 1, 2 or 4 consecutive elements of k: how words are made of
// memory, multiplied, and staged where they do not lie in memory already. "Rows" is the operand that C's rows
// come from, A, or with swap_ab, which computes C^T, B.
#pragma once

#include "cpu/direct_stages.h"
#include "cpu/multiply.h"
#include "cpu/unpacked.h"
#include "cpu/unpacked_math.h"

namespace tsr {

// How words are made of memory, and multiplied.
template <class C>
struct WordMath : UnpackedMath<C> {
  using Base = UnpackedMath<C>;
  using Base::kGroup, Base::kMadd, Base::kOffset, Base::kPairs, Base::kRow, Base::kVnni, Base::L;
  using typename Base::Acc, typename Base::U;
  // It is the rows that kOffset moves.
  static constexpr bool kRowIsUnsigned = kOffset || kRow == Type::u8;
  static constexpr unsigned kFlip = kOffset ? 0x80808080u : 0;

  // Whether words lie in memory: `k_stride` bytes between neighbours along k, `depth` of them.
  template <Type kType, bool kFlipped>
  static TSR_INLINE bool in_memory(long long k_stride, long long depth) {
    constexpr int kSize = bytes_of(kType);
    if constexpr (kGroup == 1) return kType == Type::f32;
    return kSize * kGroup == 4 && !kFlipped && k_stride == kSize && depth % kGroup == 0;
  }

  // One element of each of L lines that lie side by side, in the low end of every lane.
  template <Type kType>
  static TSR_INLINE U elements(const char* p, Part lines) {
    if constexpr (kPairs) {
      return load_u16_as_32<U>(p, lines);
    } else if constexpr (kMadd && kType == Type::i8) {
      return load_i8_as_32<U>(p, lines) & 0xffffu;
    } else {
      return load_u8_as_32<U>(p, lines);
    }
  }

  // One word of each of L such lines: `depth` >= 1 of its kGroup elements exist, `k_stride` bytes apart.
  template <Type kType>
  static TSR_INLINE U across(const char* p, long long k_stride, long long depth, Part lines) {
    if constexpr (kGroup == 1) {
      return as_bits<L>(load_floats<L, kType>(p, lines));
    } else if (depth >= kGroup) {
      U u = elements<kType>(p, lines) | elements<kType>(p + k_stride, lines) << (32 / kGroup);
      if constexpr (kGroup == 4) {
        u |= (elements<kType>(p + 2 * k_stride, lines) | elements<kType>(p + 3 * k_stride, lines) << 8) << 16;
      }
      return u;
    } else {
      U u{};
      for (long long i = depth - 1; i >= 0; --i)
        u = u << (32 / kGroup) | elements<kType>(p + i * k_stride, lines);
      return u;
    }
  }

  static TSR_INLINE Acc multiply(Acc c, Acc row, Acc col) {
    if constexpr (kFewRegisters) {
      kVnni && !kRowIsUnsigned ? multiply_add<C::inst>(c, col, row) : multiply_add<C::inst>(c, row, col);
      return c;
    } else {
      return Base::template multiply<kRowIsUnsigned>(c, row, col);
    }
  }
};

// Lines of words.
struct Lines {
  const char* p;
  long long stride, k_stride;  // bytes between lines; between words
};

// Blocks of both operands as words, and what a tile keeps between two blocks of k.
template <class C>
struct Stage {
  using Math = WordMath<C>;
  using U = typename Math::U;
  static constexpr int L = Math::L, kGroup = Math::kGroup, kSpan = kGroup * L;
  static constexpr int kRows = C::tile_m, kHalfRows = (kRows + 1) / 2, kCols = C::tile_n;
  static constexpr int kRowSize = bytes_of(Math::kRow), kColSize = bytes_of(Math::kCol);
  // Words of k in a block, so that a block of columns takes 32 KiB at most.
  static constexpr int kDepth = 8192 / kCols / L * L > 512 ? 512 : 8192 / kCols / L* L;
  static constexpr int kPitch = kDepth + L;  // the largest
  static constexpr int kRowTiles = row_tiles_at_once(kRows);
  // Tiles whose accumulators wait for the next block of k: 32 KiB.
  static constexpr int kTiles = kRows * kCols > 512 ? 16 : kRows* kCols < 128 ? 64 : 8192 / (kRows * kCols);
  static constexpr int kRowBlock = (kRowTiles * kRows + L - 1) / L * L;

  alignas(64) unsigned rows[kRowBlock * kPitch];  // pitch(depth) apart
  alignas(64) unsigned cols[kDepth][kCols];
  alignas(64) unsigned held[kTiles][kRows][kCols];
  alignas(64) int start[kCols];  // what the products of a block of columns are too large by, negated

  typedef unsigned Block[L][L];

  // One copy for all that needs it: what it costs to compile outweighs a detour through the first-level
  // cache.
  static __attribute__((noinline)) void transpose_to(unsigned* out, long long pitch, const Block& in) {
    U v[L];
    TSR_UNROLL for (int i = 0; i < L; ++i) v[i] = load_whole<U>(in[i]);
    transpose<L>(v);
    TSR_UNROLL for (int i = 0; i < L; ++i) store_whole(out + i * pitch, v[i]);
  }

  // Words from one staged row to the next: not a power of two.
  static TSR_INLINE long long pitch(long long depth) { return (depth + kSpan - 1) / kSpan * L + L; }
  static TSR_INLINE bool holds_rows(long long count, long long depth) {
    return depth <= kDepth * kGroup &&
           (count + kHalfRows + L - 1) / L * L * pitch(depth) <= kRowBlock * kPitch;
  }
  // What take_rows writes at most, in words.
  static TSR_INLINE long long row_words(long long k_stride, long long count, long long depth) {
    const long long tiles = (count + kRows - 1) / kRows * kRows, turned = (count + L - 1) / L * L;
    return (k_stride != kRowSize && turned > tiles ? turned : tiles) * pitch(depth);
  }

  // `count` rows, `depth` elements of k each, go to `rows`; those that the last tile has more, and words up
  // to a whole vector, exist.
  static __attribute__((noinline)) Lines take_rows(unsigned* rows, const char* p, long long row_stride,
                                                   long long k_stride, long long count, long long depth) {
    const U flip = U{} + Math::kFlip;
    const long long distance = pitch(depth);
    unsigned* to = rows;
    if (k_stride == kRowSize) {
      for (long long r = 0; r < count; ++r, p += row_stride, to += distance) {
        for (long long l = 0; l < depth; l += kSpan) {
          store_whole(to + l / kGroup,
                      flip ^ Math::template along<Math::kRow>(p + l * kRowSize, Part(depth - l)));
        }
      }
    } else {
      for (long long r = 0; r < count; r += L, p += L * kRowSize, to += L * distance) {
        const Part lines(count - r);
        for (long long l = 0; l < depth; l += kSpan) {
          alignas(64) Block block;
          for (int i = 0; i < L; ++i) {
            const long long at = l + i * kGroup;
            store_whole(block[i], at < depth ? flip ^ Math::template across<Math::kRow>(
                                                          p + at * k_stride, k_stride, depth - at, lines)
                                             : U{});
          }
          transpose_to(to + l / kGroup, distance, block);
        }
      }
    }
    const long long rest = count % kRows, height = rest > kHalfRows ? kRows : kHalfRows;
    for (long long r = count; rest != 0 && r < count - rest + height; ++r) {
      for (long long w = 0; w * kGroup < depth; w += L) store_whole(rows + r * distance + w, U{});
    }
    return {reinterpret_cast<const char*>(rows), distance * 4, 4};
  }

  // `count` columns; columns up to a whole vector are zero, and so is k behind `depth` in the last word.
  __attribute__((noinline)) void take_cols(const char* p, long long col_stride, long long k_stride,
                                           long long count, long long depth) {
    if (k_stride != kColSize) {
      for (long long l = 0; l < depth; l += kGroup, p += kGroup * k_stride) {
        for (long long c = 0; c < count; c += L) {
          store_whole(&cols[l / kGroup][c], Math::template across<Math::kCol>(p + c * kColSize, k_stride,
                                                                              depth - l, Part(count - c)));
        }
      }
    } else {
      for (long long c = 0; c < count; c += L) {
        for (long long l = 0; l < depth; l += kSpan) {
          alignas(64) Block block;
          const char* from = p + c * col_stride + l * kColSize;
          const Part part(depth - l);
          for (int i = 0; i < L; ++i, from += col_stride) {
            store_whole(block[i], c + i < count ? Math::template along<Math::kCol>(from, part) : U{});
          }
          transpose_to(&cols[l / kGroup][c], kCols, block);
        }
      }
    }
    if constexpr (Math::kOffset) {
      using I = typename Math::I;
      constexpr int kVectors = kCols / L;
      I sums[kVectors] = {};
      for (long long w = 0; w * kGroup < depth; ++w) {
        TSR_UNROLL for (int v = 0; v < kVectors; ++v) sums[v] =
            dot_u8(sums[v], I{} + static_cast<int>(Math::kFlip), load_whole<I>(&cols[w][v * L]));
      }
      TSR_UNROLL for (int v = 0; v < kVectors; ++v) store_whole(start + v * L, -sums[v]);
    }
  }
};

}  // namespace tsr
