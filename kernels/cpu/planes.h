// cpu_planes: a convolution with few channels whose vectors hold neighbouring pixels of one channel. Channels
// are copied apart, into planes with the zeros around them, and each phase of a stride to planes of its own:
// what a tap adds to the results is then one plane some places further on, whatever the channels, strides and
// edges. Places between the lines are computed with the others and left.
#pragma once

#include "cpu/convert.h"
#include "cpu/each.h"
#include "cpu/multiply.h"
#include "cpu/planes_abi.h"
#include "cpu/results.h"
#include "cpu/unpacked.h"

namespace tsr {

template <class C>
struct Planes {
  using E = Epilogue<C>;
  static constexpr int L = E::L, V = C::tile_n / L, M = C::tile_m;
  using F = typename Vec<L>::F;
  using U = typename Vec<L>::U;
  using H = typename Vec<L>::H;
  // The instruction adds products of pairs: of neighbouring channels, which planes keep together, or in a
  // gradient of neighbouring places.
  static constexpr bool kPairs = C::inst == Inst::dpbf16, kHalves = kPairs && C::gradient;
  static constexpr int kElement = kHalves ? 2 : 4;
  static constexpr Type kRead = C::gradient ? C::type_b : C::type_a;

  // Lanes of the mask take the next element each, or give it.
#ifdef __AVX512F__
  static constexpr bool kExpands = L == 16;
  static TSR_INLINE U expand(U x, unsigned mask) {
    asm("vpexpandd %0, %0%{%1%}%{z%}" : "+v"(x) : "Yk"(mask));
    return x;
  }
  static TSR_INLINE U compress(U x, unsigned mask) {
    asm("vpcompressd %0, %0%{%1%}%{z%}" : "+v"(x) : "Yk"(mask));
    return x;
  }
#else
  static constexpr bool kExpands = false;
  static TSR_INLINE U expand(U x, unsigned) { return x; }
  static TSR_INLINE U compress(U x, unsigned) { return x; }
#endif

  // Up to L neighbouring elements of a pixel, those of the operand that is copied as planes have them.
  template <Type kType>
  static TSR_INLINE U element(const char* from, int lanes) {
    if constexpr (kHalves) {
      const auto* p = reinterpret_cast<const unsigned short*>(from);
      return __builtin_convertvector(lanes == L ? load_whole<H>(p) : load_part(p, lanes, H{}), U);
    } else if constexpr (kPairs) {
      const auto* p = reinterpret_cast<const unsigned*>(from);
      return lanes == L ? load_whole<U>(p) : load_part(p, lanes, U{});
    } else {
      return as_bits<L>(load_float<L, kType>(from, lanes));
    }
  }
  static TSR_INLINE void place(char* to, int live, U x) {
    if constexpr (kHalves) {
      auto* p = reinterpret_cast<unsigned short*>(to);
      const H h = __builtin_convertvector(x, H);
      live == L ? store_whole(p, h) : store_part(p, live, h);
    } else {
      auto* p = reinterpret_cast<unsigned*>(to);
      live == L ? store_whole(p, x) : store_part(p, live, x);
    }
  }

  // What a vector of units of at most N elements, packed, is made of: N vectors of N slots a unit.
  template <int N>
  struct Slots {
    static constexpr int kUnits = L / N;  // of a vector
    static constexpr int at(int lane) { return lane % kUnits * N + lane / kUnits; }
  };
  template <int N>
  struct Units {
    static constexpr int at(int lane) { return lane % N * Slots<N>::kUnits + lane / N; }
  };
  // The first `lanes` slots of every N.
  template <int N>
  static TSR_INLINE unsigned live_slots(int lanes) {
    unsigned mask = 0;
    for (int i = 0; i < L; i += N) mask |= ((1u << lanes) - 1) << i;
    return mask;
  }

