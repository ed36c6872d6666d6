// What the kernels of cpu_groups share: which column of a line meets which tap, and what lies in the lanes.
#pragma once

#include "cpu/each.h"
#include "cpu/groups_walk.h"
#include "cpu/multiply.h"
#include "cpu/unpacked.h"

namespace tsr {

template <int W, bool kSecond>
struct InterleavedLanes {
  static constexpr int at(int lane) { return (lane & 1) * W + (lane + (kSecond ? W : 0)) / 2; }
};

// Which column of a line meets which tap, and what lies in the lanes.
template <class C>
struct GroupsMath {
  using E = Epilogue<C>;
  static constexpr int L = C::vector_bits / 32, V = C::tile_n / L;
  using F = typename Vec<L>::F;
  using U = typename Vec<L>::U;
  using I = typename Vec<L>::I;
  // Taps count against the positions that are walked: a gradient of the input.
  static constexpr bool kBackward = C::spread_w < 0;
  static constexpr int kTaps = C::taps_w, kStride = kBackward ? C::divide_w : C::step_w;
  static constexpr int kDilation = kBackward ? -C::spread_w : C::spread_w;
  // The lanes are channels of the operand walked, which take those of the operand read; turned, the other way
  // round. Channels of a group that lanes take, and that are lanes.
  static constexpr bool kTurned = requires { C::turned; };
  static constexpr int kInner = kTurned ? C::outer : C::inner, kOuter = kTurned ? C::inner : C::outer;
  // Products of two neighbouring channels of the operand read are added at once: 32-bit words hold both, and
  // take the place of channels.
  static constexpr bool kDot = C::inst == Inst::dpbf16;
  static constexpr long long kSlot =
      static_cast<long long>(kTaps) * C::tile_n;        // floats, or words, of panel per step
  static constexpr int kLines = C::taps_d * C::taps_h;  // of the filter, counted through its planes
  // The operand read, and the other one.
  static constexpr Type kIn = C::gradient ? C::type_b : C::type_a,
                        kOther = C::gradient ? C::type_a : C::type_b;
  static_assert(!kTurned || (C::gradient && kIn == Type::f32 && kOther == Type::f32));
  // Elements, or words, of a group's channels, and how many of them lie side by side in a vector.
  static constexpr int kElements = kDot ? kInner / 2 : kInner;
  static constexpr int kFolds =
      C::gradient || C::blocked || (kIn != Type::f32 && !kDot) ? 1 : groups_folds(kElements, kOuter, L);
  static constexpr int kSteps = kElements / kFolds;
  static constexpr int kInSize = bytes_of(kIn), kOtherSize = bytes_of(kOther);
  static_assert(!kDot || (kIn == Type::bf16 && kOther == Type::bf16 && kInner % 2 == 0 && !C::gradient));
  // All lanes take the same channel of the operand read.
  static constexpr bool kBlocked = C::blocked;
  static_assert(!kBlocked || V == 1);
  // There is one group, whose channels leave lanes of the last vector empty.
  static constexpr bool kAlone = requires { C::alone; };
  // Vectors of a group that shares none with the others and leaves lanes of its last one empty; 0: there are
  // none such.
  static constexpr int kApart = C::gradient || kBlocked || kAlone ? 0 : groups_apart(kSteps, kOuter, L, V);
  // Lanes are the channels of a group, or of several.
  static constexpr bool kGrouped = !kBlocked && (kSteps != 1 || kOuter != 1);
  static constexpr int kUsed = kFolds > 1                     ? L / kFolds
                               : kBlocked || kAlone || kApart ? L
                                                              : groups_lanes(kSteps, kOuter, L, kDot),
                       kChannels = kApart ? V / kApart * kOuter : V * kUsed;
  static_assert(kUsed > 0);
  // Vectors of sums on their way to memory: those of folded channels are brought together.
  static constexpr int kSums = V % kFolds == 0 ? V / kFolds : V, kSumLanes = kApart ? L : kChannels / kSums;
  // All lanes of a vector belong to one group: a channel of the operand read is spread to all of them.
  static constexpr bool kSpread = kGrouped && (kFolds > 1 || kAlone || kApart || kOuter % L == 0);
  static_assert(!kTurned || (kGrouped && !kSpread));
  // Which channel a lane takes is chosen by an index; else it is its own.
  static constexpr bool kChosen = kGrouped && !kSpread;
  // Every lane of a vector takes the same channel, which its address says.
  static constexpr bool kAlike = kBlocked || kSpread;
  // What is read for one vector serves all vectors of a chunk.
  static constexpr bool kShared = kGrouped && (kAlone || kApart == V || kOuter % C::tile_n == 0);
  // Whether vector v of a chunk takes the channel that the one before it takes.
  static constexpr bool as_before(int v) {
    const int each = kApart ? kApart : kUsed == L && kChannels % kOuter == 0 ? kOuter / L : 1;
    return v > 0 && (kShared || (each > 1 && v % each != 0));
  }
  static constexpr int kReach = kChosen ? groups_reach(kSteps, kOuter, kUsed) : L;
  // 32-bit words hold two neighbouring channels of a group, which are chosen together.
  static constexpr bool kWords =
      kChosen && !C::gradient && kIn == Type::bf16 && kInner % 2 == 0 && !kDot && kReach <= 2 * L;
  // 16-bit channels are chosen and converted at once.
#ifdef __AVX512BW__
  static constexpr bool kHalves = kChosen && !kWords && !kDot && kIn == Type::bf16 && L == 16;
#else
  static constexpr bool kHalves = false;
#endif
  // Elements of a vector in memory that lanes choose from; vectors of them.
  static constexpr int kRead = kWords || kDot || kHalves ? 2 * L : L;
  static constexpr int kReads = groups_loads(kReach, L, kWords || kHalves);
  static constexpr int kBytes = kRead * kInSize;
  // What is loaded of them where lanes choose from few, zeros behind: the less, the fewer loads meet two
  // lines of memory.
  static constexpr int kNarrow = [] {
    if (!kChosen || kReads > 1 || !(kIn == Type::f32 || kWords || kHalves || kDot)) return 0;
    const int reach = kReach * (kDot ? 4 : kInSize);
    return reach <= 8 ? 8 : reach <= 16 ? 16 : reach <= 32 && L == 16 ? 32 : 0;
  }();
  // Lanes choose from their own 128 bits alone: few elements are read into all of these, or groups lie in
  // them. One operation, where AMD's processors take two to choose from a whole vector of 256.
  static constexpr bool kRepeats = L == 8 && (kNarrow == 8 || kNarrow == 16),
                        kInPlace = L == 8 && kChosen && kReads == 1 && !kWords && !kDot && kInner == kOuter &&
                                   4 % kOuter == 0;
  // What the next channel of the same group adds to an index.
  static constexpr unsigned kNext = kHalves ? 1u << 16 : 1u;
  // Steps along the channels of the operand read that are taken together.
  static constexpr int kAtOnce =
      kWords || (kAlike && !C::gradient && !kDot && kIn == Type::bf16 && kInner % 2 == 0) ? 2 : 1;
  // Lanes of two vectors are the even and the odd channels: 32-bit words hold one of each.
  static constexpr bool kPairs =
      kIn == Type::bf16 && (kOther == Type::bf16 || !C::gradient) && !kGrouped && !kDot && V % 2 == 0;

