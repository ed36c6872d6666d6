// cpu_direct's arithmetic: a register tile over one block of k, and one column of such tiles.
#pragma once

#include "cpu/direct_shape.h"
#include "cpu/words.h"

namespace tsr {

template <class C>
struct DirectTile {
  using Math = WordMath<C>;
  using Staged = Stage<C>;
  using E = Epilogue<C>;
  using Acc = typename Math::Acc;
  using U = typename Math::U;
  using Word = decltype(Acc{}[0] + 0);
  static constexpr int L = Math::L, kGroup = Math::kGroup;
  static constexpr int kRows = C::tile_m, kCols = C::tile_n, kVectors = kCols / L;
  static constexpr int kHalfRows = (kRows + 1) / 2;
  static constexpr bool kPanels = DirectShape<C>::kPanels;

  // Lines of memory asked for in each step of the arithmetic: what a row of the next tile of columns takes.
  static constexpr int kFetch = (kCols * DirectShape<C>::kColSize + 63) / 64;
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
  // is null where all is in the cache. Only panels are ever fetched into the second-level cache; of a sparse
  // stream the processor fetches the other lines.
  struct Ahead {
    const char* p;
    long long stride, k_stride, steps;
    bool to_l2, sparse;
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
          TSR_UNROLL for (int v = 0; v < kFetch; ++v) {
            if (v % 4 == 0 || !ahead.sparse) __builtin_prefetch(fetch + v * 64, 0, 2);
          }
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
};

}  // namespace tsr