  // L units from `from` on, neighbours of `lanes` <= N elements, to planes; `live` of them.
  template <Type kType, int N>
  static TSR_INLINE void part_units(const char* from, char* to, const PlanesArgs& a, int live) {
    constexpr int kSize = kPairs && !kHalves ? 4 : bytes_of(kType), kUnits = Slots<N>::kUnits;
    const unsigned mask = live_slots<N>(a.lanes);
    U x[N];
    TSR_UNROLL for (int i = 0; i < N; ++i) {
      const long long elements = most(0, least(kUnits, live - i * kUnits)) * a.lanes;
      x[i] = expand(element<kType>(from + i * kUnits * a.lanes * kSize, static_cast<int>(elements)), mask);
    }
    transpose<L>(x);
    TSR_UNROLL for (int i = 0; i < N; ++i) {
      if (i >= a.lanes) break;
      place(to + i * a.plane_bytes, live, shuffle<Slots<N>, L>(x[i], x[i]));
    }
  }
  // The same for any units, of `lanes` <= L elements.
  template <Type kType>
  static TSR_INLINE void part_vectors(const char* from, char* to, const PlanesArgs& a, int live, int lanes) {
    U x[L];
    if (live == L) {
      TSR_UNROLL for (int i = 0; i < L; ++i) x[i] = element<kType>(from + i * a.unit_bytes, lanes);
    } else {
      TSR_UNROLL for (int i = 0; i < L; ++i) {
        x[i] = i < live ? element<kType>(from + i * a.unit_bytes, lanes) : U{};
      }
    }
    transpose<L>(x);
    TSR_UNROLL for (int i = 0; i < L; ++i) {
      if (i >= lanes) break;
      place(to + i * a.plane_bytes, live, x[i]);
    }
  }

  // The same of pairs of halves, of `words` <= L: each half to a plane of its own.
  static TSR_INLINE void part_pairs(const char* from, char* to, const PlanesArgs& a, int live, int words) {
    U x[L];
    TSR_UNROLL for (int i = 0; i < L; ++i) {
      const auto* p = reinterpret_cast<const unsigned*>(from + i * a.unit_bytes);
      x[i] = i >= live ? U{} : words == L ? load_whole<U>(p) : load_part(p, words, U{});
    }
    transpose<L>(x);
    TSR_UNROLL for (int i = 0; i < L; ++i) {
      if (i >= words) break;
      place(to + 2 * i * a.plane_bytes, live, x[i]);
      place(to + (2 * i + 1) * a.plane_bytes, live, x[i] >> 16);
    }
  }

  // Units of many elements are asked for ahead: memory that is read so many bytes apart the processor fetches
  // late.
  static constexpr long long kFetchedUnits = 4 * L;
  static TSR_INLINE void fetch(const char* from, long long unit_bytes, int bytes) {
    for (int i = 0; i < L; ++i, from += unit_bytes) {
      for (int b = 0; b < bytes; b += 64) __builtin_prefetch(from + b);
    }
  }

  template <Type kType>
  static __attribute__((noinline)) void copy(const PlanesArgs& a) {
    constexpr int kSize = kPairs && !kHalves ? 4 : bytes_of(kType);
    const bool packed = a.unit_bytes == a.lanes * kSize;
    const char* line = a.from;
    char* planes = a.planes;
    for (long long i = 0; i < a.lines; ++i, line += a.line_bytes, planes += a.plane_line_bytes) {
      const char* from = line;
      char* to = planes;
      for (long long j = 0; j < a.count; j += L, from += L * a.unit_bytes, to += L * kElement) {
        const int live = static_cast<int>(least(L, a.count - j));
        if (packed && a.lanes == 1) {
          place(to, live, element<kType>(from, live));
        } else if (kExpands && packed && a.lanes == 2) {
          part_units<kType, 2>(from, to, a, live);
        } else if (kExpands && packed && a.lanes <= 4) {
          part_units<kType, 4>(from, to, a, live);
        } else if (kExpands && packed && a.lanes <= 8) {
          part_units<kType, 8>(from, to, a, live);
        } else {
          fetch(from + kFetchedUnits * a.unit_bytes, a.unit_bytes, a.lanes * kSize);
          int l = 0;
          if constexpr (kHalves) {
            for (; l + 1 < a.lanes; l += 2 * L) {
              part_pairs(from + l * kSize, to + l * a.plane_bytes, a, live,
                         static_cast<int>(least(L, (a.lanes - l) / 2)));
            }
            l = least(l, a.lanes & ~1);
          }
          for (; l < a.lanes; l += L) {
            part_vectors<kType>(from + l * kSize, to + l * a.plane_bytes, a, live,
                                static_cast<int>(least(L, a.lanes - l)));
          }
        }
      }
    }
  }