  static constexpr int channel(int v, int lane) {
    if (kApart) return v / kApart * kOuter + v % kApart * L + lane;
    return kPairs ? v / 2 * 2 * L + 2 * lane + v % 2 : v * kUsed + lane;
  }

  // The same of vectors of sums: first channel, and how many lanes hold channels.
  static constexpr int sum_channel(int v) { return kApart ? channel(v, 0) : v * kSumLanes; }
  static constexpr int sum_lanes(int v) {
    return kApart && v % kApart == kApart - 1 ? kOuter - (kApart - 1) * L : kSumLanes;
  }

  // Of all groups, the channels that lanes take, and that are lanes.
  static TSR_INLINE long long inner_channels(const GroupsArgs& args) {
    return kTurned ? args.out_channels : args.in_channels;
  }
  static TSR_INLINE long long outer_channels(const GroupsArgs& args) {
    return kTurned ? args.in_channels : args.out_channels;
  }

  // First channel of a chunk. The last one is moved back where that spares it masks.
  static TSR_INLINE long long first_channel(const GroupsArgs& args, long long chunk) {
    const long long o = chunk * kChannels, last = outer_channels(args) - kChannels;
    return !kTurned && last >= 0 ? least(o, last) : o;
  }

  // Of the columns that a tile of columns reads, the first one's distance from where the first column of the
  // tile meets tap 0; how many there are; and the column of the tile that column j meets with tap t, or -1.
  static constexpr int kFirst = kBackward ? -((kTaps - 1) * kDilation / kStride) : 0;
  static constexpr int columns_of(int tile) {
    return kBackward ? (tile - 1) / kStride - kFirst + 1 : (tile - 1) * kStride + (kTaps - 1) * kDilation + 1;
  }
  static constexpr int meets(int tile, int j, int t) {
    if (kBackward) {
      const int b = (j + kFirst) * kStride + t * kDilation;
      return b >= 0 && b < tile ? b : -1;
    }
    const int b = j - t * kDilation;
    return b >= 0 && b % kStride == 0 && b / kStride < tile ? b / kStride : -1;
  }
  // The same as a table, which unrolled loops read: compilers are several times as fast with them as with
  // bodies that are made for each column and tap.
  template <int kTile>
  struct Columns {
    static constexpr int kCount = columns_of(kTile);
    int met[kCount][kTaps];
    bool used[kCount];
    constexpr Columns() : met{}, used{} {
      for (int j = 0; j < kCount; ++j) {
        for (int t = 0; t < kTaps; ++t) {
          met[j][t] = meets(kTile, j, t);
          used[j] |= met[j][t] >= 0;
        }
      }
    }
    // The first column that meets tap t.
    constexpr int first(int t) const {
      int j = 0;
      while (j + 1 < kCount && met[j][t] < 0) ++j;
      return j;
    }
  };

