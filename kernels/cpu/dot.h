// cpu_dot: C by dot products along k, which is contiguous in both operands. Nothing is packed: a register
// block of tile_m x tile_n vectors runs along k over tile_m + tile_n lines of memory, and a tree of shuffles
// adds up the lanes at the end. "Rows" are the lines of the operand that stays in the cache, "columns" those
// of the one that is streamed: A and B, or with swap_ab B and A. Needs at least tile_m rows and tile_n
// columns.
#pragma once

#include "cpu/dot_finish.h"
#include "cpu/dot_math.h"
#include "cpu/unpacked.h"

namespace tsr {

template <class C>
struct Dot {
  using Math = DotMath<C>;
  using Acc = typename Math::Acc;
  static constexpr int L = Math::L, kStep = Math::kStep;
  static constexpr int kRows = C::tile_m, kCols = C::tile_n;
  static constexpr int kRowSize = bytes_of(Math::kRow), kColSize = bytes_of(Math::kCol);
  // Chains of additions of a tile of that many columns: about 8 hide the latency of the multiplier.
  static constexpr int chains(int columns) {
    return kRows * columns >= 6 ? 1 : (7 + kRows * columns) / (kRows * columns);
  }
  // Columns read side by side where one tile of rows, which the first-level cache keeps, meets columns from
  // beyond the second-level one, asked for far ahead or not at all. Lines of memory far apart may share a set
  // of it, and memory gives the fewer of them the faster. From memory, and from a last-level cache that keeps
  // them.
  static constexpr int few(int columns) { return kCols % columns == 0 ? columns : kCols; }
  static constexpr int kFromMemory = few(kRows == 4  ? 2
                                         : kRows > 1 ? 1
                                                     : 4),
                       kFromCache = few(kRows == 2 ? 4 : kCols);
  // Row tiles that share one pass over a block of columns.
  static constexpr int kRowTiles = 8;
  // Lines of the next block of columns asked for in each step, in the shadow of the arithmetic.
  static constexpr int kAhead = (kCols + 1) / 2;

  // `rest` is a Part for the last elements of k, or nothing.
  template <int kColumns, class... Rest>
  static TSR_INLINE void step(Acc (&acc)[kRows][kColumns], const char* rows, long long row_stride,
                              const char* cols, long long col_stride, Rest... rest) {
    if constexpr (kRows <= kColumns) {
      typename Math::Fragment row[kRows];
      TSR_UNROLL for (int i = 0; i < kRows; ++i) row[i] = Math::load_row(rows + i * row_stride, rest...);
      TSR_UNROLL for (int j = 0; j < kColumns; ++j) {
        const auto col = Math::load_col(cols + j * col_stride, rest...);
        TSR_UNROLL for (int i = 0; i < kRows; ++i) acc[i][j] = Math::multiply(acc[i][j], row[i], col);
      }
    } else {
      typename Math::Fragment col[kColumns];
      TSR_UNROLL for (int j = 0; j < kColumns; ++j) col[j] = Math::load_col(cols + j * col_stride, rest...);
      TSR_UNROLL for (int i = 0; i < kRows; ++i) {
        const auto row = Math::load_row(rows + i * row_stride, rest...);
        TSR_UNROLL for (int j = 0; j < kColumns; ++j) acc[i][j] = Math::multiply(acc[i][j], row, col[j]);
      }
    }
  }

  template <int kColumns>
  static TSR_INLINE void copy(Acc (&to)[kRows][kColumns], const Acc (&from)[kRows][kColumns]) {
    TSR_UNROLL for (int i = 0; i < kRows; ++i) {
      TSR_UNROLL for (int j = 0; j < kColumns; ++j) to[i][j] = from[i][j];
    }
  }
  template <int kColumns>
  static TSR_INLINE void clear(Acc (&acc)[kRows][kColumns]) {
    TSR_UNROLL for (int i = 0; i < kRows; ++i) {
      TSR_UNROLL for (int j = 0; j < kColumns; ++j) acc[i][j] = Acc{};
    }
  }

  // What a step asks for: nothing, into L1 lines of the next block of columns, or as many lines as it reads:
  // into L2 from where memory is read later, or into L1 those of its columns soon to be read.
  enum class Fetch { nothing, block, memory, near };

