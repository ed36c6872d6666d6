// cpu_direct: a whole small GEMM, or a skinny one, in one call with nothing packed ahead. Vectors run along
// the columns of C, single words of the rows' operand are broadcast. What does not lie in memory as the
// arithmetic wants it is converted in blocks on the stack: 32-bit words that hold 1, 2 or 4 consecutive
// elements of k. "Rows" is the operand that C's rows come from: A, or with swap_ab, which computes C^T, B.
#pragma once

#include "cpu/unpacked.h"

namespace tsr {

// How words are made of memory, and multiplied.
template <class C>
struct WordMath {
  static constexpr int L = C::vector_bits / 32;
  static constexpr Type kRow = C::swap_ab ? C::type_b : C::type_a;
  static constexpr Type kCol = C::swap_ab ? C::type_a : C::type_b;
  static constexpr bool kVnni = C::inst == Inst::vnni, kMadd = C::inst == Inst::madd16,
                        kPairs = C::inst == Inst::dpbf16;
  static_assert(!kPairs || (kRow == Type::bf16 && kCol == Type::bf16));
  static constexpr int kGroup = kVnni ? 4 : kMadd || kPairs ? 2 : 1;
  // vpdpbusd wants unsigned x signed: of two signed operands the columns are moved up by 128, and 128 * (sum
  // of the row) is taken off the result.
  static constexpr bool kOffset = kVnni && kRow != Type::u8 && kCol != Type::u8;
  static constexpr unsigned kFlip = kOffset ? 0x80808080u : 0;

  using F = typename Vec<L>::F;
  using I = typename Vec<L>::I;
  using U = typename Vec<L>::U;
  using Acc = typename Accumulator<L, kVnni || kMadd>::type;

  // L words of one line: `part` of kGroup * L elements along k.
  template <Type kType>
  static TSR_INLINE U along(const char* p, Part part) {
    if constexpr (kVnni) {
      return load_copy8<U>(p, part);
    } else if constexpr (kPairs) {
      return load_copy16<U>(p, part);
    } else if constexpr (kMadd && kType == Type::u8) {
      return load_u8_as_16<U>(p, part);
    } else if constexpr (kMadd) {
      return load_i8_as_16<U>(p, part);
    } else {
      return as_bits<L>(load_floats<L, kType>(p, part));
    }
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
    if constexpr (kVnni && kRow == Type::u8) {
      return dot_u8(c, row, col);
    } else if constexpr (kVnni) {
      return dot_u8(c, col, row);
    } else if constexpr (kMadd) {
      return c + dot_i16(row, col);
    } else if constexpr (kPairs) {
      return dot_bf16(c, row, col);
    } else {
      return c + row * col;
    }
  }
};

template <class C>
struct Direct {
  using Math = WordMath<C>;
  using E = Epilogue<C>;
  using Acc = typename Math::Acc;
  using U = typename Math::U;
  using Word = decltype(Acc{}[0] + 0);
  static constexpr int L = Math::L, kGroup = Math::kGroup;
  static constexpr int kRows = C::tile_m, kCols = C::tile_n, kVectors = kCols / L;
  static constexpr int kHalfRows = (kRows + 1) / 2;
  static constexpr int kRowSize = bytes_of(Math::kRow), kColSize = bytes_of(Math::kCol);
  // Words of k in a block, so that a block of columns takes 32 KiB at most.
  static constexpr int kDepth = 8192 / kCols / L * L > 512 ? 512 : 8192 / kCols / L* L;
  static constexpr int kPitch = kDepth + L;  // of staged rows: not a power of two
  static constexpr int kRowTiles = kRows >= 24 ? 1 : kRows >= 8 ? 2 : 4;
  static constexpr int kTiles = 16;  // whose accumulators wait for the next block of k
  static constexpr int kRowBlock = (kRowTiles * kRows + L - 1) / L * L;

