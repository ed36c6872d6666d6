// cpu_amx: blocks of AMX tiles (16 rows x 64 bytes) over one panel of the right operand, for every row tile
// of the left. The gradient of a filter from copies of lines is apart.
#pragma once

#include "cpu/abi.h"
#include "cpu/amx_gradient.h"
#include "cpu/amx_tiles.h"
#include "cpu/epilogue.h"
#include "cpu/shuffle.h"
#include "cpu/types.h"
#include "cpu/vec.h"

namespace tsr {

template <class Config>
struct Amx {
  using E = Epilogue<Config>;
  static constexpr int kM = Config::tile_m / 16, kN = Config::tile_n / 16;
  // Each row tile has an address of its own, and so has each step.
  static constexpr bool kTable = requires { Config::a_table; };
  // Steps shorter than 64 bytes have registers of their own.
  static constexpr bool kTails = requires { Config::left_tail; };
  // Tile numbers: the accumulators, the left operand's, the right operand's.
  static constexpr AmxRegisters kRegisters = amx_registers(kM, kN);
  static constexpr int kLeft = kRegisters.accumulators, kLefts = kTails ? 1 : kRegisters.lefts;
  static constexpr int kRight = kLeft + kLefts;
  static constexpr int kRights = kTails ? 1 : kN > 8 - kRight ? 8 - kRight : kN;
  static_assert(!kTails || kRight < kLeftTail);
  static constexpr bool kSwap = Config::swap_ab;
  static constexpr bool kInt = Config::type_acc == Type::i32;
  // Signedness of the left and right operand in registers; B is never unsigned.
  static constexpr bool kLeftUnsigned = Config::type_a == Type::u8 && !kSwap;
  static constexpr bool kRightUnsigned = Config::type_a == Type::u8 && kSwap;

  // Whole tiles without alpha, beta and steps need no pass over the sums, or one conversion.
  static constexpr bool kDirect =
      !kSwap && !E::kRowTable && E::kNoSteps && Config::type_out == Config::type_acc;
  static constexpr bool kDirectBf16 =
      !kSwap && !E::kRowTable && E::kNoSteps && Config::type_out == Type::bf16 && !kInt;

