// The filter of cpu_groups as panels: the weights of a chunk's lanes side by side.
#pragma once

#include "cpu/groups_math.h"

namespace tsr {

template <class C>
struct GroupsWeights {
  using M = GroupsMath<C>;
  using U = typename M::U;
  static constexpr int L = M::L, V = M::V, kTaps = M::kTaps;
  static constexpr long long kSlot = M::kSlot;

  // Rows of weights that are contiguous per lane, turned.
  static __attribute__((noinline)) void turn_weights(const GroupsArgs& args) {
    const char* from = static_cast<const char*>(args.other);
    constexpr Type kAs = M::kDot ? Type::f32 : M::kOther;  // words are copied
    constexpr int kSize = M::kDot ? 4 : bytes_of(M::kOther);
    const long long taps = args.taps_d * args.taps_h * kTaps, length = taps * M::kSteps;
    for (long long q = args.chunk_begin; q < args.chunk_end; ++q) {
      float* panel = args.panels + q * length * C::tile_n;
      for (int v = 0; v < V; ++v) {
        long long tap = 0, c = 0, tap_line = 0, tap_w = 0;
        for (long long e = 0; e < length; e += L) {
          U block[L];
          const Part part(length - e);
          TSR_UNROLL for (int i = 0; i < L; ++i) {
            const long long o = M::first_channel(args, q) + M::channel(v, i);
            const long long row = C::joined > 1 ? o % M::kOuter : o;
            block[i] = o < args.out_channels
                           ? as_bits<L>(load_floats<L, kAs>(from + (row * length + e) * kSize, part))
                           : U{};
          }
          transpose<L>(block);
          alignas(64) unsigned turned[L][L];
          TSR_UNROLL for (int i = 0; i < L; ++i) store_whole(turned[i], block[i]);
          for (int i = 0; i < L && e + i < length; ++i) {
            store_whole(panel + ((tap_line * M::kSteps + c) * kTaps + tap_w) * C::tile_n + v * L,
                        load_whole<U>(turned[i]));
            const bool next = M::kBackward || ++c == M::kSteps;
            if (!next) continue;
            if (!M::kBackward) c = 0;
            if (++tap_w == kTaps) tap_w = 0, ++tap_line;
            if (++tap == taps) tap = tap_w = tap_line = 0, ++c;
          }
        }
      }
    }
  }

  static constexpr int kAtOnce = M::kInner / M::kElements;

  // Weights of neighbouring lanes, and where words hold two channels those `next` bytes behind.
  static TSR_INLINE U weights(const char* p, long long next, Part part) {
    const U u = as_bits<L>(load_floats<L, M::kOther>(p, part));
    if constexpr (!M::kDot) return u;
    return as_bits<L>(load_floats<L, M::kOther>(p + next, part)) | u >> 16;
  }

  // f(to, o, c, tap) for every vector of panels: of step c and a tap, its lanes begin with channel o of the
  // operand walked.
  template <class F>
  static TSR_INLINE void each_vector(const GroupsArgs& args, const F& f) {
    static_assert(!M::kPairs);
    const long long lines = args.taps_d * args.taps_h;
    float* to = args.panels + args.chunk_begin * lines * kTaps * M::kSteps * C::tile_n;
    for (long long q = args.chunk_begin; q < args.chunk_end; ++q) {
      for (long long line = 0; line < lines; ++line) {
        for (int c = 0; c < M::kSteps; ++c) {
          for (int t = 0; t < kTaps; ++t) {
            for (int v = 0; v < V; ++v, to += L)
              f(to, M::first_channel(args, q) + M::channel(v, 0), c, line * kTaps + t);
          }
        }
      }
    }
  }
  static TSR_INLINE long long group(long long o) { return C::joined > 1 ? 0 : o / M::kOuter; }

  // Backward: the lanes of one group are contiguous, groups lie apart.
  static __attribute__((noinline)) void join_weights(const GroupsArgs& args) {
    const char* from = static_cast<const char*>(args.other);
    constexpr int kSize = bytes_of(M::kOther);
    const long long taps = args.taps_d * args.taps_h * kTaps;
    each_vector(
        args, [&](float* to, long long first, int c, long long tap) __attribute__((always_inline)) {
          store_whole(to, U{});
          for (int l = 0; l < M::kUsed;) {
            const long long o = first + l;
            if (o >= args.out_channels) break;
            const long long i = o % M::kOuter;
            const char* p =
                from + (((group(o) * M::kSteps + c) * kAtOnce * taps + tap) * M::kOuter + i) * kSize;
            store_part(reinterpret_cast<unsigned*>(to + l), L - l,
                       weights(p, taps * M::kOuter * kSize, Part(least(M::kOuter - i, L))));
            l += static_cast<int>(M::kOuter - i);
          }
        });
  }