  // Lines of memory asked for in each step of the arithmetic: what a row of the next tile of columns takes.
  static constexpr int kFetch = (kCols * kColSize + 63) / 64;
  // C is the accumulators themselves, or rounded: short enough to unroll over the tile.
  static constexpr bool kBare =
      !C::swap_ab && C::epilogue_count == 0 &&
      (E::kInt || C::type_out == Type::f32 || C::type_out == Type::bf16 || C::type_out == Type::f16) &&
      E::kIntAcc == (C::type_out == Type::i32);

  struct Buffers {
    alignas(64) unsigned rows[kRowBlock][kPitch];
    alignas(64) unsigned cols[kDepth][kCols];
    alignas(64) unsigned held[kTiles][kRows][kCols];
    alignas(64) int offset[kRowBlock];
  };

  typedef unsigned Block[L][L];

  // One copy for all that needs it: what it costs to compile outweighs a detour through the first-level
  // cache.
  static __attribute__((noinline)) void transpose_to(unsigned* out, long long pitch, const Block& in) {
    U v[L];
    TSR_UNROLL for (int i = 0; i < L; ++i) v[i] = load_whole<U>(in[i]);
    transpose<L>(v);
    TSR_UNROLL for (int i = 0; i < L; ++i) store_whole(out + i * pitch, v[i]);
  }

  // `count` rows, `depth` elements of k each, as words; rows up to `padded` and words up to a whole vector
  // are zero.
  static TSR_INLINE void stage_rows(Buffers& b, const char* p, long long row_stride, long long k_stride,
                                    long long count, long long padded, long long depth) {
    constexpr int kSpan = kGroup * L;
    if (k_stride == kRowSize) {
      const long long whole = (depth - 1) / kSpan * kSpan;
      const Part part(depth - whole);
      for (long long r = 0; r < count; ++r) {
        const char* row = p + r * row_stride;
        for (long long l = 0; l < whole; l += kSpan) {
          store_whole(&b.rows[r][l / kGroup],
                      Math::template along<Math::kRow>(row + l * kRowSize, Part(kSpan)));
        }
        store_whole(&b.rows[r][whole / kGroup],
                    Math::template along<Math::kRow>(row + whole * kRowSize, part));
      }
      for (long long r = count; r < padded; ++r) {
        for (long long l = 0; l < depth; l += kSpan) store_whole(&b.rows[r][l / kGroup], U{});
      }
    } else {
      for (long long r = 0; r < padded; r += L) {
        const Part lines(count - r > 0 ? count - r : 0);
        for (long long l = 0; l < depth; l += kSpan) {
          alignas(64) Block block;
          for (int i = 0; i < L; ++i) {
            const long long at = l + i * kGroup;
            const char* from = p + r * kRowSize + at * k_stride;
            store_whole(block[i], at < depth
                                      ? Math::template across<Math::kRow>(from, k_stride, depth - at, lines)
                                      : U{});
          }
          transpose_to(&b.rows[r][l / kGroup], kPitch, block);
        }
      }
    }
    if constexpr (Math::kOffset) {
      using I = typename Math::I;
      for (long long r = 0; r < padded; r += L) {
        alignas(64) Block sums, lanes;
        for (int i = 0; i < L; ++i) {
          I sum{};
          for (long long w = 0; w * kGroup < depth; w += L) {
            sum = dot_u8(sum, I{} + static_cast<int>(Math::kFlip), load_whole<I>(&b.rows[r + i][w]));
          }
          store_whole(sums[i], sum);
        }
        transpose_to(lanes[0], L, sums);
        I total{};
        for (int i = 0; i < L; ++i) total += load_whole<I>(lanes[i]);
        store_whole(b.offset + r, total);
      }
    }
  }

