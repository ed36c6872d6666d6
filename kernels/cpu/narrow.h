// cpu_direct's results of so few columns that several rows fit in a vector, beside rows of A that are as
// short: both without gaps in memory. Lanes are rows x columns; each takes the words of its own row.
#pragma once

#include "cpu/words.h"

namespace tsr {

template <class C>
struct Narrow {
  using Math = WordMath<C>;
  using E = Epilogue<C>;
  using Acc = typename Math::Acc;
  using U = typename Math::U;
  static constexpr int L = Math::L, kGroup = Math::kGroup;
  static constexpr int kTile = 8;        // vectors of sums side by side
  static constexpr int kLeastRows = 64;  // that are worth laying the words out for
#ifdef __AVX512F__
  static constexpr bool kPossible =
      L == 16 && C::tile_n == L && !C::swap_ab && E::kNoSteps && !E::kIntAcc &&
      bytes_of(Math::kRow) * kGroup == 4 &&
      (C::type_out == Type::f32 || C::type_out == Type::bf16 || C::type_out == Type::f16);
#else
  static constexpr bool kPossible = false;
#endif

  // Whether one vector of A holds all that one of C needs, and there are many of them.
  static TSR_INLINE bool takes(const UnpackedArgs& args) {
    const long long n = args.n, words = args.k / kGroup;
    return args.row_end - args.row_begin >= kLeastRows && n <= L / 2 && (n & (n - 1)) == 0 && words <= n &&
           args.k % kGroup == 0 && args.k > 0 && args.k_begin == 0 && args.k_end == args.k &&
           args.col_begin == 0 && args.col_end == n && args.a_row_bytes == words * 4 &&
           args.a_k_bytes == bytes_of(Math::kRow) && args.epilogue.c_stride == n && args.epilogue.plain &&
           !args.sums;
  }

#ifdef __AVX512F__
  static TSR_INLINE Acc choose(U x, U index) {
    Acc out;
    asm("vpermd %1, %2, %0" : "=v"(out) : "v"(x), "v"(index));
    return out;
  }

  // Vectors of sums from row `row` on. Without kWhole there are `rows`, and nothing of A behind them is read.
  template <bool kWhole>
  static TSR_INLINE void tile(const UnpackedArgs& args, const unsigned (*weights)[L], U index, long long row,
                              long long rows) {
    const long long words = args.k / kGroup, in_vector = L / args.n;
    constexpr int kSize = bytes_of(C::type_out);
    const char* a = static_cast<const char*>(args.a) + row * words * 4;
    char* c = static_cast<char*>(args.epilogue.c) + row * args.n * kSize;
    U x[kTile];
    Acc sums[kTile];
    TSR_UNROLL for (int v = 0; v < kTile; ++v) {
      const char* from = a + v * in_vector * words * 4;
      const long long live = (rows - v * in_vector) * words;
      x[v] = kWhole ? load_whole<U>(from) : load_copy32<U>(from, Part(live > 0 ? live : 0));
      sums[v] = Acc{};
    }
    for (long long w = 0; w < words; ++w, index += 1u) {
      const Acc weight = load_whole<Acc>(weights[w]);
      TSR_UNROLL for (int v = 0; v < kTile; ++v) sums[v] =
          Math::multiply(sums[v], choose(x[v], index), weight);
    }
    TSR_UNROLL for (int v = 0; v < kTile; ++v) {
      const long long live = (rows - v * in_vector) * args.n;
      store_lanes<L, C::type_out, !kWhole>(c + v * L * kSize, sums[v], Part(live > 0 ? live : 0));
    }
  }

  static __attribute__((noinline)) void run(const UnpackedArgs& args) {
    const long long n = args.n, words = args.k / kGroup;
    alignas(64) unsigned weights[L][L];
    auto lay_out = [&](const auto& cols) {
      for (long long w = 0; w < words; ++w) {
        for (int i = 0; i < L; ++i) weights[w][i] = cols[w][i & (n - 1)];
      }
    };
    if constexpr (C::preshuffle) {  // the only panel, of L columns
      typedef unsigned __attribute__((may_alias)) Panel[L];
      lay_out(static_cast<const Panel*>(args.b));
    } else {
      Stage<C> staged;
      staged.take_cols(static_cast<const char*>(args.b), args.b_col_bytes, args.b_k_bytes, n, args.k);
      lay_out(staged.cols);
    }
    U index;
    for (int i = 0; i < L; ++i) index[i] = static_cast<unsigned>(i / n * words);
    // Whole vectors of A are read, also by the last sums.
    const long long step = kTile * L / n, readable = args.m - (L + words - 1) / words;
    long long row = args.row_begin;
    for (; row + step <= args.row_end && row + step - L / n <= readable; row += step)
      tile<true>(args, weights, index, row, step);
    for (; row < args.row_end; row += step) tile<false>(args, weights, index, row, args.row_end - row);
  }
#endif
};

}  // namespace tsr