  // Lanes of one group: a channel's elements of one step lie side by side.
  static __attribute__((noinline)) void fold_weights(const GroupsArgs& args) {
    const long long taps = args.taps_d * args.taps_h * kTaps;
    each_vector(
        args, [&](float* to, long long o, int c, long long tap) __attribute__((always_inline)) {
          alignas(64) unsigned words[L] = {};
          if (o < args.out_channels) {
            const long long g = group(o);
            TSR_UNROLL for (int l = 0; l < L; ++l) words[l] =
                word(args, g, l / M::kFolds, c * M::kFolds + l % M::kFolds, tap, taps);
          }
          store_whole(to, load_whole<U>(words));
        });
  }
  // The filter's element, or word of two, of channel i of a group of the operand walked and c of that read.
  static TSR_INLINE unsigned word(const GroupsArgs& args, long long g, long long i, long long c,
                                  long long tap, long long taps) {
    const char* from = static_cast<const char*>(args.other);
    struct __attribute__((packed, may_alias)) Word {
      unsigned bits;
    };
    struct __attribute__((packed, may_alias)) Half {
      unsigned short bits;
    };
    if constexpr (!M::kBackward) {
      const long long at = ((g * M::kOuter + i) * taps + tap) * M::kElements + c;
      return reinterpret_cast<const Word*>(from)[at].bits;
    } else {
      const long long at = ((g * M::kElements + c) * kAtOnce * taps + tap) * M::kOuter + i;
      if constexpr (!M::kDot) return reinterpret_cast<const Word*>(from)[at].bits;
      const Half* half = reinterpret_cast<const Half*>(from) + at;
      return half[0].bits | static_cast<unsigned>(half[taps * M::kOuter].bits) << 16;
    }
  }

  static __attribute__((noinline)) void block_weights(const GroupsArgs& args) {
    const GroupsBlocks& at = args.blocks;
    const long long floats = args.taps_d * args.taps_h * M::kSteps * kSlot;
    for (long long i = 0; i < floats; i += L) store_whole(args.panels + i, U{});
    for (int y = 0; y < C::block_h; ++y) {
      for (int tap_h = 0; tap_h < at.filter_h; ++tap_h) {
        const long long h = met(y * at.pixel_h - tap_h * at.dilation_h, at.at_h, at.first_h);
        if (h < 0) continue;
        for (int x = 0; x < C::block_w; ++x) {
          for (int tap_w = 0; tap_w < at.filter_w; ++tap_w) {
            const long long w = met(x * at.pixel_w - tap_w * at.dilation_w, at.at_w, at.first_w);
            if (w < 0) continue;
            for (long long d = 0; d < args.taps_d; ++d) {
              block_tap(args, (d * at.filter_h + tap_h) * at.filter_w + tap_w,
                        args.panels + ((d * args.taps_h + h) * M::kSteps * kTaps + w) * L +
                            (y * C::block_w + x) * M::kOuter);
            }
          }
        }
      }
    }
  }
  // Of the taps of a block, the one that meets a coordinate; -1: none does.
  static TSR_INLINE long long met(long long distance, long long at, long long first) {
    return distance % at == 0 ? distance / at - first : -1;
  }
  // The filter's own tap, to the lanes of one pixel.
  static TSR_INLINE void block_tap(const GroupsArgs& args, long long tap, float* to) {
    const GroupsBlocks& at = args.blocks;
    const char* from = static_cast<const char*>(args.other) + tap * at.tap_apart * M::kOtherSize;
    const long long next = at.inner_apart * M::kOtherSize;
    for (int k = 0; k < M::kSteps; ++k, from += kAtOnce * next, to += kSlot) {
      if (at.outer_apart == 1) {
        store_part(reinterpret_cast<unsigned*>(to), M::kOuter, weights(from, next, Part(M::kOuter)));
        continue;
      }
      for (int o = 0; o < M::kOuter; ++o) {
        const char* p = from + o * at.outer_apart * M::kOtherSize;
        store_part(reinterpret_cast<unsigned*>(to + o), 1, weights(p, next, Part(1)));
      }
    }
  }

  static TSR_INLINE void run(const GroupsArgs& args) {
    if constexpr (M::kBlocked) {
      block_weights(args);
    } else if constexpr (M::kFolds > 1) {
      fold_weights(args);
    } else if constexpr (M::kBackward && (M::kOuter > 1 || M::kDot)) {
      join_weights(args);
    } else {
      turn_weights(args);
    }
  }
};

}  // namespace tsr
