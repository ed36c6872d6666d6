// What becomes of the sums of cpu_packed's register tiles: between two blocks of k they wait in memory, then
// they go to C by the shortest way that the tile allows.
#pragma once

#include "cpu/abi.h"
#include "cpu/convert.h"
#include "cpu/epilogue.h"
#include "cpu/lines.h"
#include "cpu/types.h"
#include "cpu/vec.h"

namespace tsr {

template <class Config>
struct PackedStore {
  using E = Epilogue<Config>;
  static constexpr int L = E::L;
  using U = typename Vec<L>::U;
  static constexpr int kVectors = Config::tile_n / L;

  // Accumulators that C takes as they are.
  static constexpr bool kBare = E::kNoSteps && !E::kRowTable &&
                                (E::kIntAcc ? Config::type_out == Type::i32 : Config::type_out == Type::f32);

  // Accumulators that leave their registers for C itself, whatever its rows and columns.
  static constexpr bool kLeaves =
      L == 16 && E::kNoSteps &&
      (E::kIntAcc ? Config::type_out == Type::i32
                  : Config::type_out == Type::f32 || Config::type_out == Type::bf16 ||
                        Config::type_out == Type::f16);

  // Tiles that go past the caches: their rows are whole lines of memory, which rows_are_lines has to find.
  static constexpr bool kStreams =
      (kLeaves || kBare) && !E::kRowTable && Config::tile_n * bytes_of(Config::type_out) % kLineBytes == 0;
  static TSR_INLINE bool rows_are_lines(const PackedArgs& p) {
    constexpr int kSize = bytes_of(Config::type_out);
    const auto at = reinterpret_cast<unsigned long long>(p.epilogue->c) + p.col0 * kSize;
    return (at | (p.epilogue->c_stride * kSize)) % kLineBytes == 0;
  }

  template <int kHeight>
  static TSR_INLINE void fetch_rows(const void* rows, long long stride, int bytes) {
    const char* row = static_cast<const char*>(rows);
#pragma GCC unroll 32
    for (int r = 0; r < kHeight; ++r, row += stride) {
#pragma GCC unroll 8
      for (int i = 0; i < bytes; i += 64) __builtin_prefetch(row + i, 1);
    }
  }

  // A whole tile and its sums of the blocks of k before.
  template <int kHeight>
  static TSR_INLINE void add_sums(U (&acc)[kHeight][kVectors], const unsigned* sums, long long stride) {
#pragma GCC unroll 32
    for (int r = 0; r < kHeight; ++r, sums += stride) {
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) acc[r][v] = sum_of(acc[r][v], load_whole<U>(sums + v * L));
    }
  }
  static TSR_INLINE U sum_of(U x, U y) {
    return E::kIntAcc ? x + y : as_bits<L>(as_float<L>(x) + as_float<L>(y));
  }

  // Where in C the columns of row `row` begin, and bytes from one row to the next.
  static TSR_INLINE long long stride(const PackedArgs& p) {
    return p.epilogue->c_stride * bytes_of(Config::type_out);
  }
  static TSR_INLINE char* place(const PackedArgs& p, long long row) {
    return static_cast<char*>(p.epilogue->c) + (p.row0 + row) * stride(p) +
           p.col0 * bytes_of(Config::type_out);
  }

  // A whole tile as it is, to C or to the sums. Rows that another tile stores too get the same values twice.
  template <int kHeight>
  static TSR_INLINE void store_bare(const U (&acc)[kHeight][kVectors], char* to, long long stride) {
#pragma GCC unroll 32
    for (int r = 0; r < kHeight; ++r, to += stride) {
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) store_whole(to + v * L * 4, acc[r][v]);
    }
  }

  // The same past the caches, converted to C's type.
  template <int kHeight>
  static TSR_INLINE void stream_tile(const U (&acc)[kHeight][kVectors], char* c, long long stride) {
    constexpr int kSize = bytes_of(Config::type_out);
#pragma GCC unroll 32
    for (int r = 0; r < kHeight; ++r, c += stride) {
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        if constexpr (kSize == 4) {
          stream_whole(c + v * L * kSize, acc[r][v]);
        } else if constexpr (Config::type_out == Type::bf16) {
          stream_whole(c + v * L * kSize, float_to_bf16<L>(as_float<L>(acc[r][v])));
        } else {
          stream_whole(c + v * L * kSize, float_to_half(as_float<L>(acc[r][v])));
        }
      }
    }
  }

  // Whole rows, of their last vector the columns there are. Rows may be stored twice, as above.
  template <int kHeight, int kLive>
  static TSR_INLINE void store_part_of_tile(const U (&acc)[kHeight][kLive], const PackedArgs& p,
                                            long long row) {
    constexpr Type kOut = Config::type_out;
    constexpr int kLine = L * bytes_of(kOut);
    const EpilogueArgs& e = *p.epilogue;
    const Part last(p.cols - (kLive - 1) * L);
    char* const c = static_cast<char*>(e.c) + p.col0 * bytes_of(kOut);
#pragma GCC unroll 32
    for (int r = 0; r < kHeight; ++r) {
      long long at = p.row0 + row + r;
      if constexpr (E::kRowTable) at = e.rows[at];
      char* to = c + at * e.c_stride * bytes_of(kOut);
#pragma GCC unroll 8
      for (int v = 0; v + 1 < kLive; ++v)
        store_lanes<L, kOut, false>(to + v * kLine, sum_type(acc[r][v]), last);
      store_lanes<L, kOut, true>(to + (kLive - 1) * kLine, sum_type(acc[r][kLive - 1]), last);
    }
  }
  static TSR_INLINE auto sum_type(U x) {
    if constexpr (E::kIntAcc) {
      return (typename Vec<L>::I)x;
    } else {
      return as_float<L>(x);
    }
  }

  // Rows of a whole tile_n columns.
  static __attribute__((noinline)) void store_whole_rows(const unsigned* buffer, const PackedArgs& p,
                                                         long long row, int rows) {
    for (int r = 0; r < rows; ++r, buffer += Config::tile_n) {
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        E::store(load_whole<U>(buffer + v * L), *p.epilogue, p.row0 + row + r, p.col0 + v * L, L);
      }
    }
  }

  // buffer + sums so far, to C or to the sums.
  static __attribute__((noinline)) void finish(unsigned* buffer, const PackedArgs& p, long long row, int skip,
                                               int rows) {
    const int cols = static_cast<int>(p.cols);
    for (int r = skip; r < rows && p.partial; ++r) {
      unsigned* sums = static_cast<unsigned*>(p.partial) + (row + r) * p.partial_stride;
      for (int j = 0; j < cols; j += L) {
        unsigned* here = buffer + r * Config::tile_n + j;
        U x = load_whole<U>(here);
        if (!p.first) x = sum_of(x, load_whole<U>(sums + j));
        store_whole(p.last ? here : sums + j, x);
      }
    }
    if (p.last) {
      E::store_tile(buffer + skip * Config::tile_n, Config::tile_n, *p.epilogue, p.row0 + row + skip, p.col0,
                    rows - skip, cols);
    }
  }
};

}  // namespace tsr
