// cpu_winograd: a convolution by minimal filtering F(2,3) along every axis of three taps. Tiles of the images
// are transformed, vectors along channels, into rows of one matrix for each point; each is multiplied by that
// point's panel of the transformed filter; what the products of a tile add up to are two neighbouring results
// along each axis.
#pragma once

#include "cpu/product.h"
#include "cpu/shuffle.h"
#include "cpu/winograd_tiles.h"

namespace tsr {

template <class C>
struct Winograd {
  using E = Epilogue<C>;
  static constexpr int L = E::L, V = C::tile_n / L;
  using F = typename Vec<L>::F;
  using U = typename Vec<L>::U;
  template <class Transform>
  using Nest = WinogradNest<Transform, C::taps_d, C::taps_h, C::taps_w>;
  using Input = WinogradTransform<L, C::type_a, WinogradInput, C>;
  using Filter = Nest<WinogradFilter>;
  using Output = Nest<WinogradOutput>;
  static constexpr Type kFilter = C::type_b;
  static constexpr int kSize = bytes_of(kFilter);
  static constexpr int kTaps = C::taps_d * C::taps_h * C::taps_w, kPoints = Input::Nest::kOut;
  static constexpr int kOutW = winograd_tile(C::taps_w), kOutH = winograd_tile(C::taps_h),
                       kOutD = winograd_tile(C::taps_d);
  using Tile = WinogradTile;

  // ---- the filter

  static TSR_INLINE void filter_points(const F (&taps)[kTaps], char* to, long long point_bytes) {
    F points[kPoints];
    Filter::apply(taps, points);
    TSR_UNROLL for (int p = 0; p < kPoints; ++p) store_whole(to + p * point_bytes, as_bits<L>(points[p]));
  }

  static TSR_INLINE long long tap_at(const WinogradArgs& a, int tap) {
    return tap / (C::taps_h * C::taps_w) * a.tiles.axes[0].tap +
           tap / C::taps_w % C::taps_h * a.tiles.axes[1].tap + tap % C::taps_w * a.tiles.axes[2].tap;
  }

  // A panel of columns, `live` of them, that are neighbours in memory.
  static __attribute__((noinline)) void filter_along(const WinogradArgs& a, const char* from, long long live,
                                                     char* to) {
    for (long long c = 0; c < a.channels; ++c, from += a.filter_channel) {
      for (int v = 0; v < V; ++v, to += 4 * L) {
        const long long left = live - v * L;
        const Part part(left < 0 ? 0 : left < L ? left : L);
        const char* vector = from + (left > 0 ? v * kSize * L : 0);
        F taps[kTaps];
        TSR_UNROLL for (int t = 0; t < kTaps; ++t) taps[t] =
            load_floats<L, kFilter>(vector + tap_at(a, t), part);
        filter_points(taps, to, a.point_bytes);
      }
    }
  }

  // One vector of columns whose channels are neighbours: they are turned, L channels at a time.
  static __attribute__((noinline)) void filter_across(const WinogradArgs& a, const char* from, long long live,
                                                      char* to) {
    for (long long c0 = 0; c0 < a.channels; c0 += L, from += kSize * L) {
      const int count = static_cast<int>(a.channels - c0 < L ? a.channels - c0 : L);
      const Part part(count);
      alignas(64) float turned[kTaps][L][L];
      for (int t = 0; t < kTaps; ++t) {
        const char* tap = from + tap_at(a, t);
        U block[L];
        TSR_UNROLL for (int i = 0; i < L; ++i) {
          block[i] = i < live ? as_bits<L>(load_floats<L, kFilter>(tap + i * a.filter_column, part)) : U{};
        }
        transpose<L>(block);
        TSR_UNROLL for (int i = 0; i < L; ++i) store_whole(turned[t][i], block[i]);
      }
      for (int c = 0; c < count; ++c, to += C::tile_n * 4) {
        F taps[kTaps];
        TSR_UNROLL for (int t = 0; t < kTaps; ++t) taps[t] = load_whole<F>(turned[t][c]);
        filter_points(taps, to, a.point_bytes);
      }
    }
  }

  static TSR_INLINE void filter(const WinogradArgs& a) {
    char* panel = a.panels;
    for (long long n = a.panel_begin * C::tile_n; n < a.panel_end * C::tile_n; n += C::tile_n) {
      const char* from = a.filter + n * a.filter_column;
      if (a.filter_column == kSize) {
        filter_along(a, from, a.columns - n, panel);
      } else {
        for (int v = 0; v < V; ++v)
          filter_across(a, from + v * L * a.filter_column, a.columns - n - v * L, panel + v * 4 * L);
      }
      panel += a.panel_bytes;
    }
  }

  // ---- the products

