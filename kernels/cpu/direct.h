// cpu_direct: a whole small GEMM, or a skinny one, in one call with nothing packed ahead. Vectors run along
// the columns of C, single words of the rows' operand are broadcast. What does not lie in memory as the
// arithmetic wants it is staged on the stack, block by block.
#pragma once

#include "cpu/interleave.h"
#include "cpu/narrow.h"
#include "cpu/words.h"

namespace tsr {

template <class C>
struct Direct {
  using Math = WordMath<C>;
  using Staged = Stage<C>;
  using E = Epilogue<C>;
  using Acc = typename Math::Acc;
  using U = typename Math::U;
  using Word = decltype(Acc{}[0] + 0);
  static constexpr int L = Math::L, kGroup = Math::kGroup;
  static constexpr int kRows = C::tile_m, kCols = C::tile_n, kVectors = kCols / L;
  static constexpr int kHalfRows = (kRows + 1) / 2;
  // Columns are B in panels of words, one for each tile of columns (backend/cpu/prepacked_b.h).
  static constexpr bool kPanels = C::preshuffle;
  static_assert(!kPanels || !C::swap_ab);
  static constexpr int kRowSize = bytes_of(Math::kRow), kColSize = kPanels ? 4 : bytes_of(Math::kCol);

  // Lines of memory asked for in each step of the arithmetic: what a row of the next tile of columns takes.
  static constexpr int kFetch = (kCols * kColSize + 63) / 64;
  // C is the accumulators themselves, or rounded: short enough to unroll over the tile.
  static constexpr bool kBare =
      !C::swap_ab && C::epilogue_count == 0 &&
      (E::kInt || C::type_out == Type::f32 || C::type_out == Type::bf16 || C::type_out == Type::f16) &&
      E::kIntAcc == (C::type_out == Type::i32);
#ifdef __AVX512BW__
  // Columns that do not fill a tile are read and stored under masks, which stay in registers.
  static constexpr bool kMasks = kVectors <= 4,
                        kMaskedLoads = kMasks && !kPanels && kGroup == 1 && Math::kCol == Type::f32;
#else
  static constexpr bool kMasks = false, kMaskedLoads = false;
#endif

  // What the arithmetic of a tile gives time to fetch: `steps` words `k_stride` apart, then the next line. p
  // is null where all is in the cache. Only panels are ever fetched into the second-level cache.
  struct Ahead {
    const char* p;
    long long stride, k_stride, steps;
    bool to_l2;
  };
  typedef unsigned Held[kRows][kCols];

  // One tile and one block of k. Of its rows [skip, row_count) are its own, the others another tile's or
  // nobody's.
  struct Job {
    Lines rows, cols;
    long long words;
    Ahead ahead;
    long long row, skip, row_count, col, col_count;
    const UnpackedArgs* args;
    Held* held;        // the sums of the blocks before, unless this is the first, and after, unless the last
    const int* start;  // see Stage; of panels for all of k, else for this block
    bool first, last;
    bool bare;  // C gets the accumulators as they are
  };

