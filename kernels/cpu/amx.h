// cpu_amx: blocks of AMX tiles (16 rows x 64 bytes) over one panel of the right operand, for every row tile
// of the left. The gradient of a filter from copies of lines is apart.
#pragma once

#include "cpu/abi.h"
#include "cpu/amx_gradient.h"
#include "cpu/amx_results.h"
#include "cpu/amx_tiles.h"
#include "cpu/epilogue.h"
#include "cpu/shuffle.h"
#include "cpu/stream.h"
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
  static constexpr int kRowBytes = AmxResults<Config>::kRowBytes;
  static constexpr bool kSwap = Config::swap_ab;
  static constexpr bool kInt = Config::type_acc == Type::i32;
  // Signedness of the left and right operand in registers; B is never unsigned.
  static constexpr bool kLeftUnsigned = Config::type_a == Type::u8 && !kSwap;
  static constexpr bool kRightUnsigned = Config::type_a == Type::u8 && kSwap;

  // Whole tiles without alpha, beta and steps need no pass over the sums.
  static constexpr bool kDirect =
      !kSwap && !E::kRowTable && E::kNoSteps && Config::type_out == Config::type_acc;

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
  // apart, the last one `to_last` from the first; with `copy` they are left there. `meanwhile` is done when
  // all is loaded.
  template <int kRowTiles, int kColTiles, Passing kPassing, class F>
  static TSR_INLINE void step(const char* left, long long stride, long long next, long long to_last,
                              char* copy, long long copy_next, const char* right, const F& meanwhile) {
    each_tile<kColTiles>([&]<int j>() __attribute__((always_inline)) {
      constexpr int b = kRight + j % kRights;
      tile_load<b, kPassing == kRightPasses>(right + j * 64, Config::tile_n * 4);
      each_tile<kRowTiles>([&]<int i>() __attribute__((always_inline)) {
        if constexpr (j == 0) {
          const long long at = i > 0 && i == kRowTiles - 1 ? to_last : i * next;
          tile_load<kLeft + i % kLefts, kPassing == kLeftPasses>(left + at, stride);
          if (copy) tile_store<kLeft + i % kLefts>(copy + i * copy_next, 64);
        }
        if constexpr (i == (j == 0 ? kRowTiles - 1 : 0) && j == kColTiles - 1) meanwhile();
        multiply<i * kN + j, kLeft + i % kLefts, b>();
      });
    });
  }

  // The same where row tiles lie anywhere: `at` bytes from each of `lefts`.
  template <int kRowTiles, int kColTiles, Passing kPassing, bool kTail, class F>
  static TSR_INLINE void step_at(const char* const (&lefts)[kRowTiles], long long at, long long stride,
                                 const char* right, const F& meanwhile) {
    constexpr int kOnes = kTail ? 1 : kLefts;
    each_tile<kColTiles>([&]<int j>() __attribute__((always_inline)) {
      constexpr int b = kTail ? kRightTail : kRight + j % kRights;
      tile_load<b, kPassing == kRightPasses>(right + j * 64, Config::tile_n * 4);
      each_tile<kRowTiles>([&]<int turn>() __attribute__((always_inline)) {
        // With one register of the left operand every other column goes back from where the last one ended.
        constexpr int i = kOnes < kRowTiles && j % 2 == 1 ? kRowTiles - 1 - turn : turn;
        constexpr int a = kTail ? kLeftTail : kLeft + i % kLefts;
        if constexpr (j == 0 || (kOnes < kRowTiles && turn > 0)) tile_load<a>(lefts[i] + at, stride);
        if constexpr (turn == (j == 0 ? kRowTiles - 1 : 0) && j == kColTiles - 1) meanwhile();
        multiply<i * kN + j, a, b>();
      });
    });
  }

  // Whether sums wait for the steps of the next block: of narrow blocks a step is too short to do more in,
  // and few steps have too little time for all rows.
  static constexpr bool kDelays = kM >= 2 && kN >= 2;
  static constexpr int kLeastSteps = 3;

  // Steps ahead at which one line in four of panels from beyond L2 is asked for: where they enter a page, the
  // processor does not follow by itself.
  static constexpr long long kRightAhead = 128 / Config::tile_n;

  // One call: panels of columns one behind the other.
  struct Call {
    const AmxArgs& p;
    const char* right;
    char* sums;
    long long col, cols;  // of C, and how many are left from there
    // The last block's, put into C between the steps of the next one: tiles multiply on their own meanwhile.
    AmxResults<Config> pending{};
    bool odd = false;                       // which of two blocks' sums come next where none are kept
    bool kept = false;                      // AmxArgs::copy has the left operand's tiles
    Stream<false> left_ahead{}, c_ahead{};  // a part for each step
  };

  // The sums of blocks along k are kept; others are at hand until the next block is done.
  static TSR_INLINE char* sums_of(Call& call, long long row) {
    if (!call.p.first || !call.p.last) return call.sums + row * kRowBytes;
    if constexpr (kDelays) call.odd = !call.odd;
    return call.sums + call.odd * (16 * kM * kRowBytes);
  }

  // Rows that the last tile of a block has in common with the one before.
  template <int kRowTiles>
  static TSR_INLINE long long overlap(const AmxArgs& p, long long row) {
    if constexpr (kTable || kRowTiles == 1) return 0;
    return row + 16 * kRowTiles > p.rows ? p.overlap : 0;
  }

  template <int kRowTiles, int kColTiles, Passing kPassing>
  static __attribute__((noinline)) void block(Call& call, long long row) {
    const AmxArgs& p = call.p;
    char* sums = sums_of(call, row);
    const long long before = overlap<kRowTiles>(p, row);
    const auto first_row = [&](int i) __attribute__((always_inline)) {
      return 16 * i - (i > 0 && i == kRowTiles - 1 ? before : 0);
    };
    each_tile<kRowTiles>([&]<int i>() __attribute__((always_inline)) {
      each_tile<kColTiles>([&]<int j>() __attribute__((always_inline)) {
        if (kTable || p.first) {
          tile_zero<i * kN + j>();
        } else {
          tile_load<i * kN + j>(sums + first_row(i) * kRowBytes + 64 * j, kRowBytes);
        }
      });
    });
    AmxResults<Config>& pending = call.pending;
    const EpilogueArgs& e = *p.epilogue;
    const long long steps = p.steps + (kTails ? p.tails : 0), waiting = pending.end - pending.row;
    constexpr bool kWholeBlock = kRowTiles == kM && kColTiles == kN;
    if constexpr (kDelays && kWholeBlock) {
      const long long rows = waiting <= steps || steps == 0 ? 1 : (waiting + steps - 1) / steps;
      all_steps<kRowTiles, kColTiles, kPassing>(
          call, row, [&]() __attribute__((always_inline)) {
            pending.template put<kColTiles>(e, rows);
            call.c_ahead.fetch();
          });
    } else {
      all_steps<kRowTiles, kColTiles, kPassing>(
          call, row, [&]() __attribute__((always_inline)) { call.c_ahead.fetch(); });
    }
    if (kDelays && pending.waiting()) pending.template put_all<kColTiles>(e);
    const long long rows_left = p.rows - row;
    if constexpr (kDirect) {
      if (p.last && e.plain && rows_left >= 16 * kRowTiles && call.cols >= 16 * kColTiles) {
        const long long c_bytes = e.c_stride * 4;
        char* c = static_cast<char*>(e.c) + (p.row0 + row) * c_bytes + call.col * 4;
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
        tile_store<i * kN + j>(sums + first_row(i) * kRowBytes + 64 * j, kRowBytes);
      });
    });
    if (!p.last) return;
    if constexpr (kSwap) {
#pragma GCC unroll 4
      for (int i = 0; i < kRowTiles; ++i) {
#pragma GCC unroll 4
        for (int j = 0; j < kColTiles; ++j)
          store(reinterpret_cast<unsigned*>(sums + 16 * i * kRowBytes + 64 * j), call, row + 16 * i, 16 * j);
      }
    } else {
      pending.template set<kColTiles>(p, sums, p.row0 + row,
                                      rows_left < 16 * kRowTiles ? rows_left : 16 * kRowTiles, call.col,
                                      call.cols);
      if (!kDelays || !kWholeBlock || steps < kLeastSteps) pending.template put_all<kColTiles>(e);
    }
  }

  template <int kRowTiles, int kColTiles, Passing kPassing, class F>
  static TSR_INLINE void all_steps(Call& call, long long row, const F& meanwhile) {
    const AmxArgs& p = call.p;
    if constexpr (kTable) return table_steps<kRowTiles, kColTiles, kPassing>(call, row, meanwhile);
    // A last row tile that is not whole was copied, zeros behind its rows.
    const bool last = kRowTiles == 1 && row == p.last_row;
    const bool kept = call.kept && !last;
    const long long copy_next = p.steps * 1024;
    char* const copies = static_cast<char*>(p.copy) + row / 16 * copy_next;
    const char* left = last   ? static_cast<const char*>(p.last_tile)
                       : kept ? copies
                              : static_cast<const char*>(p.left) + row / 16 * p.left_tile_bytes;
    const long long stride = last || kept ? 64 : p.left_stride, next = kept ? copy_next : p.left_tile_bytes;
    const long long to_last = (kRowTiles - 1) * next - (kept ? 0 : overlap<kRowTiles>(p, row) * stride);
    const long long advance = last || kept ? 1024 : p.left_step_bytes;
    char* copy = p.copy && !last && !kept ? copies : nullptr;
    const char* right = call.right;
    const long long fetched = least(kRightAhead, p.steps);
    const char* fetch = p.fetches_right && row == 0 ? right + fetched * Config::tile_n * 64 : nullptr;
    for (long long s = p.steps; s > 0; --s) {
      if (fetch) {
        if (s == fetched) fetch = call.right + p.right_panel_bytes;
        TSR_UNROLL for (int i = 0; i < Config::tile_n; i += 4) __builtin_prefetch(fetch + i * 64, 0, 2);
        fetch += Config::tile_n * 64;
      }
      call.left_ahead.fetch();
      step<kRowTiles, kColTiles, kPassing>(left, stride, next, to_last, copy, copy_next, right, meanwhile);
      left += advance;
      if (copy) copy += 1024;
      right += Config::tile_n * 64;
    }
    if (p.tail) {
      const char* tail = last ? left : static_cast<const char*>(p.left_tail) + row / 16 * 1024;
      step<kRowTiles, kColTiles, kNonePasses>(
          tail, 64, 1024, (kRowTiles - 1) * 1024, nullptr, 0,
          right, [&]() __attribute__((always_inline)) { call.c_ahead.fetch(); });
    }
  }

  template <int kRowTiles, int kColTiles, Passing kPassing, class F>
  static TSR_INLINE void table_steps(Call& call, long long row, const F& meanwhile) {
    const AmxArgs& p = call.p;
    const char* lefts[kRowTiles];
    each_tile<kRowTiles>([&]<int i>() __attribute__((always_inline)) {
      lefts[i] = static_cast<const char*>(p.left) + p.tile_at[row / 16 + i];
    });
    const long long stride = p.left_stride;
    const char* right = call.right;
    const long long* at = p.step_at;
    for (long long s = p.steps; s > 0; --s, ++at, right += Config::tile_n * 64) {
      step_at<kRowTiles, kColTiles, kPassing, false>(lefts, *at, stride, right, meanwhile);
    }
    if constexpr (kTails) {
      for (long long s = p.tails; s > 0; --s, ++at, right += Config::tile_n * 64) {
        step_at<kRowTiles, kColTiles, kPassing, true>(lefts, *at, stride, right, meanwhile);
      }
    }
  }

  // One 16 x 16 tile of sums to C, whose columns are its rows.
  static __attribute__((noinline)) void store(unsigned* sums, const Call& call, long long row,
                                              long long col) {
    const AmxArgs& p = call.p;
    const long long rows_left = p.rows - row, cols_left = call.cols - col;
    const int rows = rows_left < 16 ? static_cast<int>(rows_left) : 16;
    const int cols = cols_left < 16 ? static_cast<int>(cols_left) : 16;
    using U = Vec<16>::U;
    U v[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) v[i] = load_whole<U>(sums + Config::tile_n * i);
    transpose<16>(v);
    if constexpr (E::kLight) {
      if (rows == 16 && cols == 16) return store_rows(v, *p.epilogue, call.col + col, p.row0 + row);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) store_whole(sums + Config::tile_n * i, v[i]);
    E::store_tile(sums, Config::tile_n, *p.epilogue, call.col + col, p.row0 + row, cols, rows);
  }

  static TSR_INLINE void store_rows(Vec<16>::U (&v)[16], const EpilogueArgs& e, long long row,
                                    long long col) {
    if constexpr (E::kNoSteps && Config::type_out == Type::bf16 && !kInt) {
      if (e.plain) {
        char* c = static_cast<char*>(e.c) + (row * e.c_stride + col) * 2;
#pragma GCC unroll 16
        for (int i = 0; i < 16; ++i, c += e.c_stride * 2)
          store_whole(c, AmxResults<Config>::to_bf16(as_float<16>(v[i])));
        return;
      }
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) E::store(v[i], e, row + i, col, 16);
  }

  // Those of rows before `end`; gives the first row that is left.
  template <int kColTiles, Passing kPassing>
  static TSR_INLINE long long whole_blocks(Call& call, long long end) {
    long long row = 0;
    for (; row + 16 * kM <= end; row += 16 * kM) block<kM, kColTiles, kPassing>(call, row);
    return row;
  }
  template <int kColTiles>
  static TSR_INLINE long long whole_blocks(Call& call, long long end) {
    if constexpr (kColTiles == kN) {
      if (call.p.passing == kRightPasses) return whole_blocks<kN, kRightPasses>(call, end);
      if constexpr (!kTable) {
        if (call.p.passing == kLeftPasses) return whole_blocks<kN, kLeftPasses>(call, end);
      }
    }
    return whole_blocks<kColTiles, kNonePasses>(call, end);
  }

  template <int kColTiles>
  static TSR_INLINE void rows_of(Call& call) {
    const AmxArgs& p = call.p;
    // Whole blocks of kM row tiles, then single tiles; a last tile that is copied alone goes alone.
    const long long in_place = !kTable && p.last_tile ? p.last_row : (p.rows + 15) / 16 * 16;
    long long row = whole_blocks<kColTiles>(call, in_place);
    for (; row < p.rows; row += 16) block<1, kColTiles, kNonePasses>(call, row);
    // Where no panel of as many column tiles follows.
    if (kDelays && call.cols <= 2 * Config::tile_n - 16)
      call.pending.template put_all<kColTiles>(*p.epilogue);
  }

  template <int kColTiles>
  static TSR_INLINE void dispatch(Call& call) {
    if (call.cols > (kColTiles - 1) * 16) return rows_of<kColTiles>(call);
    if constexpr (kColTiles > 1) dispatch<kColTiles - 1>(call);
  }

  static TSR_INLINE void run(const AmxArgs& p) {
    Call call{p, static_cast<const char*>(p.right), reinterpret_cast<char*>(p.partial), p.col0, p.cols};
    const long long panels = (p.cols + Config::tile_n - 1) / Config::tile_n;
    const long long steps = p.steps + (kTable ? p.tails : p.tail), tiles = (p.rows + 15) / 16;
    const long long turns = panels * (tiles / kM + tiles % kM) * steps;
    if (p.ahead_rows > 0 && p.steps > 0) {
      const char* left = static_cast<const char*>(p.ahead);
      call.left_ahead = Stream<false>(left, left + p.steps * 64, turns, p.ahead_rows, p.ahead_stride);
    }
    if (p.c_ahead && steps > 0) {
      const char* c = static_cast<const char*>(p.c_ahead);
      call.c_ahead = Stream<false>(c, c + p.c_ahead_bytes, turns + panels * steps);
    }
    while (call.cols > 0) {
      dispatch<kN>(call);
      call.kept = p.copy != nullptr;
      call.right += p.right_panel_bytes;
      call.sums += p.partial_panel_bytes;
      call.col += Config::tile_n;
      call.cols -= Config::tile_n;
    }
  }
};

template <class Config>
TSR_INLINE void cpu_amx(const void* args) {
  if constexpr (requires { Config::gradient; }) {
    AmxGradient<Config>::run(*static_cast<const AmxGradientArgs*>(args));
  } else {
    Amx<Config>::run(*static_cast<const AmxArgs*>(args));
  }
}

}  // namespace tsr