  static TSR_INLINE void stage_cols(Buffers& b, const char* p, long long col_stride, long long k_stride,
                                    long long count, long long depth) {
    constexpr int kSpan = kGroup * L;
    const U flip = U{} + Math::kFlip;
    if (k_stride != kColSize) {
      for (long long l = 0; l < depth; l += kGroup, p += kGroup * k_stride) {
        for (long long c = 0; c < count; c += L) {
          const U words =
              Math::template across<Math::kCol>(p + c * kColSize, k_stride, depth - l, Part(count - c));
          store_whole(&b.cols[l / kGroup][c], flip ^ words);
        }
      }
      return;
    }
    for (long long c = 0; c < count; c += L) {
      for (long long l = 0; l < depth; l += kSpan) {
        alignas(64) Block block;
        const char* from = p + c * col_stride + l * kColSize;
        const Part part(depth - l);
        for (int i = 0; i < L; ++i, from += col_stride) {
          store_whole(block[i], c + i < count ? flip ^ Math::template along<Math::kCol>(from, part) : U{});
        }
        transpose_to(&b.cols[l / kGroup][c], kCols, block);
      }
    }
  }

  struct Lines {
    const char* p;
    long long stride, k_stride;  // bytes; of words
  };
  // What the arithmetic of a tile gives time to fetch: `steps` words `k_stride` apart, then the next line.
  struct Ahead {
    const char* p;
    long long stride, k_stride, steps;
  };

  // C's tile at (row, col), or what is known of it after this block of k, which waits in `held`.
  template <int R>
  static TSR_INLINE void tile(const UnpackedArgs& args, unsigned (&held)[kRows][kCols], bool first, bool last,
                              Lines rows, Lines cols, long long words, const int* offset, Ahead ahead,
                              long long row, long long row_count, long long col, long long col_count) {
    Acc acc[R][kVectors];
    if (first) {
      TSR_UNROLL for (int r = 0; r < R; ++r) {
        TSR_UNROLL for (int v = 0; v < kVectors; ++v) acc[r][v] = Acc{};
      }
    } else {
      TSR_UNROLL for (int r = 0; r < R; ++r) {
        TSR_UNROLL for (int v = 0; v < kVectors; ++v) acc[r][v] = load_whole<Acc>(&held[r][v * L]);
      }
    }
    if constexpr (Math::kOffset) {
      TSR_UNROLL for (int r = 0; r < R; ++r) {
        TSR_UNROLL for (int v = 0; v < kVectors; ++v) acc[r][v] -= offset[r];
      }
    }
    // One pointer per three rows: its neighbours are reached by scaled addressing.
    constexpr int kPointers = (R + 2) / 3;
    const char* pointers[kPointers];
    TSR_UNROLL for (int i = 0; i < kPointers; ++i) pointers[i] = rows.p + 3 * i * rows.stride;
    // Chains of additions: about 8 accumulators hide the latency of the multiplier.
    constexpr int kChains = R * kVectors >= 6 ? 1 : 2;
    Acc other[R][kVectors];
    if constexpr (kChains > 1) {
      TSR_UNROLL for (int r = 0; r < R; ++r) {
        TSR_UNROLL for (int v = 0; v < kVectors; ++v) other[r][v] = Acc{};
      }
    }
    const char* fetch;
    auto step = [&](Acc(&sum)[R][kVectors]) __attribute__((always_inline)) {
      Acc right[kVectors];
      TSR_UNROLL for (int v = 0; v < kVectors; ++v) right[v] = load_whole<Acc>(cols.p + v * L * 4);
      TSR_UNROLL for (int v = 0; v < kFetch; ++v) __builtin_prefetch(fetch + v * 64);
      TSR_UNROLL for (int r = 0; r < R; ++r) {
        typedef Word __attribute__((may_alias, aligned(1))) Unaligned;
        Acc left = *reinterpret_cast<const Unaligned*>(pointers[r / 3] + r % 3 * rows.stride) - Acc{};
        if constexpr (kVectors > 1) asm("" : "+v"(left));  // one broadcast for the row, not one per multiply
        TSR_UNROLL for (int v = 0; v < kVectors; ++v) sum[r][v] = Math::multiply(sum[r][v], left, right[v]);
      }
      TSR_UNROLL for (int i = 0; i < kPointers; ++i) {
        pointers[i] += rows.k_stride;
        asm("" : "+r"(pointers[i]));  // keeps the compiler from one pointer per row
      }
      cols.p += cols.k_stride;
      fetch += ahead.k_stride;
    };
    for (; words > 0; words -= ahead.steps) {
      fetch = ahead.p;
      long long s = least(words, ahead.steps);
      if constexpr (kChains > 1) {
        for (; s > 1; s -= 2) {
          step(acc);
          step(other);
        }
      }
      for (; s > 0; --s) step(acc);
      ahead.p += ahead.stride;
    }
    if constexpr (kChains > 1) {
      TSR_UNROLL for (int r = 0; r < R; ++r) {
        TSR_UNROLL for (int v = 0; v < kVectors; ++v) acc[r][v] += other[r][v];
      }
    }
    if constexpr (kBare && R == kRows) {
      if (last && row_count == R && col_count == kCols && args.epilogue.plain && !args.sums) {
        constexpr int kSize = bytes_of(C::type_out);
        char* c = static_cast<char*>(args.epilogue.c) + (row * args.epilogue.c_stride + col) * kSize;
        TSR_UNROLL for (int r = 0; r < R; ++r, c += args.epilogue.c_stride * kSize) {
          TSR_UNROLL for (int v = 0; v < kVectors; ++v) {
            if constexpr (kSize == 4) {
              store_whole(c + v * L * kSize, acc[r][v]);
            } else {
              store_float<L, C::type_out>(c + v * L * kSize, L, acc[r][v]);
            }
          }
        }
        return;
      }
    }
    TSR_UNROLL for (int r = 0; r < R; ++r) {
      TSR_UNROLL for (int v = 0; v < kVectors; ++v) store_whole(&held[r][v * L], acc[r][v]);
    }
    if (last) finish(args, held, row, row_count, col, col_count);
  }

