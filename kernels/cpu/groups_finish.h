// The last step of cpu_groups for the gradient of a filter: panels of sums to dW.
#pragma once

#include "cpu/groups_math.h"

namespace tsr {

template <class C>
struct GroupsFinish {
  using M = GroupsMath<C>;
  using E = typename M::E;
  using F = typename M::F;
  using U = typename M::U;
  static constexpr int L = M::L, V = M::V, kTaps = M::kTaps;
  static constexpr long long kLength = M::kLines * M::kInner * kTaps;  // of a chunk's panel, in tile_n lanes

  // The sums of lanes `at` of all parts.
  static TSR_INLINE F sum_of_parts(const GroupsArgs& args, const float* at) {
    F sum = load_whole<F>(at);
    for (int p = 1; p < args.parts; ++p) sum += load_whole<F>(at + p * args.panel_part);
    return sum;
  }

  // To dW, one row per output channel, taps x inner. Where lanes are channels of dY, sums are transposed.
  static __attribute__((noinline)) void rows(const GroupsArgs& args) {
    for (long long q = args.chunk_begin; q < args.chunk_end; ++q) {
      const float* sums = args.panels + q * kLength * C::tile_n;
      for (int v = 0; v < V; ++v) {
        long long c = 0, tap_line = 0, tap_w = 0;
        for (long long e = 0; e < kLength; e += L) {
          alignas(64) unsigned square[L][L];
          for (int i = 0; i < L; ++i) {
            if (e + i >= kLength) break;
            store_whole(
                square[i],
                sum_of_parts(args, sums + ((tap_line * M::kInner + c) * kTaps + tap_w) * C::tile_n + v * L));
            if (++c < M::kInner) continue;
            c = 0;
            if (++tap_w == kTaps) tap_w = 0, ++tap_line;
          }
          U block[L];
          TSR_UNROLL for (int i = 0; i < L; ++i) block[i] = load_whole<U>(square[i]);
          transpose<L>(block);
          TSR_UNROLL for (int i = 0; i < L; ++i) store_whole(square[i], block[i]);
          const int live = static_cast<int>(least(L, kLength - e));
          for (int i = 0; i < L; ++i) {
            const long long o = M::first_channel(args, q) + M::channel(v, i);
            if (i < M::kUsed && o >= q * M::kChannels && o < args.out_channels)
              E::store(load_whole<U>(square[i]), args.epilogue, o, e, live);
          }
        }
      }
    }
  }

  // Where lanes are channels of X: those of a group are neighbours in dW.
  static __attribute__((noinline)) void runs(const GroupsArgs& args) {
    for (long long q = args.chunk_begin; q < args.chunk_end; ++q) {
      const float* sums = args.panels + q * kLength * C::tile_n;
      for (long long e = 0; e < kLength; ++e) {
        const long long tap = e / (M::kInner * kTaps) * kTaps + e % kTaps, k = e / kTaps % M::kInner;
        for (int v = 0; v < V; ++v, sums += L) {
          alignas(64) float lanes[2 * L] = {};
          store_whole(lanes, sum_of_parts(args, sums));
          for (int i = 0, run; i < M::kUsed; i += run) {
            const long long x = q * M::kChannels + M::channel(v, i), c = x % M::kOuter;
            if (x >= args.in_channels) break;
            run = static_cast<int>(least(M::kUsed - i, M::kOuter - c));
            E::store(load_whole<U>(lanes + i), args.epilogue, x / M::kOuter * M::kInner + k,
                     tap * M::kOuter + c, run);
          }
        }
      }
    }
  }

  static TSR_INLINE void run(const GroupsArgs& args) {
    if constexpr (M::kTurned) {
      runs(args);
    } else {
      rows(args);
    }
  }
};

}  // namespace tsr