  template <int R, bool kMasked>
  static __attribute__((noinline)) void tile(const Job& at) {
    const Lines rows = at.rows;
    const char* cols = at.cols.p;
    const long long col_k = at.cols.k_stride;
    const Ahead ahead = at.ahead;
    Held& held = *at.held;
    Part masks[kVectors];
    if constexpr (kMasks) {
      TSR_UNROLL for (int v = 0; v < kVectors; ++v) {
        masks[v] = Part(at.col_count > v * L ? at.col_count - v * L : 0);
      }
    }
    Acc acc[R][kVectors];
    TSR_UNROLL for (int r = 0; r < R; ++r) {
      TSR_UNROLL for (int v = 0; v < kVectors; ++v) acc[r][v] = Acc{};
    }
    if (!at.first) {
      TSR_UNROLL for (int r = 0; r < R; ++r) {
        TSR_UNROLL for (int v = 0; v < kVectors; ++v) acc[r][v] = load_whole<Acc>(&held[r][v * L]);
      }
    }
    if constexpr (Math::kOffset) {
      if (!kPanels || at.first) {
        TSR_UNROLL for (int v = 0; v < kVectors; ++v) {
          const Acc x = load_whole<Acc>(at.start + v * L);
          TSR_UNROLL for (int r = 0; r < R; ++r) acc[r][v] += x;
        }
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
    const char *fetch, *next_line = ahead.p;
    auto step = [&](Acc(&sum)[R][kVectors]) __attribute__((always_inline)) {
      Acc right[kVectors];
      TSR_UNROLL for (int v = 0; v < kVectors; ++v) {
        if constexpr (kMasked) {
          right[v] = load_copy32<Acc>(cols + v * L * 4, masks[v]);
        } else {
          right[v] = load_whole<Acc>(cols + v * L * 4);
        }
      }
      // Asked for where it is of use only: each costs a load.
      if (fetch) {
        if (kPanels && ahead.to_l2) {
          TSR_UNROLL for (int v = 0; v < kFetch; ++v) __builtin_prefetch(fetch + v * 64, 0, 2);
        } else {
          TSR_UNROLL for (int v = 0; v < kFetch; ++v) __builtin_prefetch(fetch + v * 64);
        }
        fetch += ahead.k_stride;
      }
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
      cols += col_k;
    };
    for (long long words = at.words; words > 0; words -= ahead.steps) {
      fetch = next_line;
      long long s = least(words, ahead.steps);
      if constexpr (kChains > 1) {
        for (; s > 1; s -= 2) {
          step(acc);
          step(other);
        }
      }
      for (; s > 0; --s) step(acc);
      next_line += ahead.stride;
    }
    if constexpr (kChains > 1) {
      TSR_UNROLL for (int r = 0; r < R; ++r) {
        TSR_UNROLL for (int v = 0; v < kVectors; ++v) acc[r][v] += other[r][v];
      }
    }
    if constexpr (kBare) {
      // Rows that another tile stores too get the same values twice.
      if (at.bare && (kMasks || at.col_count == kCols)) {
        constexpr int kSize = bytes_of(C::type_out);
        const long long stride = at.args->epilogue.c_stride;
        char* c = static_cast<char*>(at.args->epilogue.c) + (at.row * stride + at.col) * kSize;
        const long long count = at.row_count;
        TSR_UNROLL for (int r = 0; r < R; ++r, c += stride * kSize) {
          if (r >= count) return;
          TSR_UNROLL for (int v = 0; v < kVectors; ++v) {
            store_lanes<L, C::type_out, kMasks>(c + v * L * kSize, acc[r][v], masks[v]);
          }
        }
        return;
      }
    }
    TSR_UNROLL for (int r = 0; r < R; ++r) {
      TSR_UNROLL for (int v = 0; v < kVectors; ++v) store_whole(&held[r][v * L], acc[r][v]);
    }
    if (at.last) {
      finish(*at.args, &held[at.skip], at.row + at.skip, at.row_count - at.skip, at.col, at.col_count);
    }
  }

  static __attribute__((noinline)) void finish(const UnpackedArgs& args, const unsigned (*tile)[kCols],
                                               long long row, long long row_count, long long col,
                                               long long col_count) {
    if constexpr (!C::swap_ab) {
      Unpacked<C>::store_tile(args, tile[0], kCols, row, col, static_cast<int>(row_count),
                              static_cast<int>(col_count));
    } else {
      for (long long c = 0; c < col_count; c += L) {
        for (long long r = 0; r < row_count; r += L) {
          alignas(64) typename Staged::Block block, out;
          for (int i = 0; i < L; ++i)
            store_whole(block[i], r + i < row_count ? load_whole<U>(&tile[r + i][c]) : U{});
          Staged::transpose_to(out[0], L, block);
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

  // The operands by their part in the product.
  struct Shape {
    const char *rows, *cols;
    long long row_stride, row_k, col_stride, col_k;  // bytes between neighbours
    long long row_begin, row_end, col_begin, col_end;
    // One after the other: as a vector they would wait until the driver's writes have left for the cache.
    static TSR_INLINE long long read(long long x) {
      asm("" : "+r"(x));
      return x;
    }
    TSR_INLINE explicit Shape(const UnpackedArgs& args) {
      constexpr bool kSwap = C::swap_ab;
      rows = static_cast<const char*>(kSwap ? args.b : args.a);
      cols = static_cast<const char*>(kSwap ? args.a : args.b);
      row_stride = read(kSwap ? args.b_col_bytes : args.a_row_bytes);
      row_k = read(kSwap ? args.b_k_bytes : args.a_k_bytes);
      col_stride = read(kSwap ? args.a_row_bytes : args.b_col_bytes);
      col_k = read(kSwap ? args.a_k_bytes : args.b_k_bytes);
      row_begin = read(kSwap ? args.col_begin : args.row_begin);
      row_end = read(kSwap ? args.col_end : args.row_end);
      col_begin = read(kSwap ? args.row_begin : args.col_begin);
      col_end = read(kSwap ? args.row_end : args.col_end);
    }
  };

  // Rows [begin, end) of the tiles of one column of tiles, of which `rows` holds [base, ...). No memory
  // behind the last row is touched, unless it is staged: the last tile is moved up; or where there is no room
  // a smaller one comes first; or single rows, many times each.
  template <class Next>
  static TSR_INLINE void column(Job& job, const Lines& rows, long long first, long long base, long long begin,
                                long long end, bool staged, bool partial, const Next& next_tile) {
    for (long long i = begin; i < end;) {
      const long long rest = end - i;
      long long count = least(rest, kRows);  // rows that this tile gets done
      bool half = kHalfRows < kRows && rest <= kHalfRows;
      job.rows.stride = rows.stride;
      job.row = i;
      job.skip = 0;
      const long long height = half ? kHalfRows : kRows;
      if (rest < height && !staged) {
        if (end - height >= first) {
          job.row = end - height;
          job.skip = i - job.row;
        } else if (!half) {
          half = true;
          count = kHalfRows;
        } else {
          job.rows.stride = 0;
          count = 1;
        }
      }
      job.row_count = job.skip + count;
      job.rows.p = rows.p + (job.row - base) * rows.stride;
      next_tile(i);
      if (half) {
        if constexpr (kHalfRows < kRows) tile<kHalfRows, kMaskedLoads>(job);
      } else if (kMaskedLoads && partial) {
        tile<kRows, kMaskedLoads>(job);
      } else {
        tile<kRows, false>(job);
      }
      i += count;
    }
  }

  // Columns as words in memory, whole tiles of them or kept within bounds by masks.
  static constexpr bool kWordCols = kPanels || (kGroup == 1 && Math::kCol == Type::f32);
  static constexpr bool kAnyCols = kPanels || kMaskedLoads;
  // The correction behind the words of the panel of column c, for the part of k that comes first.
  static TSR_INLINE const int* panel_start(const UnpackedArgs& args, const Shape& s, long long c) {
    static constexpr int kNone[kCols] = {};
    if (args.k_begin > 0 || args.k_end == 0) return kNone;
    return reinterpret_cast<const int*>(s.cols + c * s.col_stride +
                                        (args.k + kGroup - 1) / kGroup * kGroup * s.col_k);
  }
  static TSR_INLINE bool cols_in_place(const Shape& s, long long depth) {
    if constexpr (kPanels) return true;
    // A tile of few rows reads its columns so fast that only the first-level cache can keep up.
    return kWordCols && (s.col_stride == kColSize || s.col_end - s.col_begin == 1) &&
           (kRows >= 6 || s.row_end - s.row_begin <= kRows || depth <= 2 * L ||
            fits_ways(s.col_k, Staged::kDepth));
  }
  static TSR_INLINE bool rows_in_place(const Shape& s, long long depth) {
    // Up to 16 lines cost less where they compete than their copies do.
    return Math::template in_memory<Math::kRow, Math::kOffset>(s.row_k, depth) &&
           (kRows <= 16 || fits_ways(s.row_stride, kRows) || s.row_k != kRowSize || depth <= 2 * L);
  }

  static TSR_INLINE Job job_for(const UnpackedArgs& args) {
    Job job;
    job.args = &args;
    job.bare = args.epilogue.plain && !args.sums;
    return job;
  }

  static constexpr long long kCached = 65536;  // elements of an operand that stay in the second-level cache

  // Everything where it lies, all of k at once: columns pass over rows that stay in the second-level cache.
  static TSR_INLINE void in_place(const UnpackedArgs& args, const Shape& s, long long depth) {
    alignas(64) Held held;
    Job job = job_for(args);
    job.held = &held;
    job.first = job.last = true;
    job.words = (depth + kGroup - 1) / kGroup;
    job.cols.k_stride = s.col_k * kGroup;
    job.rows.k_stride = s.row_k * kGroup;
    const bool cold = depth * (s.col_end - s.col_begin) > kCached;
    job.ahead.p = nullptr;
    job.ahead.k_stride = job.cols.k_stride;
    job.ahead.stride = 0;
    job.ahead.steps = job.words;
    job.ahead.to_l2 = args.streams == Streams::far;
    const Lines rows{s.rows + s.row_begin * s.row_stride + args.k_begin * s.row_k, s.row_stride, 0};
    const char* cols = s.cols + args.k_begin * s.col_k;
    for (long long c = s.col_begin; c < s.col_end; c += kCols) {
      job.cols.p = cols + c * s.col_stride;
      job.col = c;
      job.col_count = least(kCols, s.col_end - c);
      if constexpr (kPanels && Math::kOffset) job.start = panel_start(args, s, c);
      if (cold) {
        job.ahead.p = job.cols.p + (kPanels                 ? least(args.ahead_bytes, kCols * s.col_stride)
                                    : c + kCols < s.col_end ? kCols * s.col_stride
                                                            : 24 * job.cols.k_stride);
      }
      column(job, rows, s.row_begin, s.row_begin, s.row_begin, s.row_end, false, job.col_count < kCols,
             [](long long) {});
    }
  }

  static __attribute__((noinline)) void in_blocks(const UnpackedArgs& args) {
    const Shape s(args);
    const long long row_total = s.row_end - s.row_begin, col_total = s.col_end - s.col_begin;
    const long long k_total = args.k_end - args.k_begin;
    const bool words = cols_in_place(s, k_total);
    const bool ready = words && (kAnyCols || col_total % kCols == 0);
    // Rows fewer than a tile's would need more tiles than can wait.
    const bool row_words = rows_in_place(s, k_total) && (row_total >= kRows || row_total == kHalfRows);
    // What is staged has room for so much of k.
    constexpr long long kBlock = Staged::kDepth * kGroup;
    const bool staged_any = !ready || !row_words;
    const long long block =
        !staged_any && (kRows >= 6 || row_total <= kRows) ? args.block_k : least(kBlock, args.block_k);
    const bool one_block = k_total <= block;

    Staged staged;
    const long long row_tiles = least(Staged::kRowTiles, (row_total + kRows - 1) / kRows);
    const long long col_block = (kPanels && row_words ? 1
                                 : row_tiles > 2      ? Staged::kTiles / 4
                                 : row_tiles > 1      ? Staged::kTiles / 2
                                                      : Staged::kTiles) *
                                kCols;
    long long row_block = row_tiles * kRows;
    if (one_block && (row_words ? row_total * k_total <= kCached : Staged::holds_rows(row_total, k_total)))
      row_block = row_total;
    // With a single tile of columns it is the rows that are streamed.
    const bool one_column = col_total <= kCols;
    const char* staged_cols = nullptr;  // the block of columns that `staged` holds
    Job job = job_for(args);
    job.start = staged.start;
    const bool bare = job.bare;
    for (long long c0 = s.col_begin; c0 < s.col_end; c0 += col_block) {
      const long long c1 = least(c0 + col_block, s.col_end);
      for (long long r0 = s.row_begin; r0 < s.row_end; r0 += row_block) {
        const long long r1 = least(r0 + row_block, s.row_end);
        long long k0 = args.k_begin;
        do {
          const long long depth = least(block, args.k_end - k0);
          job.words = (depth + kGroup - 1) / kGroup;
          const char* row = s.rows + r0 * s.row_stride + k0 * s.row_k;
          Lines rows{row, s.row_stride, s.row_k * kGroup};
          if (!row_words) rows = staged.take_rows(row, s.row_stride, s.row_k, r1 - r0, depth);
          job.rows.k_stride = rows.k_stride;
          job.first = k0 == args.k_begin;
          job.last = k0 + depth == args.k_end;
          job.bare = bare && job.last;
          job.held = staged.held;
          for (long long c = c0; c < c1; c += kCols) {
            job.col = c;
            job.col_count = least(kCols, c1 - c);
            const bool partial = job.col_count < kCols;
            const char* col = s.cols + c * s.col_stride + k0 * s.col_k;
            job.cols = {col, 0, s.col_k * kGroup};
            job.ahead = {c + kCols < c1 ? col + kCols * s.col_stride
                                        : s.cols + c0 * s.col_stride + (k0 + depth) * s.col_k,
                         0, s.col_k * kGroup, job.words, false};
            if constexpr (kPanels && Math::kOffset) job.start = panel_start(args, s, c);
            if (!words || (!kAnyCols && partial)) {
              if (col != staged_cols) staged.take_cols(col, s.col_stride, s.col_k, job.col_count, depth);
              staged_cols = col;
              job.cols = {reinterpret_cast<const char*>(staged.cols), 0, kCols * 4};
            }
            if (one_column) {
              if (row_total <= kRows) {
                job.ahead.p = col + 24 * job.ahead.k_stride;
              } else {
                job.ahead.k_stride = s.row_k * kGroup;
                if (s.row_k == kRowSize && job.words > 4 * kRows) {
                  job.ahead.steps = (job.words + kRows - 1) / kRows;
                  job.ahead.stride = s.row_stride;
                  job.ahead.k_stride *= kRows;
                }
              }
            }
            column(
                job, rows, s.row_begin, r0, r0, r1, !row_words,
                kMaskedLoads && words && partial, [&](long long i) __attribute__((always_inline)) {
                  if (one_column && row_total > kRows) {
                    job.ahead.p =
                        job.last ? s.rows + (i + row_tiles * kRows) * s.row_stride + args.k_begin * s.row_k
                                 : s.rows + i * s.row_stride + (k0 + depth) * s.row_k;
                  }
                  if (!one_block && i > r0) ++job.held;
                });
            if (!one_block) ++job.held;
          }
        } while ((k0 += block) < args.k_end);
      }
    }
  }

  static TSR_INLINE void run(const UnpackedArgs& args) {
    if constexpr (Interleave<C>::kPossible) {
      if (Interleave<C>::takes(args)) {
        Interleave<C> few;
        return few.run(args);
      }
    }
    if constexpr (Narrow<C>::kPossible) {
      if (Narrow<C>::takes(args)) return Narrow<C>::run(args);
    }
    const Shape s(args);
    const long long rows = s.row_end - s.row_begin, cols = s.col_end - s.col_begin;
    const long long depth = args.k_end - args.k_begin;
    if constexpr (kWordCols) {
      const bool streamed = depth > args.block_k || (rows > kRows && rows * depth > kCached);
      const bool cached = kRows >= 6 || rows <= kRows || depth <= Staged::kDepth;
      if (!streamed && cached && (kAnyCols || cols % kCols == 0) && cols_in_place(s, depth) &&
          rows_in_place(s, depth)) {
        return in_place(args, s, depth);
      }
    }
    in_blocks(args);
  }
};

template <class Config>
TSR_INLINE void cpu_direct(const void* p) {
  const UnpackedArgs& args = *static_cast<const UnpackedArgs*>(p);
  if (args.parts) return Unpacked<Config>::add_parts(args);
  Direct<Config>::run(args);
}

}  // namespace tsr
