// cpu_packed: a register tile of C over one panel of packed B, for every row tile of A.
#pragma once

#include "cpu/abi.h"
#include "cpu/epilogue.h"
#include "cpu/lines.h"
#include "cpu/multiply.h"
#include "cpu/types.h"
#include "cpu/vec.h"

namespace tsr {

// Memory that later tiles touch, asked for every `turn` steps of k, little at a time: loads of the tile in
// work would wait behind many requests at once. `lines` of what is read at `next` come into L2; rows of C
// from c_row on of those that the next tile writes, into L1.
struct Ahead {
  static constexpr long long kTurn = 32;
  const char* next;
  long long lines, turn;
  int c_row = 0;
};

template <class Config>
struct Packed {
  using E = Epilogue<Config>;
  static constexpr int L = E::L;
  using U = typename Vec<L>::U;
  static constexpr int kRows = Config::tile_m, kVectors = Config::tile_n / L;
  static constexpr bool kStarts = Config::inst == Inst::vnni && Config::type_a == Type::i8;
  static constexpr bool kWords = requires { Config::a_words; };
  static constexpr bool kFlips = kWords && kStarts;
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

  // Bytes from one row of A to the next, from one step of k to the next in A and in the panel of B; 0: told
  // by the arguments.
  static constexpr long long kRow = Config::a_along_k ? 0 : 4, kStepA = Config::a_step,
                             kStepB = Config::b_step;
  // Steps per turn of the loop: fewer instructions that are not multiplies. Edge panels are worth less than
  // the compilation of a second copy.
  template <int kLive>
  static constexpr int kUnroll = kLive == kVectors ? 2 : 1;

  // One k group: of B a vector per column vector at `b`, of A the word at word_at(r) of each row r. kHalf:
  // the last column vector has live columns in its lower half alone.
  template <bool kHalf, int kHeight, int kLive, class WordAt>
  static TSR_INLINE void multiply_step(U (&acc)[kHeight][kLive], const char* b, U flip, WordAt word_at) {
    U right[kLive];
#pragma GCC unroll 8
    for (int v = 0; v < kLive; ++v) {
      right[v] = load_whole<U>(b + v * 4 * L);
      if constexpr (kFewRegisters) asm("" : "+x"(right[v]));  // loaded once, not once per row
    }
#pragma GCC unroll 32
    for (int r = 0; r < kHeight; ++r) {
      typedef unsigned __attribute__((may_alias, aligned(1))) Word;
      const Word& word = *reinterpret_cast<const Word*>(word_at(r));
      U left;
      if constexpr (kFlips) {
        asm("vpxord %2%{1to16%}, %1, %0" : "=v"(left) : "v"(flip), "m"(word));
      } else {
        left = word - U{};
        asm("" : "+v"(left));  // one broadcast for the row, not one per multiply
      }
#pragma GCC unroll 8
      for (int v = 0; v < kLive - kHalf; ++v) multiply_add<Config::inst>(acc[r][v], left, right[v]);
      if constexpr (kHalf) multiply_add_half<Config::inst>(acc[r][kLive - 1], left, right[kLive - 1]);
    }
  }

  // Whole turns of a tile over k, or taps.
  static TSR_INLINE long long turns_of(const PackedArgs& p) {
    return Config::a_table ? p.taps : p.steps / Ahead::kTurn;
  }

  // The share of one turn of the tile whose first row is `row`.
  template <int kHeight>
  static TSR_INLINE void fetch(Ahead& ahead, const PackedArgs& p, long long row) {
    for (long long i = 0; i < ahead.lines; ++i) __builtin_prefetch(ahead.next + i * kLineBytes, 0, 2);
    ahead.next += ahead.lines * kLineBytes;
    if (p.far_c != kFarFetched || ahead.c_row >= kHeight) return;
    constexpr int kSize = bytes_of(Config::type_out);
    const long long turns = turns_of(p), stride = p.epilogue->c_stride * kSize;
    const char* c = static_cast<const char*>(p.epilogue->c) + p.col0 * kSize;
    for (long long r = 0; r * turns < kHeight && ahead.c_row < kHeight; ++r, ++ahead.c_row) {
      long long at = p.row0 + row + kHeight + ahead.c_row;
      if constexpr (E::kRowTable) {
        if (at >= p.rows) return;
        at = p.epilogue->rows[at];
      }
      const char* line = c + at * stride;
#pragma GCC unroll 8
      for (int i = 0; i < Config::tile_n * kSize; i += kLineBytes) __builtin_prefetch(line + i, 1);
      // Columns of groups, and rows that are no lines, may begin amid one.
      if (Config::a_table || stride % kLineBytes != 0) __builtin_prefetch(line + p.cols * kSize - 1, 1);
    }
  }

  // The same of patches in place: what a tap of the next tile's rows meets, each row in the turn of one tap,
  // since neighbouring taps meet much the same.
  template <int kHeight>
  static TSR_INLINE void fetch_taps(const PackedArgs& p, const char* const* table, long long row,
                                    long long tap) {
    const long long left = p.rows - row - kHeight, end = left < kHeight ? left : kHeight;
    for (long long r = tap; r < end; r += p.taps) {
      const char* at = table[kHeight + r];
      for (long long i = 0; i < p.tap_steps * 4; i += kLineBytes) __builtin_prefetch(at + i);
      __builtin_prefetch(at + p.tap_steps * 4 - 1);
    }
  }

