// cpu_packed: a register tile of C over one panel of packed B, for every row tile of A.
#pragma once

#include "cpu/abi.h"
#include "cpu/epilogue.h"
#include "cpu/packed_multiply.h"
#include "cpu/packed_store.h"
#include "cpu/types.h"
#include "cpu/vec.h"

namespace tsr {

template <class Config>
struct Packed {
  using E = Epilogue<Config>;
  using Multiply = PackedMultiply<Config>;
  using Store = PackedStore<Config>;
  static constexpr int L = E::L;
  using U = typename Vec<L>::U;
  static constexpr int kRows = Config::tile_m, kVectors = Config::tile_n / L;
  // Of a panel of so many vectors half an instruction does for the last one; 0: of none.
  static constexpr int kHalfEdge = [] {
    if constexpr (requires { Config::half_edge; }) return Config::half_edge;
    return 0;
  }();

  // Columns with those that the last instruction computes beside them.
  static constexpr long long whole_columns(long long cols) {
    constexpr long long kStep = kHalfEdge ? L / 2 : L;
    return (cols + kStep - 1) / kStep * kStep;
  }

  template <int kHeight, int kLive>
  static TSR_INLINE void clear(U (&acc)[kHeight][kLive], const PackedArgs& p) {
#pragma GCC unroll 32
    for (int r = 0; r < kHeight; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < kLive; ++v) acc[r][v] = Multiply::kStarts ? load_whole<U>(p.start + v * L) : U{};
    }
  }