  // The other way round, `lanes` <= N neighbours: floats behind those of `live` units may be written.
  template <int N>
  static TSR_INLINE void weave_units(const PlanesArgs& a, const char* from, float* to, int live, int lanes) {
    constexpr int kUnits = Slots<N>::kUnits;
    const unsigned mask = live_slots<N>(lanes);
    U x[N];
    TSR_UNROLL for (int i = 0; i < N; ++i) {
      x[i] = U{};
      if (i >= lanes) continue;
      x[i] = load_whole<U>(from + i * a.plane_bytes);
      x[i] = shuffle<Units<N>, L>(x[i], x[i]);
    }
    transpose<L>(x);
    TSR_UNROLL for (int i = 0; i < N; ++i) {
      if (i * kUnits >= live) break;
      store_whole(to + i * kUnits * lanes, compress(x[i], mask));
    }
  }

  // Planes can be read, and units of a line are written, a whole vector at a time: what lies behind a unit is
  // written after.
  static TSR_INLINE void weave(const PlanesArgs& a, const char* from, float* to, long long unit,
                               long long count, int lanes) {
    for (long long j = 0; j < count; j += L) {
      const int live = static_cast<int>(least(L, count - j));
      if (kExpands && unit == lanes && lanes <= 8) {
        const char* planes = from + j * 4;
        if (lanes == 2) {
          weave_units<2>(a, planes, to + j * 2, live, lanes);
        } else if (lanes <= 4) {
          weave_units<4>(a, planes, to + j * unit, live, lanes);
        } else {
          weave_units<8>(a, planes, to + j * unit, live, lanes);
        }
        continue;
      }
      U x[L];
      TSR_UNROLL for (int i = 0; i < L; ++i) {
        x[i] = i < lanes ? load_whole<U>(from + i * a.plane_bytes + j * 4) : U{};
      }
      transpose<L>(x);
      auto* line = reinterpret_cast<unsigned*>(to + j * unit);
      TSR_UNROLL for (int i = 0; i < L; ++i) {
        if (i >= live) break;
        lanes == L ? store_whole(line + i * unit, x[i]) : store_part(line + i * unit, lanes, x[i]);
      }
    }
  }

  static __attribute__((noinline)) void leave(const PlanesArgs& a) {
    const char* from = a.planes;
    const long long all = static_cast<long long>(a.residues) * a.lanes;
    long long row = a.row;
    for (long long i = 0; i < a.lines; ++i, from += a.plane_line_bytes, row += a.row_step) {
      if (!a.line) {
        line_results<C>(a.epilogue, reinterpret_cast<const float*>(from), row, a.count, a.col, 1,
                        a.flat_rows);
        continue;
      }
      if (all <= L) {
        weave(a, from, a.line, all, (a.count + a.residues - 1) / a.residues, static_cast<int>(all));
      } else {
        for (int r = 0; r < a.residues; ++r) {
          for (int l = 0; l < a.lanes; l += L) {
            weave(a, from + (r * static_cast<long long>(a.lanes) + l) * a.plane_bytes,
                  a.line + r * a.lanes + l, all, (a.count - r + a.residues - 1) / a.residues,
                  static_cast<int>(least(L, a.lanes - l)));
          }
        }
      }
      line_results<C>(a.epilogue, a.line, row, a.count, a.col, a.lanes, a.flat_rows);
    }
  }

  // A tile's products of one step: vectors of the shorter side stay in registers, those of the other come in
  // turn.
  template <class Left, class Right>
  static TSR_INLINE void step(U (&sum)[M][V], const Left& left, const Right& right) {
    if constexpr (M <= V) {
      U w[M];
      each<M>([&](auto m) __attribute__((always_inline)) {
        w[m.value] = left(m);
        hold(w[m.value]);
      });
      each<V>([&](auto v) __attribute__((always_inline)) {
        U x = right(v);
        if constexpr (M > 1) hold(x);
        each<M>([&](auto m) __attribute__((always_inline)) {
          multiply_add<C::inst>(sum[m.value][v.value], x, w[m.value]);
        });
      });
    } else {
      U x[V];
      each<V>([&](auto v) __attribute__((always_inline)) {
        x[v.value] = right(v);
        hold(x[v.value]);
      });
      each<M>([&](auto m) __attribute__((always_inline)) {
        U w = left(m);
        if constexpr (V > 1) hold(w);
        each<V>([&](auto v) __attribute__((always_inline)) {
          multiply_add<C::inst>(sum[m.value][v.value], x[v.value], w);
        });
      });
    }
  }