  template <int kAcc, int kA, int kB>
  static TSR_INLINE void multiply() {
    if constexpr (!kInt) {
      tile_multiply_bf16<kAcc, kA, kB>();
    } else if constexpr (kLeftUnsigned) {
      asm volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kAcc), "i"(kA), "i"(kB));
    } else if constexpr (kRightUnsigned) {
      asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kAcc), "i"(kA), "i"(kB));
    } else {
      asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kAcc), "i"(kA), "i"(kB));
    }
  }

  // One step of 64 bytes of k. `left` points at row 0 of the first live row tile; row tiles are `next` bytes
  // apart.
  template <int kRowTiles, int kColTiles>
  static TSR_INLINE void step(const char* left, long long stride, long long next, const char* right) {
    each_tile<kColTiles>([&]<int j>() __attribute__((always_inline)) {
      constexpr int b = kRight + j % kRights;
      tile_load<b>(right + j * 64, Config::tile_n * 4);
      each_tile<kRowTiles>([&]<int i>() __attribute__((always_inline)) {
        if constexpr (j == 0) tile_load<kLeft + i % kLefts>(left + i * next, stride);
        multiply<i * kN + j, kLeft + i % kLefts, b>();
      });
    });
  }

  // The same where row tiles lie anywhere: `at` bytes from each of `lefts`.
  template <int kRowTiles, int kColTiles, bool kTail>
  static TSR_INLINE void step_at(const char* const (&lefts)[kRowTiles], long long at, long long stride,
                                 const char* right) {
    constexpr int kOnes = kTail ? 1 : kLefts;
    each_tile<kColTiles>([&]<int j>() __attribute__((always_inline)) {
      constexpr int b = kTail ? kRightTail : kRight + j % kRights;
      tile_load<b>(right + j * 64, Config::tile_n * 4);
      each_tile<kRowTiles>([&]<int i>() __attribute__((always_inline)) {
        constexpr int a = kTail ? kLeftTail : kLeft + i % kLefts;
        if constexpr (j == 0 || kOnes < kRowTiles) tile_load<a>(lefts[i] + at, stride);
        multiply<i * kN + j, a, b>();
      });
    });
  }

  template <int kRowTiles, int kColTiles>
  static __attribute__((noinline)) void table_block(const AmxArgs& p, long long row) {
    const char* lefts[kRowTiles];
    each_tile<kRowTiles>([&]<int i>() __attribute__((always_inline)) {
      lefts[i] = static_cast<const char*>(p.left) + p.tile_at[row / 16 + i];
      each_tile<kColTiles>([&]<int j>() __attribute__((always_inline)) { tile_zero<i * kN + j>(); });
    });
    const long long stride = p.left_stride;
    const char* right = static_cast<const char*>(p.right);
    const long long* at = p.step_at;
    for (long long s = p.steps; s > 0; --s, ++at, right += Config::tile_n * 64)
      step_at<kRowTiles, kColTiles, false>(lefts, *at, stride, right);
    if constexpr (kTails) {
      for (long long s = p.tails; s > 0; --s, ++at, right += Config::tile_n * 64)
        step_at<kRowTiles, kColTiles, true>(lefts, *at, stride, right);
    }
    char* sums = reinterpret_cast<char*>(p.partial);
    each_tile<kRowTiles>([&]<int i>() __attribute__((always_inline)) {
      each_tile<kColTiles>([&]<int j>() __attribute__((always_inline)) {
        tile_store<i * kN + j>(sums + (i * kN + j) * 1024, 64);
      });
    });
    const EpilogueArgs& e = *p.epilogue;
    if constexpr (E::kNoSteps && Config::type_out == Type::bf16 && !kInt) {
      if (e.plain) {
        const long long last = p.cols - 16 * (kColTiles - 1);
        return last >= 16 ? table_bf16<kRowTiles, kColTiles, true>(sums, p, row, 16)
                          : table_bf16<kRowTiles, kColTiles, false>(sums, p, row, static_cast<int>(last));
      }
    }
    for (int i = 0; i < kRowTiles; ++i) {
      for (int r = 0; r < 16; ++r) {
        const long long at = p.row0 + row + 16 * i + r;
        if (e.rows[at] < 0) continue;
        for (int j = 0; j < kColTiles; ++j) {
          const long long left = p.cols - 16 * j;
          E::store(load_whole<Vec<16>::U>(sums + (i * kN + j) * 1024 + r * 64), e, at, p.col0 + 16 * j,
                   left < 16 ? static_cast<int>(left) : 16);
        }
      }
    }
  }

  // Rows of C as the table says; of the last column of tiles `live` columns.
  template <int kRowTiles, int kColTiles, bool kWhole>
  static TSR_INLINE void table_bf16(const char* sums, const AmxArgs& p, long long row, int live) {
    const EpilogueArgs& e = *p.epilogue;
    const long long* rows = e.rows + p.row0 + row;
    char* c = static_cast<char*>(e.c) + p.col0 * 2;
    const long long c_bytes = e.c_stride * 2;
    for (int i = 0; i < kRowTiles; ++i, sums += kN * 1024) {
      for (int r = 0; r < 16; ++r, ++rows) {
        if (*rows < 0) continue;
        char* to = c + *rows * c_bytes;
        if constexpr (kWhole && kColTiles % 2 == 0) {
          if (p.far_c == kFarStreamed) {
            stream_row<kColTiles>(to, sums + r * 64);
            continue;
          }
        }
        each_tile<kColTiles>([&]<int j>() __attribute__((always_inline)) {
          const Vec<16>::H h = to_bf16(load_whole<Vec<16>::F>(sums + j * 1024 + r * 64));
          if constexpr (kWhole || j < kColTiles - 1) {
            store_whole(to + j * 32, h);
          } else {
            store_part(reinterpret_cast<unsigned short*>(to + j * 32), live, h);
          }
        });
      }
    }
  }

  template <int kRowTiles, int kColTiles>
  static __attribute__((noinline)) void block(const AmxArgs& p, long long row) {
    // A last row tile that is not whole was copied, zeros behind its rows.
    const bool copied = kRowTiles == 1 && row == p.last_row;
    const char* left = copied ? static_cast<const char*>(p.last_tile)
                              : static_cast<const char*>(p.left) + row / 16 * p.left_tile_bytes;
    const long long stride = copied ? 64 : p.left_stride, next = p.left_tile_bytes;
    const long long advance = copied ? 1024 : p.left_step_bytes;
    const char* right = static_cast<const char*>(p.right);
    char* sums = reinterpret_cast<char*>(p.partial) + row / 16 * (kN * 1024);
    each_tile<kRowTiles>([&]<int i>() __attribute__((always_inline)) {
      each_tile<kColTiles>([&]<int j>() __attribute__((always_inline)) {
        if (p.first) {
          tile_zero<i * kN + j>();
        } else {
          tile_load<i * kN + j>(sums + (i * kN + j) * 1024, 64);
        }
      });
    });
    for (long long s = p.steps; s > 0; --s) {
      const char* ahead = left + p.prefetch;
      for (int r = p.prefetch_rows; r > 0; --r, ahead += stride) __builtin_prefetch(ahead, 0, 2);
      step<kRowTiles, kColTiles>(left, stride, next, right);
      left += advance;
      right += Config::tile_n * 64;
    }
    if (p.tail) {
      const char* tail = copied ? left : static_cast<const char*>(p.left_tail) + row / 16 * 1024;
      step<kRowTiles, kColTiles>(tail, 64, 1024, right);
    }
    if constexpr (kDirect) {
      if (p.last && p.epilogue->plain && row + 16 * kRowTiles <= p.rows && 16 * kColTiles <= p.cols) {
        const long long c_bytes = p.epilogue->c_stride * 4;
        char* c = static_cast<char*>(p.epilogue->c) + (p.row0 + row) * c_bytes + p.col0 * 4;
        each_tile<kRowTiles>([&]<int i>() __attribute__((always_inline)) {
          each_tile<kColTiles>([&]<int j>() __attribute__((always_inline)) {
            tile_store<i * kN + j>(c + 16 * i * c_bytes + j * 64, c_bytes);
          });
        });
        return;
      }
    }
    each_tile<kRowTiles>([&]<int i>() __attribute__((always_inline)) {
      each_tile<kColTiles>([&]<int j>() __attribute__((always_inline)) {
        tile_store<i * kN + j>(sums + (i * kN + j) * 1024, 64);
      });
    });
    if (!p.last) return;
    if constexpr (kDirectBf16) {
      if (p.epilogue->plain && row + 16 * kRowTiles <= p.rows && 16 * kColTiles <= p.cols) {
        return store_bf16<kRowTiles, kColTiles>(sums, p, row);
      }
    }
#pragma GCC unroll 4
    for (int i = 0; i < kRowTiles; ++i) {
#pragma GCC unroll 4
      for (int j = 0; j < kColTiles; ++j) {
        store(reinterpret_cast<unsigned*>(sums + (i * kN + j) * 1024), p, row + 16 * i, 16 * j);
      }
    }
  }

  template <int kRowTiles, int kColTiles>
  static TSR_INLINE void store_bf16(const char* sums, const AmxArgs& p, long long row) {
    char* c = static_cast<char*>(p.epilogue->c) + ((p.row0 + row) * p.epilogue->c_stride + p.col0) * 2;
    const long long c_bytes = p.epilogue->c_stride * 2;
    for (int i = 0; i < kRowTiles; ++i) {
      for (int r = 0; r < 16; ++r, c += c_bytes) {
        if constexpr (kColTiles % 2 == 0) {
          if (p.far_c == kFarStreamed) {
            stream_row<kColTiles>(c, sums + i * (kN * 1024) + r * 64);
            continue;
          }
        }
#pragma GCC unroll 8
        for (int j = 0; j < kColTiles; ++j) {
          store_whole(c + j * 32, to_bf16(load_whole<Vec<16>::F>(sums + (i * kN + j) * 1024 + r * 64)));
        }
      }
    }
  }

  // A row of tiles past the caches, two at a time.
  template <int kColTiles>
  static TSR_INLINE void stream_row(char* c, const char* sums) {
#pragma GCC unroll 4
    for (int j = 0; j < kColTiles; j += 2) {
      Vec<16>::U line;
      asm("vcvtne2ps2bf16 %1, %2, %0"
          : "=v"(line)
          : "v"(load_whole<Vec<16>::F>(sums + j * 1024)), "v"(load_whole<Vec<16>::F>(sums + (j + 1) * 1024)));
      stream_whole(c + j * 32, line);
    }
  }

  // One 16 x 16 tile of sums to C. Rows are rows of C, or columns when the operands are exchanged.
  static __attribute__((noinline)) void store(unsigned* sums, const AmxArgs& p, long long row,
                                              long long col) {
    const long long rows_left = p.rows - row, cols_left = p.cols - col;
    const int rows = rows_left < 16 ? static_cast<int>(rows_left) : 16;
    const int cols = cols_left < 16 ? static_cast<int>(cols_left) : 16;
    if constexpr (kSwap) {
      using U = Vec<16>::U;
      U v[16];
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) v[i] = load_whole<U>(sums + 16 * i);
      transpose<16>(v);
      if constexpr (E::kLight) {
        if (rows == 16 && cols == 16) return store_rows(v, *p.epilogue, p.col0 + col, p.row0 + row);
      }
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) store_whole(sums + 16 * i, v[i]);
      E::store_tile(sums, 16, *p.epilogue, p.col0 + col, p.row0 + row, cols, rows);
    } else {
      E::store_tile(sums, 16, *p.epilogue, p.row0 + row, p.col0 + col, rows, cols);
    }
  }

  static TSR_INLINE void store_rows(Vec<16>::U (&v)[16], const EpilogueArgs& e, long long row,
                                    long long col) {
    if constexpr (E::kNoSteps && Config::type_out == Type::bf16 && !kInt) {
      if (e.plain) {
        char* c = static_cast<char*>(e.c) + (row * e.c_stride + col) * 2;
#pragma GCC unroll 16
        for (int i = 0; i < 16; ++i, c += e.c_stride * 2) store_whole(c, to_bf16(as_float<16>(v[i])));
        return;
      }
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) E::store(v[i], e, row + i, col, 16);
  }

  static TSR_INLINE Vec<16>::H to_bf16(Vec<16>::F f) {
    Vec<16>::H h;
    asm("vcvtneps2bf16 %1, %0" : "=v"(h) : "v"(f));
    return h;
  }

  template <int kColTiles>
  static TSR_INLINE void rows_of(const AmxArgs& p) {
    long long row = 0;
    if constexpr (kTable) {
      for (; row + 16 * kM <= p.rows; row += 16 * kM) table_block<kM, kColTiles>(p, row);
      for (; row < p.rows; row += 16) table_block<1, kColTiles>(p, row);
      return;
    }
    // Whole blocks of kM row tiles, then single tiles; the copied last tile goes alone.
    const long long in_place = p.last_tile ? p.last_row : p.rows;
    for (; row + 16 * kM <= in_place; row += 16 * kM) block<kM, kColTiles>(p, row);
    for (; row < p.rows; row += 16) block<1, kColTiles>(p, row);
  }

  template <int kColTiles>
  static TSR_INLINE void dispatch(const AmxArgs& p) {
    if (p.cols > (kColTiles - 1) * 16) return rows_of<kColTiles>(p);
    if constexpr (kColTiles > 1) dispatch<kColTiles - 1>(p);
  }
};

template <class Config>
TSR_INLINE void cpu_amx(const void* args) {
  if constexpr (requires { Config::gradient; }) {
    AmxGradient<Config>::run(*static_cast<const AmxGradientArgs*>(args));
  } else {
    Amx<Config>::template dispatch<Amx<Config>::kN>(*static_cast<const AmxArgs*>(args));
  }
}

}  // namespace tsr