  // acc += rows . cols over `count` elements of k; asks for the lines at `ahead`.
  template <Fetch kFetch, int kColumns>
  static TSR_INLINE void accumulate(Acc (&acc)[kRows][kColumns], const char* rows, long long row_stride,
                                    const char* cols, long long col_stride, long long count,
                                    const char* ahead) {
    constexpr int kRowBytes = kStep * kRowSize, kColBytes = kStep * kColSize, kChains = chains(kColumns);
    auto fetch = [&]() __attribute__((always_inline)) {
      if constexpr (kFetch == Fetch::block) {
        TSR_UNROLL for (int j = 0; j < kAhead; ++j) __builtin_prefetch(ahead + j * col_stride);
        ahead += kColBytes;
      } else if constexpr (kFetch == Fetch::memory) {
        TSR_UNROLL for (int j = 0; j < kColumns; ++j) __builtin_prefetch(ahead + j * kColBytes, 0, 2);
        ahead += kColumns * kColBytes;
      } else if constexpr (kFetch == Fetch::near) {
        TSR_UNROLL for (int j = 0; j < kColumns; ++j) __builtin_prefetch(ahead + j * col_stride);
        ahead += kColBytes;
      }
    };
    long long steps = count / kStep;
    if constexpr (kChains > 1) {
      Acc chain[kChains][kRows][kColumns];
      copy(chain[0], acc);
      TSR_UNROLL for (int u = 1; u < kChains; ++u) clear(chain[u]);
      for (; steps >= kChains; steps -= kChains) {
        TSR_UNROLL for (int u = 0; u < kChains; ++u) {
          fetch();
          step(chain[u], rows + u * kRowBytes, row_stride, cols + u * kColBytes, col_stride);
        }
        rows += kChains * kRowBytes;
        cols += kChains * kColBytes;
      }
      TSR_UNROLL for (int i = 0; i < kRows; ++i) {
        TSR_UNROLL for (int j = 0; j < kColumns; ++j) {
          acc[i][j] = chain[0][i][j];
          TSR_UNROLL for (int u = 1; u < kChains; ++u) acc[i][j] += chain[u][i][j];
        }
      }
    }
    for (; steps > 0; --steps) {
      fetch();
      step(acc, rows, row_stride, cols, col_stride);
      rows += kRowBytes;
      cols += kColBytes;
    }
    if (const long long rest = count % kStep) step(acc, rows, row_stride, cols, col_stride, Part(rest));
  }

  // One tile and all of k, `kColumns` after `kColumns`, which ask for lines `ahead` bytes from where they
  // read. What is near of several columns lies within each: their ends ask for the beginnings of the next
  // ones.
  template <Fetch kFetch, int kColumns>
  static TSR_INLINE void stream(Acc (&acc)[kRows][kCols], const char* rows, long long row_stride,
                                const char* cols, long long col_stride, long long count, long long ahead) {
    constexpr bool kEndsApart = kFetch == Fetch::near && kColumns > 1;
    const long long ends = kEndsApart ? most(count - ahead / kColSize, 0) / kStep * kStep : count;
    for (int j0 = 0; j0 < kCols; j0 += kColumns, cols += kColumns * col_stride) {
      Acc some[kRows][kColumns];
      clear(some);
      accumulate<kFetch>(some, rows, row_stride, cols, col_stride, ends, cols + ahead);
      if constexpr (kEndsApart) {
        accumulate<kFetch>(some, rows + ends * kRowSize, row_stride, cols + ends * kColSize, col_stride,
                           count - ends, cols + kColumns * col_stride);
      }
      TSR_UNROLL for (int i = 0; i < kRows; ++i) {
        TSR_UNROLL for (int j = 0; j < kColumns; ++j) acc[i][j0 + j] = some[i][j];
      }
    }
  }

  // As args.streams says.
  static TSR_INLINE void stream_tile(const UnpackedArgs& args, Acc (&acc)[kRows][kCols], const char* rows,
                                     long long row_stride, const char* cols, long long col_stride,
                                     long long count) {
    if constexpr (kRows <= kRowsInTurn) {
      if (args.streams == Streams::in_turn) {
        return stream<Fetch::near, 1>(acc, rows, row_stride, cols, col_stride, count, args.ahead_bytes);
      }
    }
    if (args.streams == Streams::near) {
      stream<Fetch::near, kCols>(acc, rows, row_stride, cols, col_stride, count,
                                 args.ahead_bytes / kCols / 64 * 64);
    } else if (args.ahead_bytes > 0) {
      stream<Fetch::memory, kFromMemory>(acc, rows, row_stride, cols, col_stride, count, args.ahead_bytes);
    } else {
      stream<Fetch::nothing, kFromCache>(acc, rows, row_stride, cols, col_stride, count, 0);
    }
  }

