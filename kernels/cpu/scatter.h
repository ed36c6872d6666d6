// cpu_scatter: a convolution walked from the coordinates that it reads instead of the positions it computes.
// A coordinate's channels times the filter, all taps at once, fill vectors however few columns C has; what
// they give is added to lines of sums, runs of neighbouring taps at a time.
#pragma once

#include "cpu/product.h"
#include "cpu/results.h"
#include "cpu/scatter_abi.h"
#include "cpu/shuffle.h"

namespace tsr {

template <class C>
struct Scatter {
  using E = Epilogue<C>;
  static constexpr int L = E::L;
  using F = typename Vec<L>::F;

  static TSR_INLINE void products(const ScatterArgs& a) {
    BareProducts<C> product(a.count, a.a_row_bytes, a.steps, a.product_bytes);
    const char* panel = a.panels;
    for (long long n = 0; n < a.columns; n += C::tile_n, panel += a.panel_bytes) {
      const long long left = a.columns - n;
      const bool last = left <= C::tile_n;
      product.multiply(a.a, panel, last ? nullptr : panel + a.panel_bytes, last ? left : C::tile_n,
                       a.products + n * 4);
    }
  }

  static TSR_INLINE void add_vector(float* to, F x) { store_whole(to, as_bits<L>(load_whole<F>(to) + x)); }

  // As many coordinates as add to whole vectors of sums are added up in registers first: parts of a vector
  // that one of them stores could not be read by the next until they have left the store buffer.
  static constexpr int divisor(int x, int y) { return y == 0 ? x : divisor(y, x % y); }
  static constexpr int kVectors = (C::run + L - 1) / L, kUnit = L / divisor(C::advance, L),
                       kLeave = kUnit * C::advance / L,
                       kReach = ((kUnit - 1) * C::advance + C::run + L - 1) / L,
                       kWindow = kReach > kLeave ? kReach : kLeave;

  // The lanes of `low`, then `high`, from lane kBy on.
  template <int kBy>
  struct From {
    static constexpr int at(int lane) { return lane + kBy; }
  };
  template <int kBy>
  static TSR_INLINE F moved(F low, F high) {
    return shuffle<From<kBy>, L>(low, high);
  }

  // A run to the sums from kAt on.
  template <int kAt>
  static TSR_INLINE void place(F (&sums)[kWindow], const F (&x)[kVectors]) {
    constexpr int kFirst = kAt / L, kBy = kAt % L;
    if constexpr (kBy == 0) {
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) sums[kFirst + v] += x[v];
    } else {
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) sums[kFirst + v] += moved<L - kBy>(v > 0 ? x[v - 1] : F{}, x[v]);
      if constexpr (kBy + C::run > kVectors * L)
        sums[kFirst + kVectors] += moved<L - kBy>(x[kVectors - 1], F{});
    }
  }

  // The first `count` coordinates of a unit, from the kAt-th on.
  template <int kAt>
  static TSR_INLINE void unit(F (&sums)[kWindow], const char* from, long long product_bytes, const Part& rest,
                              long long count) {
    if constexpr (kAt < kUnit) {
      if (kAt >= count) return;
      F x[kVectors];
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) {
        const bool whole = (v + 1) * L <= C::run;
        x[v] = whole ? load_whole<F>(from + v * L * 4) : load_floats<L, Type::f32>(from + v * L * 4, rest);
      }
      place<kAt * C::advance>(sums, x);
      unit<kAt + 1>(sums, from + product_bytes, product_bytes, rest, count);
    }
  }

  static TSR_INLINE void add_run(const ScatterArgs& a, const ScatterRun& run) {
    const Part rest(C::run % L);
    const char* from = a.products + run.column * 4;
    float* to = run.to;
    F sums[kWindow] = {};
    long long left = a.count;
    for (; left >= kUnit; left -= kUnit) {
      unit<0>(sums, from, a.product_bytes, rest, kUnit);
      from += kUnit * a.product_bytes;
#pragma GCC unroll 16
      for (int v = 0; v < kLeave; ++v, to += L) add_vector(to, sums[v]);
#pragma GCC unroll 16
      for (int v = 0; v < kWindow; ++v) sums[v] = v + kLeave < kWindow ? sums[v + kLeave] : F{};
    }
    unit<0>(sums, from, a.product_bytes, rest, left);
#pragma GCC unroll 16
    for (int v = 0; v < kWindow; ++v) add_vector(to + v * L, sums[v]);
  }

  static TSR_INLINE void add(const ScatterArgs& a) {
    for (long long r = 0; r < a.run_count; ++r) add_run(a, a.runs[r]);
  }

  static TSR_INLINE void run(const ScatterArgs& a) {
    if (a.phase == ScatterPhase::products) return products(a);
    if (a.phase == ScatterPhase::add) return add(a);
    line_results<C>(a.epilogue, a.line, a.row, a.count, 0, a.cols, a.flat);
  }
};

template <class Config>
TSR_INLINE void cpu_scatter(const void* args) {
  Scatter<Config>::run(*static_cast<const ScatterArgs*>(args));
}

}  // namespace tsr