  // One row tile, its first `skip` rows stored by the tile before, `rows` of it in C. The members of an Ahead
  // come one by one: read back as vectors they would wait for the stores of the tile before.
  template <int kHeight, int kLive, bool kHalf>
  static __attribute__((noinline)) void tile(const char* a, const PackedArgs& p, long long row, int skip,
                                             int rows, const char* next, long long lines, long long turn) {
    constexpr bool kFull = kLive == kVectors && !kHalf;
    Ahead ahead{next, lines, turn};
    U acc[kHeight][kLive];
    clear(acc, p);
    const bool whole = kFull && skip == 0 && rows == kHeight && p.cols == Config::tile_n;
    unsigned* const sums =
        whole && p.partial ? static_cast<unsigned*>(p.partial) + row * p.partial_stride : nullptr;
    if (sums) Store::template fetch_rows<kHeight>(sums, p.partial_stride * 4, Config::tile_n * 4);
    if constexpr (Config::a_table) {
      Multiply::template multiply_taps<kHalf>(acc, row, p, ahead);
    } else {
      Multiply::template multiply<kHalf>(acc, a, p, row, ahead);
    }

    bool partial = p.partial;
    if constexpr (kFull) {
      if (sums) {
        if (!p.first) Store::template add_sums<kHeight>(acc, sums, p.partial_stride);
        if (!p.last) return Store::store_bare(acc, reinterpret_cast<char*>(sums), p.partial_stride * 4);
        partial = false;
      }
    }
    if constexpr (kFull && Store::kStreams) {
      if (p.far_c == kFarStreamed && !partial && rows == kHeight && p.cols == Config::tile_n &&
          p.epilogue->plain && Store::rows_are_lines(p))
        return Store::stream_tile(acc, Store::place(p, row), Store::stride(p));
    }
    if constexpr (kFull && Store::kBare) {
      if (!partial && rows == kHeight && p.cols == Config::tile_n && p.epilogue->plain)
        return Store::store_bare(acc, Store::place(p, row), Store::stride(p));
    }
    if constexpr (Store::kLeaves) {
      if (!partial && rows == kHeight && p.epilogue->plain)
        return Store::template store_part_of_tile<kHeight, kLive>(acc, p, row);
    }
    if constexpr (kHeight == kRows && kFull && E::kLight && !Store::kBare) {
      if (!partial && rows == kRows && p.cols == Config::tile_n) {
#pragma GCC unroll 32
        for (int r = 0; r < kHeight; ++r) {
#pragma GCC unroll 8
          for (int v = 0; v < kLive; ++v)
            E::store(acc[r][v], *p.epilogue, p.row0 + row + r, p.col0 + v * L, L);
        }
        return;
      }
    }
    alignas(64) unsigned buffer[kHeight * Config::tile_n];
#pragma GCC unroll 32
    for (int r = 0; r < kHeight; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < kLive; ++v) store_whole(buffer + r * Config::tile_n + v * L, acc[r][v]);
    }
    if constexpr (kFull) {
      if (!partial && skip == 0 && p.cols == Config::tile_n)
        return Store::store_whole_rows(buffer, p, row, rows);
    }
    Store::finish(buffer, p, row, skip, rows);
  }

  // Whole tiles one below the other that ask for nothing ahead and leave their registers for C. With few
  // steps of k a tile is as fast as the instructions are few that are no products. With many registers there
  // are fewer tiles, and a loop around them has compilers spill sums.
  static constexpr bool kRuns = kFewRegisters && Store::kBare && !Config::a_table;
  static __attribute__((noinline)) void run_of_tiles(const PackedArgs& p, long long count) {
    const long long a_step = p.a_tile_bytes ? p.a_tile_bytes : kRows * p.a_row_bytes;
    const long long stride = Store::stride(p);
    const char* a = static_cast<const char*>(p.a);
    char* c = Store::place(p, 0);
    NothingAhead nothing;
    for (long long row = 0, end = count * kRows; row < end; row += kRows) {
      U acc[kRows][kVectors];
      clear(acc, p);
      Multiply::template multiply<false>(acc, a, p, row, nothing);
      Store::store_bare(acc, c, stride);
      a += a_step;
      c += kRows * stride;
    }
  }

  // Low tiles have code of their own only where all vectors are live: an edge panel is worth less than its
  // compilation.
  template <int kLive, bool kHalf>
  static TSR_INLINE void all_rows(const PackedArgs& p) {
    const char* a = static_cast<const char*>(p.a);
    const char* next = static_cast<const char*>(p.next_b);
    if (p.rows < kRows)
      return tile<kRows, kLive, kHalf>(a, p, 0, 0, static_cast<int>(p.rows), next, 0, p.steps);
    constexpr int kLow = kLive == kVectors && kRows > 1 ? kRows - 1 : kRows;
    RowTiles tiles{(p.rows + kRows - 1) / kRows, 0};
    if (kLow < kRows || p.a_tile_bytes) tiles = row_tiles(p.rows, kRows);
    const int low = p.a_tile_bytes && kRows > 1 ? kRows - 1 : kLow;
    // Each row tile fetches its share of what comes next.
    long long lines = 0, share = 0;
    const long long turns = Multiply::turns_of(p);
    const bool asks = turns > 0 && (next || p.far_c == kFarFetched);
    const long long turn = asks ? Ahead::kTurn : p.steps;
    if (next && turns > 0) {
      lines = p.next_b_bytes / kLineBytes / (turns * (tiles.tall + tiles.low)) + 1;
      share = lines * turns * kLineBytes;
    }
    long long t = 0, row = 0;
    if constexpr (kRuns && kLive == kVectors && !kHalf) {
      if (!asks && p.far_c == kFarIgnored && !p.partial && p.cols == Config::tile_n && p.epilogue->plain) {
        t = tiles.tall;
        run_of_tiles(p, t);
        row = t * kRows;
      }
    }
    for (; t < tiles.tall + tiles.low; ++t) {
      const int height = t < tiles.tall ? kRows : low;
      long long back = row + height - p.rows;
      if (back < 0) back = 0;
      const char* from = p.a_tile_bytes ? a + t * p.a_tile_bytes : a + (row - back) * p.a_row_bytes;
      if (t < tiles.tall) {
        tile<kRows, kLive, kHalf>(from, p, row - back, static_cast<int>(back), kRows, next, lines, turn);
      } else {
        tile<kLow, kLive, kHalf>(from, p, row - back, static_cast<int>(back), height, next, lines, turn);
      }
      row += height;
      next += share;
    }
  }

  template <int kLive>
  static TSR_INLINE void dispatch(const PackedArgs& p) {
    constexpr int kBefore = (kLive - 1) * L;
    if constexpr (kLive == kHalfEdge) {
      if (p.cols > kBefore && p.cols <= kBefore + L / 2) return all_rows<kLive, true>(p);
    }
    if (p.cols > kBefore) return all_rows<kLive, false>(p);
    if constexpr (kLive > 1) dispatch<kLive - 1>(p);
  }
};

template <class Config>
TSR_INLINE void cpu_packed(const void* args) {
  Packed<Config>::template dispatch<Packed<Config>::kVectors>(*static_cast<const PackedArgs*>(args));
}

}  // namespace tsr
