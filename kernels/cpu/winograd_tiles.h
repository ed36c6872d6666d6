// Tiles of images, transformed for minimal filtering: vectors along channels, one row for each tile in a
// matrix of each point.
#pragma once

#include "cpu/convert.h"
#include "cpu/lines.h"
#include "cpu/winograd_abi.h"
#include "cpu/winograd_transform.h"

namespace tsr {

// A tile: image and index along each axis.
struct WinogradTile {
  long long image, at[3];
  TSR_INLINE WinogradTile(const WinogradAxis (&axes)[3], long long tile) {
#pragma GCC unroll 1
    for (int i = 2; i >= 0; --i) {
      at[i] = tile % axes[i].tiles;
      tile /= axes[i].tiles;
    }
    image = tile;
  }
  TSR_INLINE void next(const WinogradAxis (&axes)[3]) {
    if (++at[2] < axes[2].tiles) return;
    at[2] = 0;
    if (++at[1] < axes[1].tiles) return;
    at[1] = 0;
    if (++at[0] < axes[0].tiles) return;
    at[0] = 0;
    ++image;
  }
};

// Coordinates that a tile takes along an axis of the filter.
constexpr int winograd_tile(int taps) { return taps > 1 ? 2 : 1; }

// `Transform` of tiles of kType; C::taps_d, taps_h and taps_w say along which axes.
template <int L, Type kType, class Transform, class C>
struct WinogradTransform {
  static constexpr int kSize = bytes_of(kType);
  using F = typename Vec<L>::F;
  using Nest = WinogradNest<Transform, C::taps_d, C::taps_h, C::taps_w>;
  static constexpr int kReadD = Nest::in(C::taps_d), kReadH = Nest::in(C::taps_h),
                       kReadW = Nest::in(C::taps_w);
  static constexpr int kStepD = winograd_tile(C::taps_d), kStepH = winograd_tile(C::taps_h),
                       kStepW = winograd_tile(C::taps_w);

  static TSR_INLINE bool inside(long long x, const WinogradAxis& a) { return x >= 0 && x < a.size; }

  // Where the coordinates of a tile lie.
  static TSR_INLINE void point_at(const WinogradTiles& a, const WinogradTile& tile,
                                  const char* (&table)[Nest::kIn]) {
    const char* zeros = reinterpret_cast<const char*>(a.zeros);
    const char* image = a.in + tile.image * a.image_bytes;
    const long long d0 = tile.at[0] * kStepD + a.axes[0].shift, h0 = tile.at[1] * kStepH + a.axes[1].shift,
                    w0 = tile.at[2] * kStepW + a.axes[2].shift;
    bool w_inside[kReadW];
    TSR_UNROLL for (int w = 0; w < kReadW; ++w) w_inside[w] = inside(w0 + w, a.axes[2]);
    TSR_UNROLL for (int d = 0; d < kReadD; ++d) {
      TSR_UNROLL for (int h = 0; h < kReadH; ++h) {
        const bool line_inside = inside(d0 + d, a.axes[0]) && inside(h0 + h, a.axes[1]);
        const char* line =
            image + (d0 + d) * a.axes[0].stride + (h0 + h) * a.axes[1].stride + w0 * a.axes[2].stride;
        TSR_UNROLL for (int w = 0; w < kReadW; ++w) {
          table[(d * kReadH + h) * kReadW + w] =
              line_inside && w_inside[w] ? line + w * a.axes[2].stride : zeros;
        }
      }
    }
  }

  // Asks for what the next line of tiles reads and this one does not. Behind the last line of an image lies
  // the next image.
  static TSR_INLINE void fetch_below(const WinogradTiles& a, const WinogradTile& tile) {
    const char* image = a.in + tile.image * a.image_bytes;
    const long long d0 = tile.at[0] * kStepD + a.axes[0].shift + kReadD - kStepD,
                    h0 = tile.at[1] * kStepH + a.axes[1].shift + kReadH,
                    w0 = tile.at[2] * kStepW + a.axes[2].shift + kReadW - kStepW;
    const char* corner = image + d0 * a.axes[0].stride + h0 * a.axes[1].stride + w0 * a.axes[2].stride;
    TSR_UNROLL for (int d = 0; d < kStepD; ++d) {
      TSR_UNROLL for (int h = 0; h < kStepH; ++h) {
        TSR_UNROLL for (int w = 0; w < kStepW; ++w) {
          const char* pixel = corner + d * a.axes[0].stride + h * a.axes[1].stride + w * a.axes[2].stride;
          for (long long i = 0; i < a.channels * kSize; i += kLineBytes) __builtin_prefetch(pixel + i);
        }
      }
    }
  }

  template <class Load>
  static TSR_INLINE void transform(const char* const (&table)[Nest::kIn], char* to, long long point_bytes,
                                   Load load) {
    F x[Nest::kIn], y[Nest::kOut];
    TSR_UNROLL for (int i = 0; i < Nest::kIn; ++i) x[i] = load(table[i]);
    Nest::apply(x, y);
    TSR_UNROLL for (int p = 0; p < Nest::kOut; ++p) store_whole(to + p * point_bytes, as_bits<L>(y[p]));
  }

  static __attribute__((noinline)) void run(const WinogradTiles& a) {
    WinogradTile tile(a.axes, a.begin);
    const long long whole = a.channels / L * L;
    const Part rest(a.channels - whole);
    char* to = a.to;
    for (long long t = a.begin; t < a.end; ++t, tile.next(a.axes), to += a.row) {
      const char* table[Nest::kIn];
      point_at(a, tile, table);
      fetch_below(a, tile);
      for (long long c = 0; c < whole; c += L) {
        transform(
            table, to + c * 4, a.point, [&](const char* p) __attribute__((always_inline)) {
              return load_float<L, kType>(p + c * kSize, L);
            });
      }
      if (whole == a.channels) continue;
      transform(
          table, to + whole * 4, a.point, [&](const char* p) __attribute__((always_inline)) {
            return load_floats<L, kType>(p + whole * kSize, rest);
          });
    }
  }
};

}  // namespace tsr