  static __attribute__((noinline)) void finish(const UnpackedArgs& args, const unsigned (&tile)[kRows][kCols],
                                               long long row, long long row_count, long long col,
                                               long long col_count) {
    if constexpr (!C::swap_ab) {
      Unpacked<C>::store_tile(args, tile[0], kCols, row, col, static_cast<int>(row_count),
                              static_cast<int>(col_count));
    } else {
      for (long long c = 0; c < col_count; c += L) {
        for (long long r = 0; r < row_count; r += L) {
          alignas(64) Block block, out;
          for (int i = 0; i < L; ++i)
            store_whole(block[i], r + i < kRows ? load_whole<U>(&tile[r + i][c]) : U{});
          transpose_to(out[0], L, block);
          Unpacked<C>::store_tile(args, out[0], L, col + c, row + r,
                                  static_cast<int>(least(L, col_count - c)),
                                  static_cast<int>(least(L, row_count - r)));
        }
      }
    }
  }

  // Whether lines `stride` apart find room beside each other in the first-level cache: those whose distance
  // is a multiple of a page compete for the ways of one set, of which there are at least 8.
  static TSR_INLINE bool fits_ways(long long stride, int lines) {
    // The lowest bit set says how soon the pattern repeats.
    return lines * least(stride & -stride, 4096) <= 8 * 4096;
  }