  // A tile of M outputs x V vectors of places.
  static __attribute__((noinline)) void tile(const PlanesArgs& a, const char* read, const unsigned* filter,
                                             char* to, int outputs) {
    U sum[M][V];
    each<M * V>([&](auto i) __attribute__((always_inline)) { sum[i.value / V][i.value % V] = U{}; });
    for (long long t = 0; t < a.terms; ++t, filter += M) {
      const char* from = read + a.offsets[t];
      step(
          sum, [&](auto m) __attribute__((always_inline)) { return U{} + filter[m.value]; },
          [&](auto v) __attribute__((always_inline)) { return load_whole<U>(from + v.value * L * 4); });
    }
    each<M>([&](auto m) __attribute__((always_inline)) {
      if (m.value >= outputs) return;
      each<V>([&](auto v) __attribute__((always_inline)) {
        store_whole(to + m.value * a.plane_bytes + v.value * L * 4, sum[m.value][v.value]);
      });
    });
  }

  static TSR_INLINE void sums(const PlanesArgs& a) {
    for (long long f = 0; f < a.flat; f += V * L) {
      const unsigned* filter = a.filter;
      for (long long o = 0; o < a.outer; o += M, filter += a.terms * M) {
        tile(a, a.read + f * 4, filter, a.walked + o * a.plane_bytes + f * 4,
             static_cast<int>(least(M, a.outer - o)));
      }
    }
  }

  // Outputs behind the last are the last again, and terms the first: their sums are of no use.
  static __attribute__((noinline)) void gradient_tile(const PlanesArgs& a, long long o,
                                                      const long long* offsets, float* sums) {
    U sum[M][V];
    each<M * V>([&](auto i) __attribute__((always_inline)) {
      sum[i.value / V][i.value % V] = load_whole<U>(sums + i.value * L);
    });
    const char* read[V];
    each<V>([&](auto v) __attribute__((always_inline)) { read[v.value] = a.read + offsets[v.value]; });
    const char* walked[M];
    each<M>([&](auto m) __attribute__((always_inline)) {
      walked[m.value] = a.walked + least(o + m.value, a.outer - 1) * a.plane_bytes;
    });
    const long long bytes = a.flat * kElement;
    for (long long f = 0; f < bytes; f += L * 4) {
      step(
          sum, [&](auto m) __attribute__((always_inline)) { return load_whole<U>(walked[m.value] + f); },
          [&](auto v) __attribute__((always_inline)) { return load_whole<U>(read[v.value] + f); });
    }
    each<M * V>([&](auto i) __attribute__((always_inline)) {
      store_whole(sums + i.value * L, sum[i.value / V][i.value % V]);
    });
  }

  static TSR_INLINE void gradient(const PlanesArgs& a) {
    float* sums = a.sums;
    for (long long o = 0; o < a.outer; o += M) {
      for (long long t = 0; t < a.terms; t += V, sums += M * V * L) gradient_tile(a, o, a.offsets + t, sums);
    }
  }

  static TSR_INLINE void finish(const PlanesArgs& a) {
    const long long tiles = (a.terms + V - 1) / V;
    const float* row = a.sums + (a.outer / M * tiles * M + a.outer % M) * V * L;
    for (long long t = 0; t < a.terms; t += L) {
      const auto leaf = [&](int i) __attribute__((always_inline)) {
        const long long at = least(t + i, a.terms - 1);
        const float* from = row + (at / V * M * V + at % V) * L;
        F sum = load_whole<F>(from);
        for (int p = 1; p < a.parts; ++p) sum += load_whole<F>(from + p * a.part);
        return sum;
      };
      const F x = sum_lanes<L, L, 0, L>(leaf);
      E::store(as_bits<L>(x), a.epilogue, a.row, t, static_cast<int>(least(L, a.terms - t)));
    }
  }

  static TSR_INLINE void run(const PlanesArgs& a) {
    switch (a.phase) {
      case PlanesPhase::copy: return copy<kRead>(a);
      case PlanesPhase::copy_walked:
        if constexpr (C::gradient) copy<C::type_a>(a);
        return;
      case PlanesPhase::sums:
        if constexpr (!C::gradient) sums(a);
        return;
      case PlanesPhase::leave:
        if constexpr (!C::gradient) leave(a);
        return;
      case PlanesPhase::gradient:
        if constexpr (C::gradient) gradient(a);
        return;
      case PlanesPhase::finish:
        if constexpr (C::gradient) finish(a);
        return;
    }
  }
};

template <class Config>
TSR_INLINE void cpu_planes(const void* args) {
  Planes<Config>::run(*static_cast<const PlanesArgs*>(args));
}

}  // namespace tsr
