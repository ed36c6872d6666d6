// Few rows times a row-major B of bytes: words of four rows of B are made in registers, 64 columns at a time,
// and nothing of B is staged. Unpacking works within 128-bit lanes, so the sums stand in an order of their
// own until they are stored.
#pragma once

#include "cpu/words.h"

namespace tsr {

template <class C>
struct Interleave {
  using Math = WordMath<C>;
  static constexpr int kRows = C::tile_m, kCols = C::tile_n, kSets = kCols / 64, kVectors = 4 * kSets;
  // Sums in registers beside the words of one set.
  static constexpr bool kPossible =
      interleaves_bytes(C::vector_bits, Math::kVnni, C::swap_ab, C::preshuffle, kRows, kCols);
  using I = typename Math::I;

  static constexpr int kDepth = 256;                          // of k, bytes of each row of A copied at a time
  static constexpr int kHeld = 4096 / kRows / kCols * kCols;  // columns whose sums wait in the cache

  alignas(64) signed char a[kRows][kDepth];  // zeros behind k
  alignas(64) int held[kRows][kHeld];
  I row_sums[kRows];  // of A, in parts; what the offset of B adds is 128 times as much

  template <bool kLow>
  static TSR_INLINE I unpack_bytes(I x, I y) {
    I v;
    if constexpr (kLow) {
      asm("vpunpcklbw %2, %1, %0" : "=v"(v) : "v"(x), "v"(y));
    } else {
      asm("vpunpckhbw %2, %1, %0" : "=v"(v) : "v"(x), "v"(y));
    }
    return v;
  }
  template <bool kLow>
  static TSR_INLINE I unpack_pairs(I x, I y) {
    I v;
    if constexpr (kLow) {
      asm("vpunpcklwd %2, %1, %0" : "=v"(v) : "v"(x), "v"(y));
    } else {
      asm("vpunpckhwd %2, %1, %0" : "=v"(v) : "v"(x), "v"(y));
    }
    return v;
  }

  // Rows [k0, k0 + depth) of every row of A, and their sums.
  TSR_INLINE void take_a(const UnpackedArgs& args, long long rows, long long k0, long long depth) {
    const I ones = I{} + 0x01010101;
    for (long long r = 0; r < kRows; ++r) {
      const char* from =
          static_cast<const char*>(args.a) + (args.row_begin + r) * args.a_row_bytes + k0 * args.a_k_bytes;
      for (long long l = 0; l < kDepth; l += 64) {
        const long long rest = depth - l, live = r >= rows || rest < 0 ? 0 : rest;
        I v;
        if (args.a_k_bytes == 1) {
          v = load_copy8<I>(from + l, Part(live));
        } else {
          alignas(64) signed char bytes[64] = {};
          for (long long i = 0; i < least(live, 64); ++i) bytes[i] = from[(l + i) * args.a_k_bytes];
          v = load_whole<I>(bytes);
        }
        if constexpr (Math::kOffset) row_sums[r] = dot_u8(row_sums[r], ones, v);
        store_whole(a[r] + l, v);
      }
    }
  }

  // Sums of `depth` rows of B, `stride` bytes apart, onto those held; `words` of A are 4 bytes of each row.
  // Asks for as much from `ahead` on, unless that is null.
  __attribute__((noinline)) void tile(const char* b, long long stride, long long at, long long depth,
                                      long long cols, int* sums, const char* ahead) {
    Part parts[kSets];
    TSR_UNROLL for (int s = 0; s < kSets; ++s) { parts[s] = Part(cols > s * 64 ? cols - s * 64 : 0); }
    I acc[kRows][kVectors];
    TSR_UNROLL for (int r = 0; r < kRows; ++r) {
      TSR_UNROLL for (int v = 0; v < kVectors; ++v) acc[r][v] = load_whole<I>(sums + r * kHeld + v * 16);
    }
    const signed char* left = a[0] + at;
    // With `kWhole` all four rows exist.
    auto step = [&]<bool kWhole>(long long rows) __attribute__((always_inline)) {
      if (ahead) {
        TSR_UNROLL for (int i = 0; i < 4; ++i) {
          TSR_UNROLL for (int s = 0; s < kSets; ++s) __builtin_prefetch(ahead + i * stride + s * 64);
        }
        ahead += 4 * stride;
      }
      TSR_UNROLL for (int s = 0; s < kSets; ++s) {
        I row[4];
        TSR_UNROLL for (int i = 0; i < 4; ++i) {
          const char* from = b + i * stride + s * 64;
          if constexpr (kWhole) {
            row[i] = load_copy8<I>(from, parts[s]);
          } else {
            row[i] = i < rows ? load_copy8<I>(from, parts[s]) : I{};
          }
          if constexpr (Math::kOffset) row[i] ^= static_cast<int>(Math::kFlip);
        }
        const I low0 = unpack_bytes<true>(row[0], row[1]), low1 = unpack_bytes<true>(row[2], row[3]);
        const I high0 = unpack_bytes<false>(row[0], row[1]), high1 = unpack_bytes<false>(row[2], row[3]);
        const I words[4] = {unpack_pairs<true>(low0, low1), unpack_pairs<false>(low0, low1),
                            unpack_pairs<true>(high0, high1), unpack_pairs<false>(high0, high1)};
        TSR_UNROLL for (int r = 0; r < kRows; ++r) {
          typedef int __attribute__((may_alias)) Word;
          const I x = *reinterpret_cast<const Word*>(left + r * kDepth) - I{};
          TSR_UNROLL for (int v = 0; v < 4; ++v) {
            I& sum = acc[r][4 * s + v];
            sum = Math::kOffset ? dot_u8(sum, words[v], x) : Math::multiply(sum, x, words[v]);
          }
        }
      }
      b += 4 * stride;
      left += 4;
    };
    for (; depth >= 4; depth -= 4) step.template operator()<true>(4);
    if (depth > 0) step.template operator()<false>(depth);
    TSR_UNROLL for (int r = 0; r < kRows; ++r) {
      TSR_UNROLL for (int v = 0; v < kVectors; ++v) store_whole(sums + r * kHeld + v * 16, acc[r][v]);
    }
  }