  // Rows from `row` on of patches in place: each tap's rows lie where the table says.
  template <bool kHalf, int kHeight, int kLive>
  static TSR_INLINE void multiply_taps(U (&acc)[kHeight][kLive], long long row, const PackedArgs& p,
                                       Ahead& ahead) {
    const long long b_step = kStepB ? kStepB : p.b_step_bytes;
    const char* b = static_cast<const char*>(p.b);
    const char* const* table = p.a_table + row;
    for (long long tap = 0; tap < p.taps; ++tap, table += p.table_rows) {
      bool meets = false;  // a coordinate, in some row
#pragma GCC unroll 32
      for (int r = 0; r < kHeight; ++r) meets |= table[r] != p.zeros;
      if (!meets) {
        b += p.tap_steps * b_step;
        fetch<kHeight>(ahead, p, row);
        if (p.far_c == kFarFetched) fetch_taps<kHeight>(p, table, row, tap);
        continue;
      }
      long long at = 0;
      auto step = [&](long long at_a, long long at_b) __attribute__((always_inline)) {
        multiply_step<kHalf>(
            acc, b + at_b, U{}, [&](int r) __attribute__((always_inline)) { return table[r] + at + at_a; });
      };
      constexpr int kTurn = kUnroll<kLive>;
      long long s = p.tap_steps;
      for (; s >= kTurn; s -= kTurn) {
#pragma GCC unroll 4
        for (int u = 0; u < kTurn; ++u) step(u * 4, u * b_step);
        at += kTurn * 4;
        b += kTurn * b_step;
      }
      if (kTurn > 1 && s > 0) {
        step(0, 0);
        b += b_step;
      }
      fetch<kHeight>(ahead, p, row);
      if (p.far_c == kFarFetched) fetch_taps<kHeight>(p, table, row, tap);
    }
  }

  template <bool kHalf, int kHeight, int kLive>
  static TSR_INLINE void multiply(U (&acc)[kHeight][kLive], const char* a, const PackedArgs& p, long long row,
                                  Ahead& ahead) {
    const long long row_bytes = kRow ? kRow : p.a_row_bytes, a_step = kStepA ? kStepA : p.a_step_bytes,
                    b_step = kStepB ? kStepB : p.b_step_bytes;
    const char* b = static_cast<const char*>(p.b);
    // One pointer per five rows: the others are reached by scaled addressing.
    constexpr int kReach = kRow ? kHeight : 5, kPointers = (kHeight + kReach - 1) / kReach;
    const long long row3 = 3 * row_bytes;
    const char* pointers[kPointers];
#pragma GCC unroll 16
    for (int i = 0; i < kPointers; ++i) pointers[i] = a + kReach * i * row_bytes;
    const U flip = p.a_flip - U{};
    auto step = [&](long long at_a, long long at_b) __attribute__((always_inline)) {
      multiply_step<kHalf>(
          acc, b + at_b, flip, [&](int r) __attribute__((always_inline)) {
            const long long in_reach = !kRow && r % kReach == 3 ? row3 : r % kReach * row_bytes;
            return pointers[r / kReach] + in_reach + at_a;
          });
    };
    auto advance = [&](long long steps) __attribute__((always_inline)) {
#pragma GCC unroll 16
      for (int i = 0; i < kPointers; ++i) pointers[i] += steps * a_step;
      b += steps * b_step;
    };
    constexpr int kTurn = kUnroll<kLive>;
    for (long long rest = p.steps; rest > 0;) {
      long long s = rest < ahead.turn ? rest : ahead.turn;
      rest -= s;
      for (; s >= kTurn; s -= kTurn) {
#pragma GCC unroll 4
        for (int u = 0; u < kTurn; ++u) step(u * a_step, u * b_step);
        advance(kTurn);
      }
      if (kTurn > 1 && s > 0) step(0, 0);
      fetch<kHeight>(ahead, p, row);
    }
    if constexpr (kWords) {
      if (!p.a_rest) return;
      const char* rest = static_cast<const char*>(p.a_rest) + row * 4;
      b = static_cast<const char*>(p.b) + p.steps * b_step;
      multiply_step<kHalf>(
          acc, b, flip, [&](int r) __attribute__((always_inline)) { return rest + r * 4; });
    }
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
  template <int kHeight>
  static TSR_INLINE void store_sums(const U (&acc)[kHeight][kVectors], unsigned* sums, long long stride) {
#pragma GCC unroll 32
    for (int r = 0; r < kHeight; ++r, sums += stride) {
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) store_whole(sums + v * L, acc[r][v]);
    }
  }
  static TSR_INLINE U sum_of(U x, U y) {
    return E::kIntAcc ? x + y : as_bits<L>(as_float<L>(x) + as_float<L>(y));
  }

