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

// W x W transpose of 32-bit lanes.
template <int W, int D = W / 2, class V>
TSR_INLINE void transpose(V (&v)[W]) {
  TSR_UNROLL for (int i = 0; i < W; ++i) {
    if ((i / D) % 2 == 0) {
      V x = v[i], y = v[i + D];
      v[i] = shuffle<Exchange<D, false, W>, W>(x, y);
      v[i + D] = shuffle<Exchange<D, true, W>, W>(x, y);
    }
  }
  if constexpr (D > 1) transpose<W, D / 2>(v);
}

}  // namespace tsr
