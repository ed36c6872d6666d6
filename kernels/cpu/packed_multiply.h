// cpu_packed's products: the sums of a register tile over k, and what later tiles touch, asked for meanwhile.
#pragma once

#include "cpu/abi.h"
#include "cpu/epilogue.h"
#include "cpu/multiply.h"
#include "cpu/types.h"
#include "cpu/vec.h"

namespace tsr {

// Memory that later tiles touch, asked for every `turn` steps of k, little at a time: loads of the tile in
// work would wait behind many requests at once. `lines` of what is read at `next` come into L2; rows of C
// from c_row on of those that the next tile writes, into L1.
struct Ahead {
  static constexpr bool kAny = true;
  static constexpr long long kTurn = 32;
  const char* next;
  long long lines, turn;
  int c_row = 0;
};
struct NothingAhead {
  static constexpr bool kAny = false;
};

template <class Config>
struct PackedMultiply {
  using E = Epilogue<Config>;
  static constexpr int L = E::L;
  using U = typename Vec<L>::U;
  static constexpr int kVectors = Config::tile_n / L;
  static constexpr bool kWords = requires { Config::a_words; };
  // Sums start from PackedArgs::start instead of zero.
  static constexpr bool kStarts = Config::inst == Inst::vnni && Config::type_a == Type::i8;
  static constexpr bool kFlips = kWords && kStarts;

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

  // `ahead` is an Ahead or NothingAhead.
  template <bool kHalf, int kHeight, int kLive, class Asked>
  static TSR_INLINE void multiply(U (&acc)[kHeight][kLive], const char* a, const PackedArgs& p, long long row,
                                  Asked& ahead) {
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
      long long s = rest;
      if constexpr (Asked::kAny) s = least(rest, ahead.turn);
      rest -= s;
      for (; s >= kTurn; s -= kTurn) {
#pragma GCC unroll 4
        for (int u = 0; u < kTurn; ++u) step(u * a_step, u * b_step);
        advance(kTurn);
      }
      if (kTurn > 1 && s > 0) step(0, 0);
      if constexpr (Asked::kAny) fetch<kHeight>(ahead, p, row);
    }
    if constexpr (kWords) {
      if (!p.a_rest) return;
      const char* rest = static_cast<const char*>(p.a_rest) + row * 4;
      b = static_cast<const char*>(p.b) + p.steps * b_step;
      multiply_step<kHalf>(
          acc, b, flip, [&](int r) __attribute__((always_inline)) { return rest + r * 4; });
    }
  }
};

}  // namespace tsr
