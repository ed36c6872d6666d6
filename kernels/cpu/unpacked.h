// What the families that read both operands where they lie share: stores, and parts of k computed apart.
#pragma once

#include "cpu/abi.h"
#include "cpu/epilogue.h"
#include "cpu/shuffle.h"
#include "cpu/types.h"
#include "cpu/unpacked_abi.h"
#include "cpu/vec.h"

namespace tsr {

template <class Config>
struct Unpacked {
  using E = Epilogue<Config>;
  static constexpr int L = E::L;
  using U = typename Vec<L>::U;

  // A tile of `rows` x `cols` accumulators, `stride` apart in memory, to C or to the sums of this part of k.
  static __attribute__((noinline)) void store_tile(const UnpackedArgs& args, const unsigned* acc,
                                                   long long stride, long long row, long long col, int rows,
                                                   int cols) {
    if (!args.sums) return E::store_tile(acc, stride, args.epilogue, row, col, rows, cols);
    unsigned* out = static_cast<unsigned*>(args.sums) + row * args.n + col;
    for (int i = 0; i < rows; ++i) {
      for (int j = 0; j < cols; ++j) out[i * args.n + j] = acc[i * stride + j];
    }
  }

  // Always in the order of the parts, so that the result does not depend on which thread was first.
  static __attribute__((noinline)) void add_parts(const UnpackedArgs& args) {
    const unsigned* sums = static_cast<const unsigned*>(args.sums);
    for (long long i = args.row_begin; i < args.row_end; ++i) {
      for (long long j = args.col_begin; j < args.col_end; j += L) {
        const long long live = least(L, args.col_end - j);
        U total{};
        for (int p = 0; p < args.parts; ++p) {
          const U x = load_copy32<U>(sums + (p * args.m + i) * args.n + j, Part(live));
          if constexpr (E::kIntAcc) {
            total += x;
          } else {
            total = as_bits<L>(as_float<L>(total) + as_float<L>(x));
          }
        }
        E::store(total, args.epilogue, i, j, static_cast<int>(live));
      }
    }
  }
};

}  // namespace tsr