  // Vector v of a set has columns 16 l + 4 v ... + 3 in its 128-bit lane l: a 4 x 4 transpose of lanes.
  template <int kSecond>
  struct Lanes {
    static constexpr int at(int lane) {
      const int block = lane / 4;
      return (block < 2 ? 0 : 16) + (kSecond + 2 * (block % 2)) % 4 * 4 + lane % 4;
    }
  };
  template <bool kHigh>
  struct Pairs {
    static constexpr int at(int lane) {
      const int block = lane / 4;
      return (block < 2 ? 0 : 16) + ((kHigh ? 2 : 0) + block % 2) * 4 + lane % 4;
    }
  };
  TSR_INLINE void in_order(int* sums, I less) {
    I v[4];
    TSR_UNROLL for (int i = 0; i < 4; ++i) v[i] = load_whole<I>(sums + i * 16) - less;
    const I low01 = shuffle<Pairs<false>, 16>(v[0], v[1]), high01 = shuffle<Pairs<true>, 16>(v[0], v[1]);
    const I low23 = shuffle<Pairs<false>, 16>(v[2], v[3]), high23 = shuffle<Pairs<true>, 16>(v[2], v[3]);
    store_whole(sums, shuffle<Lanes<0>, 16>(low01, low23));
    store_whole(sums + 16, shuffle<Lanes<1>, 16>(low01, low23));
    store_whole(sums + 32, shuffle<Lanes<0>, 16>(high01, high23));
    store_whole(sums + 48, shuffle<Lanes<1>, 16>(high01, high23));
  }

  static TSR_INLINE bool takes(const UnpackedArgs& args) {
    return args.b_col_bytes == 1 && args.row_end - args.row_begin <= kRows && args.k_end > args.k_begin;
  }

  __attribute__((noinline)) void run(const UnpackedArgs& args) {
    const long long rows = args.row_end - args.row_begin, stride = args.b_k_bytes;
    // Columns of a pass that are asked for ahead, whole tiles.
    const long long distance = args.ahead_bytes / args.pass / kCols * kCols;
    for (long long c0 = args.col_begin; c0 < args.col_end; c0 += kHeld) {
      const long long cols = least(kHeld, args.col_end - c0),
                      pass = cols <= kCols ? kDepth : least(kDepth, args.pass);
      for (int r = 0; r < kRows; ++r) {
        row_sums[r] = I{};
        for (long long c = 0; c < (cols + 63) / 64 * 64; c += 16) store_whole(&held[r][c], I{});
      }
      for (long long k0 = args.k_begin; k0 < args.k_end; k0 += kDepth) {
        const long long depth = least(kDepth, args.k_end - k0);
        take_a(args, rows, k0, depth);
        for (long long l = 0; l < depth; l += pass) {
          const char* b = static_cast<const char*>(args.b) + (k0 + l) * stride + c0;
          for (long long c = 0; c < cols; c += kCols) {
            const char* ahead = distance == 0 ? nullptr
                                : c + distance < cols
                                    ? b + c + distance
                                    : b + pass * stride + (c + distance - cols) / kCols * kCols;
            tile(b + c, stride, l, least(pass, depth - l), cols - c, &held[0][c], ahead);
          }
        }
      }
      for (long long r = 0; r < rows; ++r) {
        int offset = 0;
        if constexpr (Math::kOffset) {
          for (int i = 0; i < 16; ++i) offset += row_sums[r][i];
        }
        for (long long c = 0; c < cols; c += 64) in_order(&held[r][c], I{} + 128 * offset);
        Unpacked<C>::store_tile(args, reinterpret_cast<const unsigned*>(held[r]), kHeld, args.row_begin + r,
                                c0, 1, static_cast<int>(cols));
      }
    }
  }
};

}  // namespace tsr
