// Where the sums of a tile of cpu_groups go: to C as they are, in whole lines of memory past the caches, or
// by way of the epilogue.
#pragma once

#include "cpu/convert.h"
#include "cpu/groups_lines_job.h"
#include "cpu/stream.h"

namespace tsr {

template <class C>
struct GroupsLinesStore {
  using M = GroupsMath<C>;
  using Job = GroupsLinesJob<C>;
  using E = typename M::E;
  using F = typename M::F;
  using U = typename M::U;
  static constexpr int L = M::L, V = M::V, kSums = M::kSums, B = Job::B;
  static constexpr bool kStreams = Job::kStreams;

  template <bool kEdge, bool kWhole>
  static TSR_INLINE void put(const Job& at, char* out, const F (&acc)[B][kSums]) {
    if (kWhole && !M::kBlocked && E::kNoSteps && at.whole) {
      const EpilogueArgs& e = at.args->epilogue;
      constexpr int kSize = bytes_of(C::type_out);
      const long long stride = e.c_stride * kSize;
      if constexpr (kStreams) {
        if (at.streams) return stream_lanes<kEdge>(at, out, stride, acc);
      }
      each<B>([&](auto b) __attribute__((always_inline)) {
        char* to = out;
        out += stride;
        if (kEdge && !within(at.out_col + b.value, at.out_w)) return;
        each<kSums>([&](auto v) __attribute__((always_inline)) {
          store_float<L, C::type_out>(to + v.value * L * kSize, L, acc[b.value][v.value]);
        });
      });
      return;
    }
    if (!M::kBlocked && E::kNoSteps && at.args->epilogue.plain) return store_lanes<kEdge>(at, out, acc);
    alignas(64) unsigned sums[B][kSums][L];
    each<B * kSums>([&](auto i) __attribute__((always_inline)) {
      store_whole(sums[i.value / kSums][i.value % kSums], as_bits<L>(acc[i.value / kSums][i.value % kSums]));
    });
    if constexpr (M::kBlocked) {
      finish_blocks(at, sums);
    } else {
      finish(at, sums);
    }
  }

  // Sums of bf16 that go to memory as they are.
  template <bool kEdge>
  static TSR_INLINE void store_joined(const Job& at, char* out, const F (&acc)[B][V]) {
    const EpilogueArgs& e = at.args->epilogue;
    each<B>([&](auto b) __attribute__((always_inline)) {
      char* to = out;
      out += e.c_stride * 2;
      if (kEdge && !within(at.out_col + b.value, at.out_w)) return;
      each<V / 2>([&](auto v) __attribute__((always_inline)) {
        const U words = M::join(acc[b.value][2 * v.value], acc[b.value][2 * v.value + 1]);
        if constexpr (kStreams) {
          if (at.streams) return stream_whole(to + v.value * L * 4, words);
        }
        store_whole(to + v.value * L * 4, words);
      });
    });
  }

  template <bool kEdge>
  static TSR_INLINE void stream_lanes(const Job& at, char* out, long long stride, const F (&acc)[B][kSums]) {
    constexpr int kSize = bytes_of(C::type_out);
    each<B>([&](auto b) __attribute__((always_inline)) {
      char* to = out;
      out += stride;
      if (kEdge && !within(at.out_col + b.value, at.out_w)) return;
      each<kSums>([&](auto v) __attribute__((always_inline)) {
        const F sum = acc[b.value][v.value];
        if constexpr (C::type_out == Type::f32) {
          stream_whole(to + v.value * L * kSize, sum);
        } else {
          static_assert(C::type_out == Type::bf16);
          stream_whole(to + v.value * L * kSize, float_to_bf16<L>(sum));
        }
      });
    });
  }

  // Sums that go to memory as they are, of the lanes that hold channels.
  template <bool kEdge>
  static TSR_INLINE void store_lanes(const Job& at, char* out, const F (&acc)[B][kSums]) {
    const EpilogueArgs& e = at.args->epilogue;
    constexpr int kSize = bytes_of(C::type_out);
    const long long stride = e.c_stride * kSize;
    int live[kSums];
    each<kSums>([&](auto v) __attribute__((always_inline)) {
      constexpr int kLanes = M::sum_lanes(v.value);
      const long long rest = at.args->out_channels - at.o - M::sum_channel(v.value);
      live[v.value] = static_cast<int>(rest > kLanes ? kLanes : rest > 0 ? rest : 0);
    });
    each<B>([&](auto b) __attribute__((always_inline)) {
      char* to = out;
      out += stride;
      if (kEdge && !within(at.out_col + b.value, at.out_w)) return;
      each<kSums>([&](auto v) __attribute__((always_inline)) {
        store_float<L, C::type_out>(to + M::sum_channel(v.value) * kSize, live[v.value],
                                    acc[b.value][v.value]);
      });
    });
  }

  // The pixels of a block's line lie one after the other in memory.
  static __attribute__((noinline)) void finish_blocks(const Job& at, const unsigned (*sums)[kSums][L]) {
    const GroupsArgs& args = *at.args;
    const GroupsBlocks& blocks = args.blocks;
    constexpr int kWidth = C::block_w;
    for (int b = 0; b < B && at.out_col + b < at.out_w; ++b) {
      const long long left = blocks.origin_w + (at.out_col + b) * kWidth, right = blocks.result_w - left;
      const int from = left < 0 ? static_cast<int>(-left) : 0,
                to = right < kWidth ? static_cast<int>(right) : kWidth;
      if (from >= to) continue;
      const int live = (to - from) * M::kOuter;
      for (int h = 0; h < C::block_h; ++h) {
        const long long line = at.block_line + h;
        if (!within(line, blocks.result_h)) continue;
        E::store(load_part(sums[b][0] + (h * kWidth + from) * M::kOuter, live, U{}), args.epilogue,
                 (at.image * blocks.result_h + line) * blocks.result_w + left + from, 0, live);
      }
    }
  }

  static __attribute__((noinline)) void finish(const Job& at, const unsigned (*sums)[kSums][L]) {
    const GroupsArgs& args = *at.args;
    for (int b = 0; b < B; ++b) {
      const long long col = at.out_col + b;
      if (!within(col, at.out_w)) continue;
      for (int v = 0; v < kSums; ++v) {
        const long long o = at.o + M::sum_channel(v), end = least(o + M::sum_lanes(v), args.out_channels);
        const long long from = o > at.fresh ? o : at.fresh;
        if (from >= end) continue;
        E::store(load_part(sums[b][v] + (from - o), static_cast<int>(end - from), U{}), args.epilogue,
                 at.row + col, from, static_cast<int>(end - from));
      }
    }
  }
};

}  // namespace tsr