  // All points of one panel of a group, `group` counted from the first. Rows that fill up the only register
  // tile hold anything: each row of sums comes from one row of tiles. So do columns that fill up a vector,
  // which are the next group's, whose products come later.
  static TSR_INLINE void multiply(const WinogradArgs& a, const char* panel, long long group, long long cols) {
    const long long tiles = a.tiles.end - a.tiles.begin;
    BareProducts<FloatOperands<C>> product(tiles < C::tile_m ? C::tile_m : tiles, a.tiles.row, a.channels,
                                           a.sums_row);
    for (int point = 0; point < kPoints; ++point) {
      const char* of_point = panel + point * a.point_bytes;
      product.multiply(a.tiles.to + point * a.tiles.point + group * a.channels * 4, of_point,
                       point + 1 < kPoints ? of_point + a.point_bytes : nullptr, cols,
                       a.sums + point * a.sums_point + group * a.columns * 4);
    }
  }

  // ---- the results

  static TSR_INLINE void results(const WinogradArgs& a, const Tile& tile, const char* sums, long long col,
                                 int live) {
    F x[kPoints], y[Output::kOut];
    TSR_UNROLL for (int p = 0; p < kPoints; ++p) x[p] = load_whole<F>(sums + p * a.sums_point);
    Output::apply(x, y);
    store_results(a, tile, y, col, live);
  }

  static TSR_INLINE void store_results(const WinogradArgs& a, const Tile& tile, const F (&y)[Output::kOut],
                                       long long col, int live) {
    const long long d0 = tile.at[0] * kOutD, h0 = tile.at[1] * kOutH, w0 = tile.at[2] * kOutW;
    TSR_UNROLL for (int d = 0; d < kOutD; ++d) {
      if (d > 0 && d0 + d >= a.tiles.axes[0].positions) continue;
      TSR_UNROLL for (int h = 0; h < kOutH; ++h) {
        if (h > 0 && h0 + h >= a.tiles.axes[1].positions) continue;
        const long long row =
            ((tile.image * a.tiles.axes[0].positions + d0 + d) * a.tiles.axes[1].positions + h0 + h) *
                a.tiles.axes[2].positions +
            w0;
        TSR_UNROLL for (int w = 0; w < kOutW; ++w) {
          if (w > 0 && w0 + w >= a.tiles.axes[2].positions) continue;
          E::store(as_bits<L>(y[(d * kOutH + h) * kOutW + w]), a.epilogue, row + w, col, live);
        }
      }
    }
  }

  static __attribute__((noinline)) void transform_results(const WinogradArgs& a, long long n,
                                                          long long cols) {
    Tile tile(a.tiles.axes, a.tiles.begin);
    const char* sums = a.sums;
    for (long long t = a.tiles.begin; t < a.tiles.end; ++t, tile.next(a.tiles.axes), sums += a.sums_row) {
      long long j = 0;
      for (; j + L <= cols; j += L) results(a, tile, sums + j * 4, n + j, L);
      if (j < cols) results(a, tile, sums + j * 4, n + j, static_cast<int>(cols - j));
    }
  }

  // A zero alpha hides what the operands hold.
  static __attribute__((noinline)) void without_product(const WinogradArgs& a) {
    const long long columns = a.groups * a.columns, last = a.panel_end * C::tile_n,
                    end = a.groups > 1 || last > columns ? columns : last;
    Tile tile(a.tiles.axes, a.tiles.begin);
    for (long long t = a.tiles.begin; t < a.tiles.end; ++t, tile.next(a.tiles.axes)) {
      for (long long n = a.panel_begin * C::tile_n; n < end; n += L)
        store_results(a, tile, {}, n, static_cast<int>(end - n < L ? end - n : L));
    }
  }

  static TSR_INLINE void run(const WinogradArgs& a) {
    if (a.phase == WinogradPhase::filter) return filter(a);
    if (a.epilogue.alpha == 0.0f) return without_product(a);
    Input::run(a.tiles);
    const char* panel = a.panels;
    if (a.groups > 1) {
      for (long long g = 0; g < a.groups; ++g, panel += a.panel_bytes) multiply(a, panel, g, a.columns);
      return transform_results(a, 0, a.groups * a.columns);
    }
    for (long long i = a.panel_begin; i < a.panel_end; ++i, panel += a.panel_bytes) {
      const long long n = i * C::tile_n, cols = a.columns - n < C::tile_n ? a.columns - n : C::tile_n;
      multiply(a, panel, 0, cols);
      transform_results(a, n, cols);
    }
  }
};

template <class Config>
TSR_INLINE void cpu_winograd(const void* args) {
  Winograd<Config>::run(*static_cast<const WinogradArgs*>(args));
}

}  // namespace tsr
