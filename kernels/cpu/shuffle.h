// Register shuffles of the unpacked kernels: transposes and sums over lanes.
#pragma once

#include "cpu/lines.h"

namespace tsr {

template <int... I>
struct Seq {};
template <int N, int... I>
struct MakeSeq : MakeSeq<N - 1, N - 1, I...> {};
template <int... I>
struct MakeSeq<0, I...> {
  typedef Seq<I...> type;
};

// Lanes of x followed by y: lane i of the result is number Pattern::at(i).
template <class Pattern, class V, int... I>
TSR_INLINE V shuffle(V x, V y, Seq<I...>) {
#if __has_builtin(__builtin_shufflevector)
  return __builtin_shufflevector(x, y, Pattern::at(I)...);
#else  // GCC before 12
  typedef decltype(x == y) Lanes;
  return __builtin_shuffle(x, y, Lanes{Pattern::at(I)...});
#endif
}
template <class Pattern, int N, class V>
TSR_INLINE V shuffle(V x, V y) {
  return shuffle<Pattern>(x, y, typename MakeSeq<N>::type());
}

// The half of every block of `S` lanes of (x, y): the first when !High, else the second.
template <int S, bool High>
struct HalfBlocks {
  static constexpr int at(int lane) { return lane / (S / 2) * S + lane % (S / 2) + (High ? S / 2 : 0); }
};

// Sums over the lanes of W vectors in W - 1 additions: lane i of the result is the sum of leaf(first + i).
// Leaves at and beyond kCount do not exist; what their lanes get is of no use.
template <int W, int kCount, int kFirst, int kLeaves, class Leaf>
TSR_INLINE auto sum_lanes(const Leaf& leaf) {
  if constexpr (kLeaves == 1) {
    return leaf(kFirst);
  } else {
    constexpr int kBlock = 2 * W / kLeaves;
    auto x = sum_lanes<W, kCount, kFirst, kLeaves / 2>(leaf);
    auto y = x;
    if constexpr (kFirst + kLeaves / 2 < kCount)
      y = sum_lanes<W, kCount, kFirst + kLeaves / 2, kLeaves / 2>(leaf);
    return shuffle<HalfBlocks<kBlock, false>, W>(x, y) + shuffle<HalfBlocks<kBlock, true>, W>(x, y);
  }
}

// Interleaves blocks of D lanes of x and y: the step of a transpose at distance D.
template <int D, bool High, int W>
struct Exchange {
  static constexpr int at(int lane) {
    const int in = lane % (2 * D), base = lane - in + (High ? D : 0);
    return in < D ? base + in : W + base + in - D;
  }
};

// Interleaves runs of S lanes of one half of every 128 bits of x and y: one instruction, S = 1 or 2.
template <int S, bool High, int W>
struct Zip {
  static constexpr int at(int lane) {
    const int in = lane % 4, run = in / S;
    return run % 2 * W + lane - in + (High ? 2 : 0) + run / 2 * S + in % S;
  }
};
// Every second 128 bits of x, then of y: one instruction.
template <bool High, int W>
struct Alternate {
  static constexpr int at(int lane) {
    const int block = lane / 4, half = W / 8;
    return block / half * W + (2 * (block % half) + High) * 4 + lane % 4;
  }
};

// Lanes of 128 bits of W vectors: each four neighbours transposed, then those blocks.
template <int W, class V>
TSR_INLINE void transpose_whole(V (&v)[W]) {
  V t[W];
  TSR_UNROLL for (int i = 0; i < W; i += 4) {
    const V a = shuffle<Zip<1, false, W>, W>(v[i], v[i + 1]), b = shuffle<Zip<1, true, W>, W>(v[i], v[i + 1]),
            c = shuffle<Zip<1, false, W>, W>(v[i + 2], v[i + 3]),
            d = shuffle<Zip<1, true, W>, W>(v[i + 2], v[i + 3]);
    t[i] = shuffle<Zip<2, false, W>, W>(a, c);
    t[i + 1] = shuffle<Zip<2, true, W>, W>(a, c);
    t[i + 2] = shuffle<Zip<2, false, W>, W>(b, d);
    t[i + 3] = shuffle<Zip<2, true, W>, W>(b, d);
  }
  TSR_UNROLL for (int i = 0; i < 4; ++i) {
    V even = shuffle<Alternate<false, W>, W>(t[i], t[i + 4]),
      odd = shuffle<Alternate<true, W>, W>(t[i], t[i + 4]);
    if constexpr (W == 8) {
      v[i] = even;
      v[i + 4] = odd;
    } else {
      const V even2 = shuffle<Alternate<false, W>, W>(t[i + 8], t[i + 12]),
              odd2 = shuffle<Alternate<true, W>, W>(t[i + 8], t[i + 12]);
      v[i] = shuffle<Alternate<false, W>, W>(even, even2);
      v[i + 4] = shuffle<Alternate<false, W>, W>(odd, odd2);
      v[i + 8] = shuffle<Alternate<true, W>, W>(even, even2);
      v[i + 12] = shuffle<Alternate<true, W>, W>(odd, odd2);
    }
  }
}

// W x W transpose of 32-bit lanes. Of fewer vectors, N: of every N x N block of them.
template <int W, int N = W, int D = N / 2, class V>
TSR_INLINE void transpose(V (&v)[N]) {
  if constexpr (N == W && D == W / 2) {
    transpose_whole(v);
  } else {
    TSR_UNROLL for (int i = 0; i < N; ++i) {
      if ((i / D) % 2 == 0) {
        V x = v[i], y = v[i + D];
        v[i] = shuffle<Exchange<D, false, W>, W>(x, y);
        v[i + D] = shuffle<Exchange<D, true, W>, W>(x, y);
      }
    }
    if constexpr (D > 1) transpose<W, N, D / 2>(v);
  }
}

}  // namespace tsr