  static TSR_INLINE void run(const UnpackedArgs& args) {
    constexpr bool kSwap = C::swap_ab;
    const char* rows = static_cast<const char*>(kSwap ? args.b : args.a);
    const char* cols = static_cast<const char*>(kSwap ? args.a : args.b);
    const long long row_stride = kSwap ? args.b_col_bytes : args.a_row_bytes;
    const long long row_k = kSwap ? args.b_k_bytes : args.a_k_bytes;
    const long long col_stride = kSwap ? args.a_row_bytes : args.b_col_bytes;
    const long long col_k = kSwap ? args.a_k_bytes : args.b_k_bytes;
    const long long row_begin = kSwap ? args.col_begin : args.row_begin,
                    row_end = kSwap ? args.col_end : args.row_end;
    const long long col_begin = kSwap ? args.row_begin : args.col_begin,
                    col_end = kSwap ? args.row_end : args.col_end;

    const long long row_tiles = least(kRowTiles, (row_end - row_begin + kRows - 1) / kRows);
    const long long col_block = (row_tiles > 2 ? kTiles / 4 : row_tiles > 1 ? kTiles / 2 : kTiles) * kCols;
    const bool rows_in_place = Math::kRow == Type::f32 && kGroup == 1 &&
                               (fits_ways(row_stride, kRows) || row_k != 4 || args.k <= 2 * L);
    const bool cols_in_place = Math::kCol == Type::f32 && kGroup == 1 && col_stride == kColSize &&
                               (row_tiles == 1 || fits_ways(col_k, kDepth) || args.k <= 2 * L);
    // With a single tile of columns it is the rows that are streamed.
    const bool one_column = col_end - col_begin <= kCols,
               one_tile = one_column && row_end - row_begin <= kRows;
    const long long block = kDepth * kGroup < args.block_k ? kDepth * kGroup : args.block_k;
    Buffers b;
    const char* staged = nullptr;  // the block of columns that b.cols holds
    for (long long c0 = col_begin; c0 < col_end; c0 += col_block) {
      const long long c1 = least(c0 + col_block, col_end);
      for (long long r0 = row_begin; r0 < row_end; r0 += row_tiles * kRows) {
        const long long r1 = least(r0 + row_tiles * kRows, row_end);
        long long k0 = args.k_begin;
        do {
          const long long depth = least(block, args.k_end - k0), words = (depth + kGroup - 1) / kGroup;
          const bool first = k0 == args.k_begin, last = k0 + depth == args.k_end;
          const char* row = rows + r0 * row_stride + k0 * row_k;
          Lines lines{row, row_stride, row_k};
          const long long odd_rows = (r1 - r0) % kRows;
          if (!rows_in_place || (odd_rows != 0 && odd_rows != kHalfRows)) {
            stage_rows(b, row, row_stride, row_k, r1 - r0, least(r1 - r0 + kHalfRows, row_tiles * kRows),
                       depth);
            lines = {reinterpret_cast<const char*>(b.rows[0]), kPitch * 4, 4};
          }
          unsigned(*held)[kRows][kCols] = b.held;
          for (long long c = c0; c < c1; c += kCols) {
            const long long col_count = least(kCols, c1 - c);
            const char* col = cols + c * col_stride + k0 * col_k;
            Lines right{col, col_stride, col_k};
            Ahead ahead{
                c + kCols < c1 ? col + kCols * col_stride : cols + c0 * col_stride + (k0 + depth) * col_k, 0,
                col_k * kGroup, words};
            if (!cols_in_place || col_count < kCols) {
              if (col != staged) stage_cols(b, col, col_stride, col_k, col_count, depth);
              staged = col;
              right = {reinterpret_cast<const char*>(b.cols), 4, kCols * 4};
            }
            Lines from = lines;
            for (long long i = r0; i < r1; i += kRows, ++held, from.p += kRows * lines.stride) {
              const long long row_count = least(kRows, r1 - i);
              const int* offset = b.offset + (i - r0);
              if (one_tile) {
                ahead.p = col + 24 * ahead.k_stride;
              } else if (one_column) {
                ahead.p = last ? rows + (i + row_tiles * kRows) * row_stride + args.k_begin * row_k
                               : rows + i * row_stride + (k0 + depth) * row_k;
                ahead.k_stride = row_k * kGroup;
                if (row_k == kRowSize && words > 4 * kRows) {
                  ahead.steps = (words + kRows - 1) / kRows;
                  ahead.stride = row_stride;
                  ahead.k_stride *= kRows;
                }
              }
              if (kHalfRows < kRows && row_count <= kHalfRows) {
                tile<kHalfRows>(args, *held, first, last, from, right, words, offset, ahead, i, row_count, c,
                                col_count);
              } else {
                tile<kRows>(args, *held, first, last, from, right, words, offset, ahead, i, row_count, c,
                            col_count);
              }
            }
          }
        } while ((k0 += block) < args.k_end);
      }
    }
  }
};

template <class Config>
TSR_INLINE void cpu_direct(const void* p) {
  const UnpackedArgs& args = *static_cast<const UnpackedArgs*>(p);
  if (args.parts) return Unpacked<Config>::add_parts(args);
  Direct<Config>::run(args);
}

}  // namespace tsr
