// How the channels of a pixel come into the lanes of cpu_groups: as they lie, chosen by an index, or one in
// all lanes; of bf16 as floats, or two neighbours at once.
#pragma once

#include "cpu/convert.h"
#include "cpu/groups_math.h"

namespace tsr {

template <class C>
struct GroupsLoad {
  using M = GroupsMath<C>;
  using F = typename M::F;
  using U = typename M::U;
  using I = typename M::I;
  static constexpr int L = M::L, V = M::V;

  // Each lane from the four that it is one of.
  static TSR_INLINE F choose_in_place(F x, U index) {
    F out;
    asm("vpermilps %2, %1, %0" : "=x"(out) : "x"(x), "x"(index));
    return out;
  }
  static TSR_INLINE F choose(F x, U index) {
    F out;
    if constexpr (M::kInPlace) return choose_in_place(x, index);
#ifdef __AVX512F__
    if constexpr (L == 16) {
      asm("vpermps %1, %2, %0" : "=v"(out) : "v"(x), "v"(index));
      return out;
    } else
#endif
    {
      asm("vpermps %1, %2, %0" : "=x"(out) : "x"(x), "x"(index));
      return out;
    }
  }
  static TSR_INLINE F choose(F x, F y, U index) {
#ifdef __AVX512F__
    if constexpr (L == 16) {
      asm("vpermt2ps %2, %1, %0" : "+v"(x) : "v"(index), "v"(y));
      return x;
    } else
#endif
    {
      return select<L>((I)(index > static_cast<unsigned>(L - 1)), choose(y, index), choose(x, index));
    }
  }

#ifdef __AVX512BW__
  // Of one or two vectors of bf16, the element that the upper half of each index says, as a float.
  static constexpr unsigned kUpper = 0xaaaaaaaau;
  static TSR_INLINE F choose_halves(U x, U index) {
    F out;
    asm("vpermw %1, %2, %0%{%3%}%{z%}" : "=v"(out) : "v"(x), "v"(index), "Yk"(kUpper));
    return out;
  }
  static TSR_INLINE F choose_halves(U x, U y, U index) {
    asm("vpermt2w %2, %1, %0%{%3%}%{z%}" : "+v"(x) : "v"(index), "v"(y), "Yk"(kUpper));
    return as_float<L>(x);
  }
  // Of three or four vectors.
  static TSR_INLINE F choose(F x, F y, F z, U index) {
    return upper(choose(x, y, index), choose(z, index), index);
  }
  static TSR_INLINE F choose(F x, F y, F z, F u, U index) {
    return upper(choose(x, y, index), choose(z, u, index), index);
  }
  static TSR_INLINE F upper(F low, F high, U index) {
    unsigned short mask;
    asm("vptestmd %1, %2, %0" : "=Yk"(mask) : "v"(index), "v"(U{} + static_cast<unsigned>(2 * L)));
    asm("vmovaps %2, %0%{%1%}" : "+v"(low) : "Yk"(mask), "v"(high));
    return low;
  }
#endif

  // Up to L elements as floats, or words as they are. A mask costs the ports of the arithmetic something.
  template <Type kType, bool kWhole>
  static TSR_INLINE F floats(const char* p, Part part) {
    if constexpr (M::kDot) {
      return kWhole ? load_whole<F>(p) : load_copy16<F>(p, part);
    } else if constexpr (kWhole) {
      return load_float<L, kType>(p, L);
    } else {
      return load_floats<L, kType>(p, part);
    }
  }

  // The elements, or words, that lanes of a vector choose from, as they lie in memory.
  template <bool kWhole>
  static TSR_INLINE U choices(const char* p, Part part) {
    if constexpr (!kWhole) {
      return load_copy16<U>(p, part);
    } else if constexpr (M::kNarrow == 0) {
      return load_whole<U>(p);
    } else {
      return load_low<M::kNarrow, U>(p);
    }
  }

  // One element in all lanes.
  template <Type kType>
  static TSR_INLINE F spread(const char* p) {
    if constexpr (kType == Type::f32) {
      typedef float __attribute__((may_alias, aligned(1))) Unaligned;
      return splat<L>(*reinterpret_cast<const Unaligned*>(p));
    } else if constexpr (kType == Type::bf16) {
      return as_float<L>(spread_words<U>(p) << 16);
    } else {
      static_assert(kType == Type::f16);
      return half_to_float(spread_words<typename Vec<L>::H>(p));
    }
  }
  // Two neighbours of 16 bits.
  static TSR_INLINE F spread_word(const char* p) {
    typedef unsigned __attribute__((may_alias, aligned(1))) Unaligned;
    U u = *reinterpret_cast<const Unaligned*>(p) - U{};
    hold(u);
    return as_float<L>(u);
  }
  template <class T>
  static TSR_INLINE T spread_words(const char* p) {
    struct __attribute__((packed, may_alias)) Word {
      unsigned short bits;
    };
    T v;
#ifdef __AVX512BW__
    asm("vpbroadcastw %1, %0" : "=v"(v) : "m"(*reinterpret_cast<const Word*>(p)));
#else
    asm("vpbroadcastw %1, %0" : "=x"(v) : "m"(*reinterpret_cast<const Word*>(p)));
#endif
    return v;
  }

