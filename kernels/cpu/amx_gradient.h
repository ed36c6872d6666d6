// cpu_amx, the gradient of a filter from copies of images' lines: every tap of every 16 channels is a column
// tile at a distance of its own in the copies, and pixels are what is summed over.
#pragma once

#include "cpu/abi.h"
#include "cpu/amx_tiles.h"
#include "cpu/epilogue.h"

namespace tsr {

template <class Config>
struct AmxGradient {
  using E = Epilogue<Config>;
  static constexpr int kM = Config::tile_m / 16, kN = Config::tile_n / 16;
  // Tile numbers: the accumulators, the left operand's, the right operand's.
  static constexpr AmxRegisters kRegisters = amx_registers(kM, kN);
  static constexpr int kLeft = kRegisters.accumulators, kRight = kLeft + kRegisters.lefts;
  static constexpr int kRights = kN > 8 - kRight ? 8 - kRight : kN;

  // Row tiles from `row` on and column tiles from `col` on, over all pixels of the block.
  template <int kRows, int kCols>
  static __attribute__((noinline)) void block(const AmxGradientArgs& p, long long row, long long col) {
    const char* left = static_cast<const char*>(p.left) + row * p.left_tile_bytes;
    const char* rights[kCols];
    float* sums[kCols];
    each_tile<kCols>([&]<int j>() __attribute__((always_inline)) {
      rights[j] = static_cast<const char*>(p.right) + p.tile_at[col + j];
      sums[j] = p.sums + ((col + j) * p.row_tiles + row) * 256;
      each_tile<kRows>([&]<int i>() __attribute__((always_inline)) {
        if (p.first) {
          tile_zero<i * kN + j>();
        } else {
          tile_load<i * kN + j>(sums[j] + i * 256, 64);
        }
      });
    });
    long long plane = 0;
    for (long long planes = p.planes; planes > 0; --planes, plane += p.right_plane_bytes) {
      long long at = plane;
      for (long long s = p.steps; s > 0; --s, at += 1024, left += 1024) {
        each_tile<kCols>([&]<int j>() __attribute__((always_inline)) {
          constexpr int b = kRight + j % kRights;
          tile_load<b>(rights[j] + at, 64);
          each_tile<kRows>([&]<int i>() __attribute__((always_inline)) {
            constexpr int a = kLeft + i % kRegisters.lefts;
            if constexpr (j == 0) tile_load<a>(left + i * p.left_tile_bytes, 64);
            tile_multiply_bf16<i * kN + j, a, b>();
          });
        });
      }
    }
    each_tile<kCols>([&]<int j>() __attribute__((always_inline)) {
      each_tile<kRows>([&]<int i>()
                           __attribute__((always_inline)) { tile_store<i * kN + j>(sums[j] + i * 256, 64); });
    });
  }

  template <int kCols>
  static TSR_INLINE void rows_of(const AmxGradientArgs& p, long long col) {
    long long row = 0;
    for (; row + kM <= p.row_tiles; row += kM) block<kM, kCols>(p, row, col);
    for (; row < p.row_tiles; ++row) block<1, kCols>(p, row, col);
  }

  template <int kCols>
  static TSR_INLINE void columns(const AmxGradientArgs& p, long long col, long long count) {
    if (count == kCols) return rows_of<kCols>(p, col);
    if constexpr (kCols > 1) columns<kCols - 1>(p, col, count);
  }

  static TSR_INLINE void run(const AmxGradientArgs& p) {
    // Blocks of columns of nearly one size: few accumulators at once wait for each other.
    const long long blocks = (p.col_tiles + kN - 1) / kN;
    for (long long i = 0; i < blocks; ++i) {
      const long long col = p.col_tiles * i / blocks;
      columns<kN>(p, col, p.col_tiles * (i + 1) / blocks - col);
    }
    if (!p.last) return;
    for (long long j = 0; j < p.col_tiles; ++j) {
      for (long long i = 0; i < p.row_tiles; ++i) {
        const long long left = p.rows - 16 * i;
        E::store_tile(reinterpret_cast<const unsigned*>(p.sums + (j * p.row_tiles + i) * 256), 16,
                      *p.epilogue, p.row0 + 16 * i, p.columns[j].first,
                      left < 16 ? static_cast<int>(left) : 16, static_cast<int>(p.columns[j].count));
      }
    }
  }
};

}  // namespace tsr
