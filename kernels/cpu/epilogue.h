// From accumulators to C: alpha, beta, the chain of steps, conversion, masked store.
#pragma once

#include "cpu/abi.h"
#include "cpu/types.h"
#include "cpu/vec.h"

namespace tsr {

template <class Config>
struct Epilogue {
  static constexpr int L = Config::vector_bits / 32;
  using F = typename Vec<L>::F;
  using I = typename Vec<L>::I;
  using U = typename Vec<L>::U;
  static constexpr bool kIntAcc = Config::type_acc == Type::i32;
  using Acc = typename Vec<L>::U;  // bits of L accumulators
  static constexpr bool kNoSteps = Config::epilogue_count == 0;
  // i32 in and out without steps stays in integers, exact beyond 2^24.
  static constexpr bool kInt = kIntAcc && Config::type_out == Type::i32 && kNoSteps;
  // Rows of C are looked up in EpilogueArgs::rows.
  static constexpr bool kRowTable = requires { Config::row_table; };
  // Few enough instructions to unroll over a register tile.
  static constexpr bool kLight = [] {
    for (int i = 0; i < Config::epilogue_count; ++i) {
      const Step s = Config::epilogue[i];
      if (s == Step::gelu || s == Step::gelu_tanh || s == Step::silu || s == Step::sigmoid || s == Step::tanh)
        return false;
    }
    return Config::epilogue_count <= 2 && bytes_of(Config::type_out) >= 2;
  }();

  template <int kIndex, int kD>
  static TSR_INLINE F steps(F x, const EpilogueArgs& e, long long row, long long col, int live) {
    if constexpr (kIndex == Config::epilogue_count) {
      return x;
    } else {
      constexpr Step s = Config::epilogue[kIndex];
      const float p0 = e.params[kIndex][0], p1 = e.params[kIndex][1];
      if constexpr (reads_d(s)) {
        constexpr bool column = s == Step::add_col || s == Step::mul_col;
        const char* d = static_cast<const char*>(e.d[kD]) +
                        (row * e.d_row[kD] + col * e.d_col[kD]) * bytes_of(Config::type_d);
        F v;
        if constexpr (column) {
          v = splat<L>(load_float<L, Config::type_d>(d, 1)[0]);
        } else {
          v = load_float<L, Config::type_d>(d, live);
        }
        constexpr bool mul = s == Step::mul || s == Step::mul_row || s == Step::mul_col;
        return steps<kIndex + 1, kD + 1>(mul ? x * v : x + v, e, row, col, live);
      } else {
        if constexpr (s == Step::scale) x = x * p0;
        if constexpr (s == Step::relu) x = select<L>(x < 0.0f, F{}, x);
        if constexpr (s == Step::leaky_relu) x = select<L>(x < 0.0f, x * p0, x);
        if constexpr (s == Step::gelu) x = gelu<L>(x);
        if constexpr (s == Step::gelu_tanh) {
          // 0.5 (1 + tanh(y)) = sigmoid(2 y), y = sqrt(2 / pi) (x + 0.044715 x^3)
          x = x * sigmoid<L>(1.5957691216f * (x + 0.044715f * x * x * x));
        }
        if constexpr (s == Step::silu) x = x * sigmoid<L>(x);
        if constexpr (s == Step::sigmoid) x = sigmoid<L>(x);
        if constexpr (s == Step::tanh) x = tanh<L>(x);
        if constexpr (s == Step::hardswish) {
          F g = x + 3.0f;
          g = select<L>(g < 0.0f, F{}, g);
          g = select<L>(g > 6.0f, splat<L>(6.0f), g);
          x = x * g * (1.0f / 6.0f);
        }
        if constexpr (s == Step::clamp) {
          x = select<L>(x < p0, splat<L>(p0), x);
          x = select<L>(x > p1, splat<L>(p1), x);
        }
        if constexpr (s == Step::quant) x = round_even(x * p0) + p1;
        return steps<kIndex + 1, kD>(x, e, row, col, live);
      }
    }
  }

  // L accumulators that belong at (row, col), (row, col + 1), ... of C.
  static TSR_INLINE void store(Acc acc, const EpilogueArgs& e, long long row, long long col, int live) {
    if constexpr (kRowTable) row = e.rows[row];
    char* c = static_cast<char*>(e.c) + (row * e.c_stride + col) * bytes_of(Config::type_out);
    if constexpr (kInt) {
      if (e.plain || (e.alpha == 1.0f && e.beta == 1.0f)) {
        unsigned* out = reinterpret_cast<unsigned*>(c);
        if (!e.plain) acc += live == L ? load_whole<U>(out) : load_part(out, live, U{});
        live == L ? store_whole(out, acc) : store_part(out, live, acc);
        return;
      }
    }
    F x;
    if constexpr (kIntAcc) {
      x = __builtin_convertvector((I)acc, F);
    } else {
      x = as_float<L>(acc);
    }
    if (!e.plain) {
      x = x * e.alpha;
      if (e.beta != 0.0f) x = x + load_float<L, Config::type_out>(c, live) * e.beta;
    }
    x = steps<0, 0>(x, e, row, col, live);
    store_float<L, Config::type_out>(c, live, x);
  }

  // A tile of `rows` x `cols` accumulators that lie in memory, `stride` apart.
  static __attribute__((noinline)) void store_tile(const unsigned* acc, long long stride,
                                                   const EpilogueArgs& e, long long row, long long col,
                                                   int rows, int cols) {
    for (int i = 0; i < rows; ++i) {
      for (int j = 0; j < cols; j += L) {
        const int live = cols - j < L ? cols - j : L;
        store(load_whole<Acc>(acc + i * stride + j), e, row + i, col + j, live);
      }
    }
  }
};

}  // namespace tsr