  // Two neighbours of 32 bits, in every two lanes.
  static TSR_INLINE F spread_two_words(const char* p) {
    typedef unsigned long long __attribute__((may_alias, aligned(1))) Unaligned;
    typedef unsigned long long __attribute__((vector_size(L * 4))) Twos;
    F x = reinterpret_cast<F>(*reinterpret_cast<const Unaligned*>(p) - Twos{});
    hold(x);
    return x;
  }

  // As few as fit 128 bits, in both of a vector's.
  static TSR_INLINE F repeated(const char* p) {
    static_assert(M::kRepeats);
    if constexpr (M::kNarrow == 8) return spread_two_words(p);
    F x;
    asm("vbroadcastf128 %1, %0" : "=x"(x) : "m"(memory_at<16>(p)));
    return x;
  }

  // Words of two bf16 as floats.
  static TSR_INLINE void split(F words, F& first, F& second) {
    first = as_float<L>(as_bits<L>(words) << 16);
    second = as_float<L>(as_bits<L>(words) & 0xffff0000u);
  }

  // Two neighbouring channels of bf16, each in all lanes of the vectors of a group.
  static TSR_INLINE void spread_two(F (&channels)[2][V], const char* p, const typename M::Chunk& chunk) {
    each<V>([&](auto vi) __attribute__((always_inline)) {
      constexpr int v = decltype(vi)::value;
      if constexpr (M::kShared && v > 0) {
        each<2>([&](auto c) __attribute__((always_inline)) { channels[c.value][v] = channels[c.value][0]; });
      } else {
        split(spread_word(p + M::offset(chunk, v)), channels[0][v], channels[1][v]);
      }
    });
  }

  // Vector v of a pixel, `index` saying which channel of each group; words of two channels are not split.
  template <bool kWhole, int v>
  static TSR_INLINE F vector(const char* p, const typename M::Chunk& chunk, U index) {
    const char* from = p + M::offset(chunk, v);
    F x;
    if constexpr (M::kAlike) {
      if constexpr (M::kFolds == 2) return spread_two_words(from);
      if constexpr (M::kDot) return spread_word(from);
      x = spread<M::kIn>(from);
    } else {
      const Part(&part)[M::kReads] = chunk.part[v];
      if constexpr (M::kHalves) {
        const auto read = [&](int i) __attribute__((always_inline)) {
          return choices<kWhole>(from + i * M::kBytes, part[i]);
        };
        if constexpr (M::kReads == 1) {
          x = choose_halves(read(0), index);
        } else {
          x = choose_halves(read(0), read(1), index);
        }
      } else {
        const auto read = [&](int i) __attribute__((always_inline)) {
          if constexpr (M::kNarrow > 0 && kWhole) return as_float<L>(choices<true>(from, part[i]));
          return floats<M::kIn, kWhole>(from + i * M::kBytes, part[i]);
        };
        if constexpr (!M::kChosen) {
          x = read(0);
        } else if constexpr (M::kRepeats && kWhole) {
          x = choose_in_place(repeated(from), index);
        } else if constexpr (M::kReads == 1) {
          x = choose(read(0), index);
        } else if constexpr (M::kReads == 2) {
          x = choose(read(0), read(1), index);
        } else if constexpr (M::kReads == 3) {
          x = choose(read(0), read(1), read(2), index);
        } else {
          x = choose(read(0), read(1), read(2), read(3), index);
        }
      }
    }
    hold(x);
    return x;
  }

  // The vectors of one pixel, `begin` behind its first channel; `index` says which channel of each group.
  template <bool kWhole>
  static TSR_INLINE void load(F (*channels)[V], const char* p, const typename M::Chunk& chunk,
                              const U (&index)[V]) {
    F(&x)[V] = channels[0];
    each<V>([&](auto vi) __attribute__((always_inline)) {
      constexpr int v = decltype(vi)::value;
      if constexpr (M::kWords) {
        if constexpr (M::kShared && v > 0) {
          each<2>([&](auto c)
                      __attribute__((always_inline)) { channels[c.value][v] = channels[c.value][0]; });
        } else {
          const U u = choices<kWhole>(p + M::offset(chunk, v), chunk.part[v][0]);
          split(choose(as_float<L>(u), index[v]), channels[0][v], channels[1][v]);
        }
      } else if constexpr (M::kSpread && M::as_before(v)) {
        each<M::kAtOnce>([&](auto c) __attribute__((always_inline)) {
          channels[c.value][v] = channels[c.value][v - 1];
        });
      } else if constexpr (M::kAlike && M::kAtOnce == 2) {
        split(spread_word(p + M::offset(chunk, v)), channels[0][v], channels[1][v]);
      } else if constexpr (M::kPairs) {
        if constexpr (v % 2 == 0) {
          const U u = kWhole ? load_whole<U>(p + M::offset(chunk, v))
                             : load_copy16<U>(p + M::offset(chunk, v), chunk.part[v][0]);
          split(as_float<L>(u), x[v], x[v + 1]);
        }
      } else if constexpr (M::kShared && v > 0) {
        x[v] = x[0];
      } else {
        x[v] = vector<kWhole, v>(p, chunk, index[v]);
      }
    });
  }
};

}  // namespace tsr
