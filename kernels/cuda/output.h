// From accumulators to elements of C: alpha, beta, the chain of steps.
#pragma once

#include "cuda/abi.h"
#include "cuda/convert.h"
#include "gpu/epilogue.h"

namespace tsr {

template <bool, class T, class F>
struct Pick {
  typedef T type;
};
template <class T, class F>
struct Pick<false, T, F> {
  typedef F type;
};

__device__ __forceinline__ u32 bits_of(float x) { return __float_as_uint(x); }
__device__ __forceinline__ u32 bits_of(int x) { return static_cast<u32>(x); }
__device__ __forceinline__ void from_bits(u32 bits, float& x) { x = __uint_as_float(bits); }
__device__ __forceinline__ void from_bits(u32 bits, int& x) { x = static_cast<int>(bits); }

template <class C>
struct Output {
  typedef Bits<C::type_out> Out;
  static constexpr bool kInteger = !is_float(C::type_a);
  typedef typename Pick<kInteger, int, float>::type Acc;
  // i32 results of integers stay integers, or are worked out in f64 and saturate.
  static constexpr bool kRaw = kInteger && C::type_out == Type::i32;
  typedef typename Pick<kRaw, double, float>::type X;

  // The sums of kWidth neighbours of a row of C, from (row, col); all are inside. n: columns of C.
  template <int kWidth>
  static __device__ __forceinline__ void finish(const u32 (&bits)[kWidth], int row, int col, int n, int batch,
                                                const GpuOutput& o) {
    const GpuEpilogueArgs& e = o.epilogue;
    Out* c = static_cast<Out*>(o.c) + batch * o.c_batch_stride + row * o.c_leading + col;
    if constexpr (kRaw && C::epilogue_count == 0) {
      if (e.alpha == 1 && e.beta == 0) {
#pragma unroll
        for (int i = 0; i < kWidth; ++i) c[i] = bits[i];
        return;
      }
    }
    X x[kWidth];
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      Acc sum;
      from_bits(bits[i], sum);
      x[i] = static_cast<X>(sum) * e.alpha;
    }
    if (e.beta != 0) {
      X old[kWidth];
      tsr::load<C::type_out>(c, old);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) x[i] += e.beta * old[i];
    }
    apply_steps<C>(x, row, col, batch, n, e);
    tsr::store<C::type_out>(c, x);
  }
};

}  // namespace tsr
