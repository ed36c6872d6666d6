// From accumulators to C: alpha, beta, the chain of steps, conversion, masked store.
#pragma once

#include "cpu/abi.h"
#include "cpu/convert.h"
#include "cpu/functions.h"
#include "cpu/types.h"
#include "cpu/vec.h"
#include "cpu/wide.h"

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
  // i32 results of integers are exact wherever they are whole numbers, and saturate: what is done to the sums
  // is done in i32 where nothing else can come of it (a second addition could bring back what the first one
  // saturated), else in f64, but for functions that are approximated.
  static constexpr bool kInt = kIntAcc && Config::type_out == Type::i32;
  static constexpr bool adds(Step s) {
    return reads_d(s) && s != Step::mul && s != Step::mul_row && s != Step::mul_col;
  }
  static constexpr int kAdditions = [] {
    int n = 0;
    for (int i = 0; i < Config::epilogue_count; ++i) n += adds(Config::epilogue[i]);
    return n;
  }();
  static constexpr bool kWhole = [] {
    for (int i = 0; i < Config::epilogue_count; ++i) {
      const Step s = Config::epilogue[i];
      if (!(s == Step::relu || (adds(s) && Config::type_d == Type::i32))) return false;
    }
    return kInt && kAdditions <= 1;
  }();
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

  using W = Wide<L>;
  template <class X>
  static constexpr bool kF64 = sizeof(X) > sizeof(F);

  template <class X>
  static TSR_INLINE X all(float x) {
    if constexpr (kF64<X>) {
      return W(x);
    } else {
      return splat<L>(x);
    }
  }
  template <class X>
  static TSR_INLINE X of_floats(F x) {
    if constexpr (kF64<X>) {
      return W::of(x);
    } else {
      return x;
    }
  }
  static TSR_INLINE F floats(F x) { return x; }
  static TSR_INLINE F floats(W x) { return x.floats(); }
  static TSR_INLINE F whole(F x) { return round_even(x); }
  static TSR_INLINE W whole(W x) { return x.rounded(); }
  static TSR_INLINE F pick(I mask, F yes, F no) { return select<L>(mask, yes, no); }
  static TSR_INLINE W pick(typename W::Mask mask, W yes, W no) { return W::pick(mask, yes, no); }

  // L elements of memory type kType, or the first of them in all lanes.
  template <class X, Type kType>
  static TSR_INLINE X load(const void* p, int live) {
    if constexpr (kF64<X> && kType == Type::i32) {
      return W::of(load_integers(p, live));
    } else {
      return of_floats<X>(load_float<L, kType>(p, live));
    }
  }
  template <class X, Type kType>
  static TSR_INLINE X load_one(const void* p) {
    if constexpr (kF64<X> && kType == Type::i32) {
      return W(*static_cast<const int*>(p));
    } else {
      return all<X>(load_float<L, kType>(p, 1)[0]);
    }
  }
  static TSR_INLINE I load_integers(const void* p, int live) {
    auto* q = static_cast<const unsigned*>(p);
    return (I)(live == L ? load_whole<U>(q) : load_part(q, live, U{}));
  }

  // The element of tensor kD for (row, col).
  template <int kD>
  static TSR_INLINE const char* place(const EpilogueArgs& e, long long row, long long col) {
    return static_cast<const char*>(e.d[kD]) +
           (row * e.d_row[kD] + col * e.d_col[kD]) * bytes_of(Config::type_d);
  }

  template <int kIndex, int kD, class X>
  static TSR_INLINE X steps(X x, const EpilogueArgs& e, long long row, long long col, int live) {
    if constexpr (kIndex == Config::epilogue_count) {
      return x;
    } else {
      constexpr Step s = Config::epilogue[kIndex];
      const X p0 = all<X>(e.params[kIndex][0]), p1 = all<X>(e.params[kIndex][1]), zero = all<X>(0);
      if constexpr (reads_d(s)) {
        const char* d = place<kD>(e, row, col);
        X v;
        if constexpr (reads_column(s)) {
          v = load_one<X, Config::type_d>(d);
        } else {
          v = load<X, Config::type_d>(d, live);
        }
        return steps<kIndex + 1, kD + 1>(adds(s) ? x + v : x * v, e, row, col, live);
      } else {
        if constexpr (s == Step::scale) x = x * p0;
        if constexpr (s == Step::relu) x = pick(x < zero, zero, x);
        if constexpr (s == Step::leaky_relu) x = pick(x < zero, x * p0, x);
        if constexpr (s == Step::gelu) x = of_floats<X>(gelu<L>(floats(x)));
        if constexpr (s == Step::gelu_tanh) {
          // 0.5 (1 + tanh(y)) = sigmoid(2 y), y = sqrt(2 / pi) (x + 0.044715 x^3)
          const F f = floats(x);
          x = of_floats<X>(f * sigmoid<L>(1.5957691216f * (f + 0.044715f * f * f * f)));
        }
        if constexpr (s == Step::silu) x = x * of_floats<X>(sigmoid<L>(floats(x)));
        if constexpr (s == Step::sigmoid) x = of_floats<X>(sigmoid<L>(floats(x)));
        if constexpr (s == Step::tanh) x = of_floats<X>(tanh<L>(floats(x)));
        if constexpr (s == Step::hardswish) {
          X g = x + all<X>(3.0f);
          g = pick(g < zero, zero, g);
          g = pick(g > all<X>(6.0f), all<X>(6.0f), g);
          x = x * (g * all<X>(1.0f / 6.0f));  // in this order: six times a large x is infinite
        }
        if constexpr (s == Step::clamp) {
          x = pick(x < p0, p0, x);
          x = pick(x > p1, p1, x);
        }
        if constexpr (s == Step::quant) x = whole(x * p0) + p1;
        return steps<kIndex + 1, kD>(x, e, row, col, live);
      }
    }
  }

  // x + y, saturated.
  static TSR_INLINE I sum_of(I x, I y) {
    const I sum = (I)((U)x + (U)y), over = (x ^ sum) & (y ^ sum), most = (I)(0x7fffffffu + ((U)x >> 31));
    return (sum & ~(over >> 31)) | (most & (over >> 31));
  }
  template <int kIndex, int kD>
  static TSR_INLINE I whole_steps(I x, const EpilogueArgs& e, long long row, long long col, int live) {
    if constexpr (kIndex == Config::epilogue_count) {
      return x;
    } else if constexpr (Config::epilogue[kIndex] == Step::relu) {
      return whole_steps<kIndex + 1, kD>(x & ~(x >> 31), e, row, col, live);
    } else {
      const char* d = place<kD>(e, row, col);
      I v;
      if constexpr (reads_column(Config::epilogue[kIndex])) {
        v = *reinterpret_cast<const int*>(d) - I{};
      } else {
        v = load_integers(d, live);
      }
      return whole_steps<kIndex + 1, kD + 1>(sum_of(x, v), e, row, col, live);
    }
  }
  static __attribute__((noinline)) void store_f64(Acc acc, const EpilogueArgs& e, long long row,
                                                  long long col, int live, unsigned* c) {
    W x = W::of((I)acc) * W(e.alpha);
    if (e.beta != 0.0f) x = x + W::of(load_integers(c, live)) * W(e.beta);
    x = steps<0, 0>(x, e, row, col, live);
    put(c, (U)x.integers(), live);
  }
  static TSR_INLINE void put(unsigned* c, U x, int live) {
    live == L ? store_whole(c, x) : store_part(c, live, x);
  }

  // L accumulators that belong at (row, col), (row, col + 1), ... of C.
  static TSR_INLINE void store(Acc acc, const EpilogueArgs& e, long long row, long long col, int live) {
    if constexpr (kRowTable) row = e.rows[row];
    char* c = static_cast<char*>(e.c) + (row * e.c_stride + col) * bytes_of(Config::type_out);
    if constexpr (kInt) {
      auto* words = reinterpret_cast<unsigned*>(c);
      if (kWhole && (e.plain || (kAdditions == 0 && e.alpha == 1.0f && e.beta == 1.0f))) {
        I x = (I)acc;
        if (!e.plain) x = sum_of(x, load_integers(words, live));
        put(words, (U)whole_steps<0, 0>(x, e, row, col, live), live);
      } else {
        store_f64(acc, e, row, col, live, words);
      }
    } else {
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
