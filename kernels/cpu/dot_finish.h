// The end of a tile of cpu_dot: the lanes of its accumulators are added up, and leave for C.
#pragma once

#include "cpu/dot_math.h"
#include "cpu/shuffle.h"
#include "cpu/unpacked.h"

namespace tsr {

template <class C>
struct DotFinish {
  using Math = DotMath<C>;
  using Acc = typename Math::Acc;
  static constexpr int L = Math::L;
  static constexpr int kRows = C::tile_m, kCols = C::tile_n;
  // The tile as it lies in C.
  static constexpr int kOutCols = C::swap_ab ? kRows : kCols;

  // Adds up the lanes and stores rows [i + i_skip, i + i_count), columns [j + j_skip, j + j_count) of the
  // tile at (i, j).
  static TSR_INLINE void finish(const UnpackedArgs& args, const Acc (&acc)[kRows][kCols], const int* offset,
                                long long i, long long i_skip, long long i_count, long long j,
                                long long j_skip, long long j_count) {
    constexpr int kCount = kRows * kCols, kGroups = (kCount + L - 1) / L;
    using U = typename Vec<L>::U;
    using E = typename Unpacked<C>::E;
    U group[kGroups + 1];
    sum_groups<0>(acc, group);
    group[kGroups] = group[kGroups - 1];
    if constexpr (Math::kOffset) {
      alignas(64) unsigned taken[kGroups * L];
      TSR_UNROLL for (int t = 0; t < kCount; ++t) {
        taken[t] = static_cast<unsigned>(offset[C::swap_ab ? t % kOutCols : t / kOutCols]);
      }
      TSR_UNROLL for (int g = 0; g < kGroups; ++g) group[g] -= load_whole<U>(taken + g * L);
    }
    const bool s = C::swap_ab;
    const long long row = s ? j : i, row_skip = s ? j_skip : i_skip, row_count = s ? j_count : i_count;
    const long long col = s ? i : j, col_skip = s ? i_skip : j_skip, col_count = s ? i_count : j_count;
    if constexpr (E::kLight && kOutCols > 1 && kOutCols <= L) {
      if (col_skip == 0 && !args.sums) {
        store_rows<0>(args.epilogue, group, row, row_skip, row_count, col, static_cast<int>(col_count));
        return;
      }
    }
    alignas(64) unsigned sums[(kGroups + 1) * L];
    TSR_UNROLL for (int g = 0; g < kGroups; ++g) store_whole(sums + g * L, group[g]);
    if constexpr (kOutCols == 1 && C::epilogue_count == 0) {
      // A tight column of C lies in memory like a row.
      if (args.epilogue.c_stride == 1 && !args.sums) {
        return E::store_tile(sums + row_skip, kCount, args.epilogue, row + row_skip, col, 1,
                             static_cast<int>(row_count - row_skip));
      }
    }
    Unpacked<C>::store_tile(args, sums + row_skip * kOutCols + col_skip, kOutCols, row + row_skip,
                            col + col_skip, static_cast<int>(row_count - row_skip),
                            static_cast<int>(col_count - col_skip));
  }

  // Lanes from kFrom on, of two groups.
  template <int kFrom>
  struct Shifted {
    static constexpr int at(int lane) { return lane + kFrom; }
  };

  // Rows of the tile straight from registers.
  template <int kRow, class E = typename Unpacked<C>::E, class U>
  static TSR_INLINE void store_rows(const EpilogueArgs& e, const U* group, long long row, long long skip,
                                    long long count, long long col, int col_count) {
    constexpr int kOutRows = kRows * kCols / kOutCols;
    if constexpr (kRow < kOutRows) {
      constexpr int kFrom = kRow * kOutCols;
      if (kRow >= skip && kRow < count) {
        const U sums = shuffle<Shifted<kFrom % L>, L>(group[kFrom / L], group[kFrom / L + 1]);
        E::store(sums, e, row + kRow, col, col_count);
      }
      store_rows<kRow + 1>(e, group, row, skip, count, col, col_count);
    }
  }

  template <int kFirst, class U>
  static TSR_INLINE void sum_groups(const Acc (&acc)[kRows][kCols], U* group) {
    if constexpr (kFirst < kRows * kCols) {
      auto leaf = [&](int t) __attribute__((always_inline)) {
        return C::swap_ab ? acc[t % kOutCols][t / kOutCols] : acc[t / kOutCols][t % kOutCols];
      };
      group[kFirst / L] = (U)sum_lanes<L, kRows * kCols, kFirst, L>(leaf);
      sum_groups<kFirst + L>(acc, group);
    }
  }
};

}  // namespace tsr