  // Accumulators that C takes as they are.
  static constexpr bool kBare = E::kNoSteps && !E::kRowTable &&
                                (E::kIntAcc ? Config::type_out == Type::i32 : Config::type_out == Type::f32);

  // Accumulators that leave their registers for C itself, whatever its rows and columns.
  static constexpr bool kLeaves =
      L == 16 && E::kNoSteps &&
      (E::kIntAcc ? Config::type_out == Type::i32
                  : Config::type_out == Type::f32 || Config::type_out == Type::bf16 ||
                        Config::type_out == Type::f16);

  // One row tile, its first `skip` rows stored by the tile before, `rows` of it in C. The members of an Ahead
  // come one by one: read back as vectors they would wait for the stores of the tile before.
  template <int kHeight, int kLive, bool kHalf>
  static __attribute__((noinline)) void tile(const char* a, const PackedArgs& p, long long row, int skip,
                                             int rows, const char* next, long long lines, long long turn) {
    constexpr bool kFull = kLive == kVectors && !kHalf;
    Ahead ahead{next, lines, turn};
    U acc[kHeight][kLive];
#pragma GCC unroll 32
    for (int r = 0; r < kHeight; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < kLive; ++v) acc[r][v] = kStarts ? load_whole<U>(p.start + v * L) : U{};
    }
    const bool whole = kFull && skip == 0 && rows == kHeight && p.cols == Config::tile_n;
    unsigned* const sums =
        whole && p.partial ? static_cast<unsigned*>(p.partial) + row * p.partial_stride : nullptr;
    if (sums) fetch_rows<kHeight>(sums, p.partial_stride * 4, Config::tile_n * 4);
    if constexpr (Config::a_table) {
      multiply_taps<kHalf>(acc, row, p, ahead);
    } else {
      multiply<kHalf>(acc, a, p, row, ahead);
    }

    bool partial = p.partial;
    if constexpr (kFull) {
      if (sums) {
        if (!p.first) add_sums<kHeight>(acc, sums, p.partial_stride);
        if (!p.last) return store_sums<kHeight>(acc, sums, p.partial_stride);
        partial = false;
      }
    }
    if constexpr (kFull && kStreams) {
      if (p.far_c == kFarStreamed && !partial && rows == kHeight && p.cols == Config::tile_n &&
          p.epilogue->plain && rows_are_lines(p))
        return stream_tile<kHeight>(acc, p, row);
    }
    if constexpr (kFull && kBare) {
      if (!partial && rows == kHeight && p.cols == Config::tile_n && p.epilogue->plain)
        return store_bare<kHeight>(acc, p, row);
    }
    if constexpr (kLeaves) {
      if (!partial && rows == kHeight && p.epilogue->plain)
        return store_part_of_tile<kHeight, kLive>(acc, p, row);
    }
    if constexpr (kHeight == kRows && kFull && E::kLight && !kBare) {
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
      if (!partial && skip == 0 && p.cols == Config::tile_n) return store_whole_rows(buffer, p, row, rows);
    }
    finish(buffer, p, row, skip, rows);
  }

  // Tiles that go past the caches: their rows are whole lines of memory, which rows_are_lines has to find.
  static constexpr bool kStreams =
      (kLeaves || kBare) && !E::kRowTable && Config::tile_n * bytes_of(Config::type_out) % kLineBytes == 0;
  static TSR_INLINE bool rows_are_lines(const PackedArgs& p) {
    constexpr int kSize = bytes_of(Config::type_out);
    const auto at = reinterpret_cast<unsigned long long>(p.epilogue->c) + p.col0 * kSize;
    return (at | (p.epilogue->c_stride * kSize)) % kLineBytes == 0;
  }
  // A whole tile. Rows that another tile stores too get the same values twice.
  template <int kHeight>
  static TSR_INLINE void stream_tile(const U (&acc)[kHeight][kVectors], const PackedArgs& p, long long row) {
    constexpr int kSize = bytes_of(Config::type_out);
    const long long stride = p.epilogue->c_stride * kSize;
    char* c = static_cast<char*>(p.epilogue->c) + (p.row0 + row) * stride + p.col0 * kSize;
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

  // A whole tile. Rows that another tile stores too get the same values twice.
  template <int kHeight>
  static TSR_INLINE void store_bare(const U (&acc)[kHeight][kVectors], const PackedArgs& p, long long row) {
    const long long stride = p.epilogue->c_stride * 4;
    char* c = static_cast<char*>(p.epilogue->c) + (p.row0 + row) * stride + p.col0 * 4;
#pragma GCC unroll 32
    for (int r = 0; r < kHeight; ++r, c += stride) {
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) store_whole(c + v * L * 4, acc[r][v]);
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
    const long long turns = turns_of(p);
    const long long turn = turns > 0 && (next || p.far_c == kFarFetched) ? Ahead::kTurn : p.steps;
    if (next && turns > 0) {
      lines = p.next_b_bytes / kLineBytes / (turns * (tiles.tall + tiles.low)) + 1;
      share = lines * turns * kLineBytes;
    }
    for (long long t = 0, row = 0; t < tiles.tall + tiles.low; ++t) {
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
