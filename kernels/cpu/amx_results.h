// The sums of cpu_amx on their way to C.
#pragma once

#include "cpu/abi.h"
#include "cpu/amx_tiles.h"
#include "cpu/epilogue.h"
#include "cpu/types.h"
#include "cpu/vec.h"

namespace tsr {

// Sums of a block, rows of tile_n, that are rows of C. What is found here is not looked up anew for each row.
template <class Config>
struct AmxResults {
  using E = Epilogue<Config>;
  static constexpr int kRowBytes = Config::tile_n * 4;
  static constexpr bool kPlainBf16 =
      !Config::swap_ab && E::kNoSteps && Config::type_out == Type::bf16 && Config::type_acc == Type::f32;

  // How a row of sums gets into C: as bf16 without steps, of whole column tiles, or the last one cut, or past
  // the caches; else by the epilogue.
  enum How { kWhole, kCut, kStreamed, kByEpilogue };

  const char* sums = nullptr;       // of the next row
  long long row = 0, end = 0;       // rows left
  long long col = 0, c_bytes = 0;   // of C
  char* c = nullptr;                // its column `col`
  const long long* rows = nullptr;  // EpilogueArgs::rows
  int live = 16;                    // columns of the last column tile
  How how = kByEpilogue;

  TSR_INLINE bool waiting() const { return row < end; }

  // Member by member: a copy in wide words would wait for the narrow stores before it.
  template <int kColTiles>
  TSR_INLINE void set(const AmxArgs& p, const char* from, long long first, long long count, long long column,
                      long long columns) {
    const EpilogueArgs& e = *p.epilogue;
    constexpr int kSize = bytes_of(Config::type_out);
    const long long last = columns - 16 * (kColTiles - 1);
    sums = from;
    row = first;
    end = first + count;
    col = column;
    c_bytes = e.c_stride * kSize;
    c = static_cast<char*>(e.c) + column * kSize;
    if constexpr (E::kRowTable) rows = e.rows;
    live = static_cast<int>(last < 16 ? last : 16);
    if (kPlainBf16 && e.plain)
      how = last < 16 ? kCut : p.far_c == kFarStreamed && kColTiles % 2 == 0 ? kStreamed : kWhole;
  }

  // `count` more rows of sums to C; within the steps of a block only the most usual way is at hand.
  template <int kColTiles>
  TSR_INLINE void put(const EpilogueArgs& e, long long count) {
    const long long from = row, to = end - row < count ? end : row + count;
    const char* const first = sums;
    row = to;
    sums = first + (to - from) * kRowBytes;
    if constexpr (kPlainBf16) {
      if (how == kWhole) return put_bf16<kColTiles, kWhole>(*this, first, from, to);
    }
    put_otherwise<kColTiles>(*this, e, first, from, to);
  }

  template <int kColTiles>
  __attribute__((noinline)) void put_all(const EpilogueArgs& e) {
    put<kColTiles>(e, end - row);
  }

  template <int kColTiles>
  static __attribute__((noinline)) void put_otherwise(const AmxResults& d, const EpilogueArgs& e,
                                                      const char* sums, long long row, long long end) {
    if constexpr (kPlainBf16) {
      if (d.how == kCut) return put_bf16<kColTiles, kCut>(d, sums, row, end);
      if (kColTiles % 2 == 0 && d.how == kStreamed) return put_bf16<kColTiles, kStreamed>(d, sums, row, end);
    }
    put_steps<kColTiles>(d, e, sums, row, end);
  }

  template <int kColTiles>
  static TSR_INLINE void put_steps(const AmxResults& d, const EpilogueArgs& e, const char* sums,
                                   long long row, long long end) {
    const long long* const rows = d.rows;
    const long long col = d.col;
    const int live = d.live;
    for (; row < end; ++row, sums += kRowBytes) {
      if constexpr (E::kRowTable) {
        if (rows[row] < 0) continue;
      }
      each_tile<kColTiles>([&]<int j>() __attribute__((always_inline)) {
        E::store(load_whole<Vec<16>::U>(sums + j * 64), e, row, col + 16 * j, j < kColTiles - 1 ? 16 : live);
      });
    }
  }

  // Two tiles of columns at a time, if they are whole.
  template <int kColTiles, How kHow>
  static TSR_INLINE void put_bf16(const AmxResults& d, const char* sums, long long row, long long end) {
    constexpr int kTiles = kColTiles - (kHow == kCut);
    const long long* const rows = d.rows;
    const long long c_bytes = d.c_bytes;
    char* const first = d.c;
    const int live = d.live;
    for (; row < end; ++row, sums += kRowBytes) {
      long long at = row;
      if constexpr (E::kRowTable) {
        at = rows[row];
        if (at < 0) continue;
      }
      char* const c = first + at * c_bytes;
      each_tile<kTiles / 2>([&]<int j>() __attribute__((always_inline)) {
        const Vec<16>::U line = to_bf16_line(sums + 128 * j);
        kHow == kStreamed ? stream_whole(c + 64 * j, line) : store_whole(c + 64 * j, line);
      });
      if constexpr (kTiles % 2 == 1) store_whole(c + 32 * (kTiles - 1), to_bf16(sums + 64 * (kTiles - 1)));
      if constexpr (kHow == kCut)
        store_part(reinterpret_cast<unsigned short*>(c + 32 * kTiles), live, to_bf16(sums + 64 * kTiles));
    }
  }

  static TSR_INLINE Vec<16>::H to_bf16(Vec<16>::F f) {
    Vec<16>::H h;
    asm("vcvtneps2bf16 %1, %0" : "=v"(h) : "v"(f));
    return h;
  }
  static TSR_INLINE Vec<16>::H to_bf16(const char* sums) { return to_bf16(load_whole<Vec<16>::F>(sums)); }
  static TSR_INLINE Vec<16>::U to_bf16_line(const char* sums) {
    Vec<16>::U line;
    asm("vcvtne2ps2bf16 %1, %2, %0"
        : "=v"(line)
        : "v"(load_whole<Vec<16>::F>(sums)), "v"(load_whole<Vec<16>::F>(sums + 64)));
    return line;
  }
};

}  // namespace tsr
