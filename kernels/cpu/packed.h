// cpu_packed: a register tile of C over one panel of packed B, for every row tile of A.
#pragma once

#include "cpu/abi.h"
#include "cpu/epilogue.h"
#include "cpu/types.h"
#include "cpu/vec.h"

namespace tsr {

// acc += a * b on 32-bit lanes, each lane one k group: 1 float, 2 16-bit or 4 8-bit elements.
template <Inst kInst, class U>
TSR_INLINE void multiply_add(U& acc, U a, U b) {
  constexpr int L = sizeof(U) / 4;
  if constexpr (kInst == Inst::fma) {
    acc = as_bits<L>(as_float<L>(acc) + as_float<L>(a) * as_float<L>(b));
  } else if constexpr (kInst == Inst::dpbf16) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(acc) : "v"(a), "v"(b));
  } else if constexpr (kInst == Inst::vnni) {
    asm("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(a), "v"(b));
  } else {
    U product;
    if constexpr (L == 16) {
      asm("vpmaddwd %2, %1, %0" : "=v"(product) : "v"(a), "v"(b));
    } else {
      asm("vpmaddwd %2, %1, %0" : "=x"(product) : "x"(a), "x"(b));
    }
    acc += product;
  }
}

template <class Config>
struct Packed {
  using E = Epilogue<Config>;
  static constexpr int L = E::L;
  using U = typename Vec<L>::U;
  static constexpr int kRows = Config::tile_m, kVectors = Config::tile_n / L;
  // vpdpbusd takes its first operand unsigned: signed A is moved up by 128, which the panel's correction takes back.
  static constexpr bool kShiftA = Config::inst == Inst::vnni && Config::type_a == Type::i8 && !Config::pack_a;

  template <int kLive>
  static TSR_INLINE void multiply(U (&acc)[kRows][kLive], const char* a, const PackedArgs& p, const char* b) {
    const long long row = p.a_row_bytes, step = p.a_step_bytes;
    // One pointer per three rows: rows 0, 1, 2 are reached by scaled addressing.
    constexpr int kPointers = (kRows + 2) / 3;
    const char* pointers[kPointers];
#pragma GCC unroll 16
    for (int i = 0; i < kPointers; ++i) pointers[i] = a + 3 * i * row;
    for (long long s = p.steps; s > 0; --s) {
      U right[kLive];
#pragma GCC unroll 8
      for (int v = 0; v < kLive; ++v) right[v] = load_whole<U>(b + v * 4 * L);
#pragma GCC unroll 32
      for (int r = 0; r < kRows; ++r) {
        typedef unsigned __attribute__((may_alias, aligned(1))) Word;
        U left = *reinterpret_cast<const Word*>(pointers[r / 3] + (r % 3) * row) - U{};
        if constexpr (kShiftA) left ^= 0x80808080u;
        asm("" : "+v"(left));  // one broadcast for the row, not one per multiply
#pragma GCC unroll 8
        for (int v = 0; v < kLive; ++v) multiply_add<Config::inst>(acc[r][v], left, right[v]);
      }
#pragma GCC unroll 16
      for (int i = 0; i < kPointers; ++i) pointers[i] += step;
      b += Config::tile_n * 4;
    }
  }

  // One row tile: `skip` leading rows were stored by the tile before.
  template <int kLive>
  static __attribute__((noinline)) void tile(const char* a, const PackedArgs& p, long long row, int skip, int rows) {
    const char* b = static_cast<const char*>(p.b);
    U acc[kRows][kLive];
    const U* correction = reinterpret_cast<const U*>(b + p.steps * Config::tile_n * 4);
#pragma GCC unroll 32
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < kLive; ++v) acc[r][v] = Config::inst == Inst::vnni ? load_whole<U>(correction + v) : U{};
    }
    multiply<kLive>(acc, a, p, b);

    alignas(64) unsigned buffer[kRows * Config::tile_n];
    const bool partial = !p.first || !p.last;
    if constexpr (kLive == kVectors && E::kLight) {
      if (!partial && skip == 0 && rows == kRows && p.cols == Config::tile_n) {
#pragma GCC unroll 32
        for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
          for (int v = 0; v < kLive; ++v) E::store(acc[r][v], *p.epilogue, p.row0 + row + r, p.col0 + v * L, L);
        }
        return;
      }
    }
#pragma GCC unroll 32
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < kLive; ++v) store_whole(buffer + r * Config::tile_n + v * L, acc[r][v]);
    }
    if (partial) add_partial(buffer, p, row, skip, rows);
    if (p.last) {
      E::store_tile(buffer + skip * Config::tile_n, Config::tile_n, *p.epilogue, p.row0 + row + skip, p.col0, rows - skip,
                    static_cast<int>(p.cols));
    }
  }

  // buffer += sums so far; unless this is the last block they become the new sums.
  static __attribute__((noinline)) void add_partial(unsigned* buffer, const PackedArgs& p, long long row, int skip,
                                                    int rows) {
    for (int r = skip; r < rows; ++r) {
      unsigned* sums = reinterpret_cast<unsigned*>(p.partial) + (row + r) * p.partial_stride;
      for (int j = 0; j < Config::tile_n; j += L) {
        U x = load_whole<U>(buffer + r * Config::tile_n + j);
        if (!p.first) {
          const U old = load_whole<U>(sums + j);
          x = E::kIntAcc ? x + old : as_bits<L>(as_float<L>(x) + as_float<L>(old));
        }
        store_whole(p.last ? buffer + r * Config::tile_n + j : sums + j, x);
      }
    }
  }

  template <int kLive>
  static TSR_INLINE void rows_of(const PackedArgs& p) {
    const char* a = static_cast<const char*>(p.a);
    for (long long row = 0; row < p.rows; row += kRows, a += p.a_tile_bytes) {
      const long long left = p.rows - row;
      if (left >= kRows) {
        tile<kLive>(a, p, row, 0, kRows);
      } else if (p.a_padded) {
        tile<kLive>(a, p, row, 0, static_cast<int>(left));
      } else {  // the last kRows rows, of which only the new ones are stored
        const long long back = kRows - left;
        tile<kLive>(a - back * p.a_row_bytes, p, row - back, static_cast<int>(back), kRows);
      }
    }
  }

  template <int kLive>
  static TSR_INLINE void dispatch(const PackedArgs& p) {
    if (p.cols > (kLive - 1) * L) return rows_of<kLive>(p);
    if constexpr (kLive > 1) dispatch<kLive - 1>(p);
  }
};

template <class Config>
TSR_INLINE void cpu_packed(const void* args) {
  Packed<Config>::template dispatch<Packed<Config>::kVectors>(*static_cast<const PackedArgs*>(args));
}

}  // namespace tsr