  // acc += x * y in one instruction whose sum stays where it is, so that the compiler moves none.
  static TSR_INLINE void add_product(F& acc, F x, F y) {
#ifdef __AVX512F__
    asm("vfmadd231ps %2, %1, %0" : "+v"(acc) : "v"(x), "v"(y));
#else
    asm("vfmadd231ps %2, %1, %0" : "+x"(acc) : "x"(x), "x"(y));
#endif
  }

  // acc += x * w, of floats or of words. Floats are not passed off as words where registers are few: the
  // compiler would copy them.
  static TSR_INLINE void multiply(F& acc, F x, F w) {
    if constexpr (C::inst == Inst::fma && kFewRegisters) {
      F sum = acc;
      multiply_add<C::inst>(sum, x, w);
      acc = sum;
    } else {
      U sum = as_bits<L>(acc);
      multiply_add<C::inst>(sum, as_bits<L>(x), as_bits<L>(w));
      acc = as_float<L>(sum);
    }
  }

  // The lanes of one chunk of channels.
  struct Chunk {
    long long begin = 0;  // bytes from a pixel to what the first vector reads
    long long apart[V];   // and from there to what each one does
    Part part[V][kReads];
    U index[V];            // of the first channel of each group
    long long beyond = 0;  // elements that whole vectors read behind the last channel of a pixel

    TSR_INLINE Chunk(const GroupsArgs& args, long long chunk) {
      const long long o = first_channel(args, chunk), channels = inner_channels(args);
      if constexpr (kBlocked) return;
      each<V>([&](auto vi) __attribute__((always_inline)) {
        constexpr int v = decltype(vi)::value;
        const long long first = o + (kApart ? channel(v, 0) : v * kUsed), from = first / kOuter * kInner;
        // Vectors of no channels read those of the last group.
        apart[v] = (kSpread ? least(from, channels - kInner) : from) * kInSize;
        if (v == 0) begin = apart[0];
        apart[v] -= begin;
        if (kSpread || (kPairs && v % 2)) return;
        const long long live = channels - from > 0 ? channels - from : 0;
        constexpr int kPart = kPairs ? 2 * L : kRead;
        for (int i = 0; i < kReads; ++i) {
          const long long rest = live - i * kPart;
          part[v][i] = Part(rest > kPart ? kPart : rest > 0 ? rest : 0);
        }
        constexpr int kAll = kNarrow > 0 ? kNarrow / kInSize : kReads * kPart;
        if (!kShared || v == 0) beyond = most(beyond, from + kAll - channels);
        if constexpr (kChosen) {
          U u{};
          for (int i = 0; i < L; ++i)
            u[i] = static_cast<unsigned>(((first + i) / kOuter - first / kOuter) * kSteps) / kAtOnce * kNext;
          index[v] = u;
        }
      });
    }
  };

  // Bytes from what a chunk's first vector reads to what vector v does: constant where lanes take their own
  // channels.
  static constexpr bool kBeside = !kGrouped && !kBlocked;
  static TSR_INLINE long long offset(const Chunk& chunk, int v) {
    if (v == 0) return 0;
    return kBeside ? static_cast<long long>(v) * kUsed * kInner * kInSize : chunk.apart[v];
  }

#ifdef __AVX512BF16__
  // Even and odd channels as neighbouring bf16.
  static constexpr bool kJoins = kPairs && L == 16;
  static TSR_INLINE U join(F even, F odd) {
    U order, halves, words;
    TSR_UNROLL for (int i = 0; i < L; ++i) order[i] = static_cast<unsigned>(i | (L + i) << 16);
    asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(halves) : "v"(even), "v"(odd));
    asm("vpermw %1, %2, %0" : "=v"(words) : "v"(halves), "v"(order));
    return words;
  }
#else
  static constexpr bool kJoins = false;
#endif

  // Sums of neighbouring lanes, of two vectors side by side, or of one in the lower half of the lanes.
  static TSR_INLINE void fold(const F (&acc)[V], F (&sums)[kSums]) {
    static_assert(kFolds == 2);
    each<kSums>([&](auto si) __attribute__((always_inline)) {
      constexpr int v = decltype(si)::value * V / kSums, next = kSums == V ? v : v + 1;
      sums[si.value] = shuffle<HalfBlocks<2, false>, L>(acc[v], acc[next]) +
                       shuffle<HalfBlocks<2, true>, L>(acc[v], acc[next]);
    });
  }

  // Vectors of lanes in the order of channels.
  static TSR_INLINE void in_order(F (&x)[V]) {
    if constexpr (kPairs) {
      each<V / 2>([&](auto vi) __attribute__((always_inline)) {
        constexpr int v = 2 * decltype(vi)::value;
        const F even = x[v], odd = x[v + 1];
        x[v] = shuffle<InterleavedLanes<L, false>, L>(even, odd);
        x[v + 1] = shuffle<InterleavedLanes<L, true>, L>(even, odd);
      });
    }
  }
};

}  // namespace tsr