  // 128 * the sum of each row: what moving the columns up by 128 added to its products.
  static __attribute__((noinline)) void offsets(int* out, const char* rows, long long row_stride,
                                                long long count, long long k) {
    using I = typename Math::I;
    const I ones = I{} + static_cast<int>(0x80808080u);
    for (long long i = 0; i < count; ++i, rows += row_stride) {
      I sum{};
      for (long long l = 0; l < k; l += kStep) sum = dot_u8(sum, ones, load_copy8<I>(rows + l, Part(k - l)));
      out[i] = 0;
      for (int lane = 0; lane < L; ++lane) out[i] += sum[lane];
    }
  }

  static TSR_INLINE void run(const UnpackedArgs& args) {
    constexpr bool kSwap = C::swap_ab;
    const char* rows = static_cast<const char*>(kSwap ? args.b : args.a);
    const char* cols = static_cast<const char*>(kSwap ? args.a : args.b);
    const long long row_stride = kSwap ? args.b_col_bytes : args.a_row_bytes;
    const long long col_stride = kSwap ? args.a_row_bytes : args.b_col_bytes;
    const long long m = kSwap ? args.n : args.m, n = kSwap ? args.m : args.n;
    const long long row_begin = kSwap ? args.col_begin : args.row_begin,
                    row_end = kSwap ? args.col_end : args.row_end;
    const long long col_begin = kSwap ? args.row_begin : args.col_begin,
                    col_end = kSwap ? args.row_end : args.col_end;
    const long long k_begin = args.k_begin, k_end = args.k_end;

    alignas(64) Acc held[kRowTiles][kRows][kCols];  // accumulators between two blocks of k
    int offset[kRowTiles * kRows];
    for (long long i0 = row_begin; i0 < row_end; i0 += kRowTiles * kRows) {
      const long long i1 = least(i0 + kRowTiles * kRows, row_end), tiles = (i1 - i0 + kRows - 1) / kRows;
      const long long block = tiles == 1 ? k_end - k_begin : args.block_k;
      const long long lines_per_tile = (kCols + tiles - 1) / tiles;
      // A tile that would stick out is moved back over the one before it, and stores only what is new.
      const long long base = least(i0, m - kRows);
      if constexpr (Math::kOffset) {
        offsets(offset, rows + base * row_stride + k_begin, row_stride, i1 - base, k_end - k_begin);
      }
      for (long long j0 = col_begin; j0 < col_end; j0 += kCols) {
        const long long j = least(j0, n - kCols);
        if (tiles == 1 && args.streams != Streams::none) {
          const char* row = rows + base * row_stride + k_begin * kRowSize;
          const char* col = cols + j * col_stride + k_begin * kColSize;
          const long long count = k_end - k_begin;
          Acc acc[kRows][kCols];
          stream_tile(args, acc, row, row_stride, col, col_stride, count);
          DotFinish<C>::finish(args, acc, offset, base, i0 - base, least(kRows, i1 - base), j, j0 - j,
                               least(kCols, col_end - j));
          continue;
        }
        long long k0 = k_begin;
        do {
          const long long count = least(block, k_end - k0);
          const bool first = k0 == k_begin, last = k0 + count == k_end;
          const char* col = cols + j * col_stride + k0 * kColSize;
          // Each of several row tiles asks for its share of the block that comes next: further along k, or
          // the next columns.
          const char* next =
              last ? cols + (j + kCols) * col_stride + k_begin * kColSize : col + count * kColSize;
          for (long long t = 0; t < tiles; ++t) {
            const long long i = least(i0 + t * kRows, m - kRows);
            const char* row = rows + i * row_stride + k0 * kRowSize;
            Acc acc[kRows][kCols];
            if (first) {
              clear(acc);
            } else {
              copy(acc, held[t]);
            }
            if (tiles > 1) {
              accumulate<kRows == 1 ? Fetch::nothing : Fetch::block>(
                  acc, row, row_stride, col, col_stride, count,
                  next + least(t * lines_per_tile, kCols - 1) * col_stride);
            } else if (args.ahead_bytes > 0) {
              accumulate<Fetch::memory>(acc, row, row_stride, col, col_stride, count, col + args.ahead_bytes);
            } else {
              accumulate<Fetch::nothing>(acc, row, row_stride, col, col_stride, count, nullptr);
            }
            if (last) {
              DotFinish<C>::finish(args, acc, offset + (i - base), i, i0 + t * kRows - i,
                                   least(kRows, i1 - i), j, j0 - j, least(kCols, col_end - j));
            } else {
              copy(held[t], acc);
            }
          }
        } while ((k0 += block) < k_end);
      }
    }
  }
};

template <class Config>
TSR_INLINE void cpu_dot(const void* p) {
  const UnpackedArgs& args = *static_cast<const UnpackedArgs*>(p);
  if (args.parts) return Unpacked<Config>::add_parts(args);
  Dot<Config>::run(args);
}

}  // namespace tsr
