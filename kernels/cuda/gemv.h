// GEMM with few rows (or columns): C = X W with X of at most tile_m rows. All of W is read once, straight
// from memory into the registers that the tensor cores take it from: in what order k goes through them does
// not matter as long as X goes in the same, so a lane takes 16 bytes as they lie. Warps of a block share
// columns of W (wave_n) and k (wave_k).
//
// With swap_ab X is B and W is A of the problem, and the product is written transposed.
#pragma once

#include "cuda/abi.h"
#include "cuda/blocks.h"
#include "cuda/mma.h"
#include "cuda/output.h"
#include "cuda/unaligned.h"

namespace tsr {

template <class C>
struct gemv {
  typedef BlockParams Params;

  static constexpr bool kSwap = C::swap_ab != 0;
  static constexpr Type kTypeX = kSwap ? C::type_b : C::type_a, kTypeW = kSwap ? C::type_a : C::type_b;
  static constexpr bool kXAlongK = kSwap ? C::b_along_k : C::a_along_k,
                        kWAlongK = kSwap ? C::a_along_k : C::b_along_k;
  static constexpr int kElement = bytes_of(kTypeW);
  static constexpr bool kAlignedX = (kSwap ? C::vec_b : C::vec_a) * kElement == 16;
  static constexpr bool kAlignedW = (kSwap ? C::vec_a : C::vec_b) * kElement == 16;
  static constexpr bool kFloat8 = kElement == 1 && is_float(kTypeW);

  static constexpr GemvShape kShape = {C::tile_m, C::tile_n, C::wave_n, C::wave_k};
  static constexpr int kThreads = kShape.threads();
  static constexpr int kTilesX = C::tile_m / 8, kTilesW = C::tile_n / 16;  // of the tensor cores' instruction
  static constexpr int kSpan = 16 / kElement;                              // elements a lane loads at once
  static constexpr int kChunk = kWAlongK ? 4 * kSpan : 32;  // of k that the lanes hold together
  static constexpr int kDepth = gemv_depth(kElement, kWAlongK), kChunks = kDepth / kChunk;
  static constexpr int kWords = kFloat8 ? 8 : 4;  // of 16 bytes as the tensor cores take them
  static constexpr int kColumns = kShape.columns(), kSums = kShape.sums();
  // Threads that share a multiprocessor: as many as leave each the registers it needs.
  static constexpr int kFragments = kTilesX * kTilesW;
  static constexpr bool kAligned = kAlignedW && kAlignedX;
  static constexpr int kTogether = kFragments <= (kFloat8 ? 1 : 2) && kTilesW == 1 && kAligned ? 768
                                   : kFragments <= (kAligned ? 4 : 1) || !kWAlongK             ? 512
                                                                                               : 256;
  static constexpr int kMinBlocks = kTogether < 2 * kThreads ? 1 : kTogether / kThreads;

  typedef typename Output<C>::Acc Acc;

  static_assert(kWAlongK ? C::tile_n % 16 == 0 : C::tile_n == 64, "a warp's columns of W");
  static_assert(kElement == 2 || (kXAlongK && kWAlongK), "8-bit elements lie along k");
  static_assert(bytes_of(C::type_a) == bytes_of(C::type_b) && C::tile_m % 8 == 0);

  struct Operands {
    const char *x, *w;
    i64 x_leading, w_leading;  // bytes
    int rows, cols, k_end;
    __device__ __forceinline__ Operands(const BlockArgs& args, const Place& at) {
      const char* a = static_cast<const char*>(args.a) + at.batch * args.a_batch_stride * kElement;
      const char* b = static_cast<const char*>(args.b) + at.batch * args.b_batch_stride * kElement;
      x = kSwap ? b : a, w = kSwap ? a : b;
      x_leading = (kSwap ? args.b_leading : args.a_leading) * kElement;
      w_leading = (kSwap ? args.a_leading : args.b_leading) * kElement;
      rows = kSwap ? args.n : args.m, cols = kSwap ? args.m : args.n;
      k_end = at.k_end;
    }
  };

  // 16 bytes, `left` of them wanted. kWhole: all are.
  template <bool kAligned, bool kWhole, bool kOnce>
  static __device__ __forceinline__ uint4 load(const char* at, int left) {
    if constexpr (kAligned && kOnce) {
      return ptx::load_once(at);
    } else if constexpr (kAligned) {
      return __ldg(reinterpret_cast<const uint4*>(at));
    } else {
      return unaligned::load(at, kWhole ? 16 : left);
    }
  }

  // A lane's part of a row along k, from k on. kWhole: all of it is there.
  template <bool kAligned, bool kWhole, bool kOnce>
  static __device__ __forceinline__ uint4 load_k(const char* row, int k, int k_end) {
    if constexpr (kWhole) {
      return load<kAligned, true, kOnce>(row + static_cast<i64>(k) * kElement, 16);
    } else {
      const int left = (k_end - k) * kElement;
      if (left <= 0) return make_uint4(0, 0, 0, 0);
      // Rows of whole pieces end with one.
      if constexpr (kAligned) return load<true, true, kOnce>(row + static_cast<i64>(k) * kElement, 16);
      return unaligned::first_bytes(load<false, false, false>(row + static_cast<i64>(k) * kElement, left),
                                    left);
    }
  }

  // 16-bit elements that lie a row apart.
  template <bool kWhole>
  static __device__ __forceinline__ uint4 gather_k(const char* column, i64 leading, int k, int k_end) {
    u32 v[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      v[i] = 0;
      if (kWhole || k + i < k_end) v[i] = __ldg(reinterpret_cast<const u16*>(column + (k + i) * leading));
    }
    return make_uint4(v[0] | v[1] << 16, v[2] | v[3] << 16, v[4] | v[5] << 16, v[6] | v[7] << 16);
  }

  template <Type kType>
  static __device__ __forceinline__ void expand(const uint4& raw, u32 (&out)[kWords]) {
    if constexpr (kFloat8) {
      to_halves<kType>(raw.x, out[0], out[1]);
      to_halves<kType>(raw.y, out[2], out[3]);
      to_halves<kType>(raw.z, out[4], out[5]);
      to_halves<kType>(raw.w, out[6], out[7]);
    } else {
      out[0] = raw.x, out[1] = raw.y, out[2] = raw.z, out[3] = raw.w;
    }
  }

  template <bool kWhole>
  static __device__ __forceinline__ uint4 load_x(const Operands& o, const char* const (&row)[kTilesX],
                                                 int tile, int k) {
    if constexpr (kXAlongK) {
      return load_k<kAlignedX, kWhole, false>(row[tile], k, o.k_end);
    } else {
      return gather_k<kWhole>(row[tile], o.x_leading, k, o.k_end);
    }
  }

  // kCount chunks from k on, W along k: lane 4 g + t holds rows g and g + 8 of 16 columns of W.
  template <bool kWhole, int kCount>
  static __device__ __forceinline__ void step_along(Acc (&acc)[kTilesW][kTilesX][4], const Operands& o,
                                                    const char* const (&x_row)[kTilesX],
                                                    const char* const (&w_row)[kTilesW][2], int k) {
    uint4 w[kCount][kTilesW][2];
#pragma unroll
    for (int u = 0; u < kCount; ++u)
#pragma unroll
      for (int j = 0; j < kTilesW; ++j)
#pragma unroll
        for (int h = 0; h < 2; ++h)
          w[u][j][h] = load_k<kAlignedW, kWhole, true>(w_row[j][h], k + u * kChunk, o.k_end);
#pragma unroll
    for (int u = 0; u < kCount; ++u) {
      u32 lo[kTilesW][kWords], hi[kTilesW][kWords];
#pragma unroll
      for (int j = 0; j < kTilesW; ++j) expand<kTypeW>(w[u][j][0], lo[j]), expand<kTypeW>(w[u][j][1], hi[j]);
#pragma unroll
      for (int i = 0; i < kTilesX; ++i) {
        u32 x[kWords];
        expand<kTypeX>(load_x<kWhole>(o, x_row, i, k + u * kChunk), x);
#pragma unroll
        for (int j = 0; j < kTilesW; ++j)
#pragma unroll
          for (int q = 0; q < kWords; q += 2)
            mma<kTypeW, kTypeX>(acc[j][i], lo[j][q], hi[j][q], lo[j][q + 1], hi[j][q + 1], x[q], x[q + 1]);
      }
    }
  }

  // 32 rows of k, W along its columns: lane 4 g + t holds 8 neighbouring columns of 8 rows, and pairs rows
  // up. The instruction's row g of tile j is column 8 g + 2 j of the warp's, row g + 8 the one beside it.
  template <bool kWhole>
  static __device__ __forceinline__ void step_across(Acc (&acc)[kTilesW][kTilesX][4], const Operands& o,
                                                     const char* const (&x_row)[kTilesX], const char* w,
                                                     int left, int k) {
    uint4 r[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      r[i] = make_uint4(0, 0, 0, 0);
      if (kWhole || k + i < o.k_end) r[i] = load<kAlignedW, false, true>(w + (k + i) * o.w_leading, left);
    }
    u32 pairs[4][8];
#pragma unroll
    for (int p = 0; p < 4; ++p) {
      const u32 even[4] = {r[2 * p].x, r[2 * p].y, r[2 * p].z, r[2 * p].w};
      const u32 odd[4] = {r[2 * p + 1].x, r[2 * p + 1].y, r[2 * p + 1].z, r[2 * p + 1].w};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        pairs[p][2 * i] = __byte_perm(even[i], odd[i], 0x5410);
        pairs[p][2 * i + 1] = __byte_perm(even[i], odd[i], 0x7632);
      }
    }
#pragma unroll
    for (int i = 0; i < kTilesX; ++i) {
      u32 x[kWords];
      expand<kTypeX>(load_x<kWhole>(o, x_row, i, k), x);
#pragma unroll
      for (int j = 0; j < 4; ++j)
#pragma unroll
        for (int q = 0; q < 4; q += 2)
          mma<kTypeW, kTypeX>(acc[j][i], pairs[q][2 * j], pairs[q][2 * j + 1], pairs[q + 1][2 * j],
                              pairs[q + 1][2 * j + 1], x[q], x[q + 1]);
    }
  }

  // The warp's first load of W, on its way while the kernel before this one ends.
  static __device__ __forceinline__ void prefetch(const Operands& o, const Place& at, int column,
                                                  int warp_k) {
    const int lane = threadIdx.x % 32, k = at.k_begin + warp_k * kDepth;
    if (k >= o.k_end) return;
    if constexpr (kWAlongK) {  // rows of 256 bytes, half of one a lane
      const int first = min(k + lane % 2 * (kDepth / 2), o.k_end - 1);
#pragma unroll
      for (int j = 0; j < kTilesW; ++j)
        ptx::prefetch_l2(o.w + min(column + 16 * j + lane / 2, o.cols - 1) * o.w_leading +
                         static_cast<i64>(first) * kElement);
    } else {  // 32 rows of 128 bytes
      ptx::prefetch_l2(o.w + min(k + lane, o.k_end - 1) * o.w_leading +
                       static_cast<i64>(min(column, o.cols - 1)) * kElement);
    }
  }

  static __device__ __forceinline__ void run(const Params& params) {
    const BlockArgs& args = params.args;
    ptx::let_next_kernel_start();
    const Place at(args);
    const Operands o(args, at);
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int warp = threadIdx.x / 32, warp_n = warp % C::wave_n, warp_k = warp / C::wave_n;
    const int column = at.tile_n * kColumns + warp_n * C::tile_n;  // the warp's first
    if (static_cast<int>(blockIdx.x) < args.first_blocks) prefetch(o, at, column, warp_k);
    ptx::wait_for_previous_kernel();

    Acc acc[kTilesW][kTilesX][4] = {};
    // Rows beyond the last repeat it; what they give is not stored.
    const char* x_row[kTilesX];
#pragma unroll
    for (int i = 0; i < kTilesX; ++i)
      x_row[i] = o.x + min(g + 8 * i, o.rows - 1) * (kXAlongK ? o.x_leading : kElement);
    const int lane_k = t * (kWAlongK ? kSpan : 8);

    if constexpr (kWAlongK) {
      const char* w_row[kTilesW][2];
#pragma unroll
      for (int j = 0; j < kTilesW; ++j)
#pragma unroll
        for (int h = 0; h < 2; ++h)
          w_row[j][h] = o.w + min(column + 16 * j + 8 * h + g, o.cols - 1) * o.w_leading;
#pragma unroll 1
      for (int k = at.k_begin + warp_k * kDepth; k < o.k_end; k += C::wave_k * kDepth) {
        if (k + kDepth <= o.k_end) {
          step_along<true, kChunks>(acc, o, x_row, w_row, k + lane_k);
        } else {
          constexpr int kAtOnce = kAligned && kFragments == 1 ? kChunks / 2 : 1;
#pragma unroll 1
          for (int u = k; u < o.k_end; u += kAtOnce * kChunk)
            step_along<false, kAtOnce>(acc, o, x_row, w_row, u + lane_k);
        }
      }
    } else {
      const int first = min(column + 8 * g, kAlignedW ? o.cols - 8 : o.cols - 1);
      const char* w = o.w + static_cast<i64>(first) * kElement;
      const int bytes = (o.cols - first) * kElement;
#pragma unroll 1
      for (int k = at.k_begin + warp_k * kDepth; k < o.k_end; k += C::wave_k * kDepth) {
        if (k + kDepth <= o.k_end) {
          step_across<true>(acc, o, x_row, w, bytes, k + lane_k);
        } else {
          step_across<false>(acc, o, x_row, w, bytes, k + lane_k);
        }
      }
    }

    extern __shared__ __align__(16) u32 sums[];  // of each warp along k: kSums, a row of X after the other
    u32* mine = sums + warp_k * kSums + warp_n * C::tile_n;
#pragma unroll
    for (int j = 0; j < kTilesW; ++j)
#pragma unroll
      for (int i = 0; i < kTilesX; ++i)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int w = kWAlongK ? 16 * j + g + 8 * (e / 2) : 8 * g + 2 * j + e / 2;
          mine[(8 * i + 2 * t + e % 2) * kColumns + w] = bits_of(acc[j][i][e]);
        }
    __syncthreads();
    store(args, at, o, sums);
  }

  static __device__ __forceinline__ Acc total(const u32* from, int count, int step) {
    Acc sum = 0;
    for (int i = 0; i < count; ++i) {
      Acc x;
      from_bits(from[static_cast<i64>(i) * step], x);
      sum += x;
    }
    return sum;
  }

  static __device__ __forceinline__ void store(const BlockArgs& args, const Place& at, const Operands& o,
                                               const u32* sums) {
    const int first = at.tile_n * kColumns;
    u32* parts = static_cast<u32*>(args.partials) + static_cast<i64>(at.tile) * args.parts * kSums;
    if (args.parts > 1) {
      for (int e = threadIdx.x; e < o.rows * kColumns; e += kThreads)
        __stcg(parts + static_cast<i64>(at.part) * kSums + e, bits_of(total(sums + e, C::wave_k, kSums)));
      if (!comes_last(args.arrivals + at.tile, args.parts)) return;
    }
#pragma unroll 1
    for (int e = threadIdx.x; e < o.rows * kColumns; e += kThreads) {
      // Neighbouring threads on neighbours of a row of C.
      const int x = kSwap ? e % o.rows : e / kColumns, w = kSwap ? e / o.rows : e % kColumns;
      const int index = x * kColumns + w;
      if (first + w >= o.cols) continue;
      Acc sum = 0;
      if (args.parts > 1) {
#pragma unroll 4
        for (int p = 0; p < args.parts; ++p) {
          Acc part;
          from_bits(__ldcg(parts + static_cast<i64>(p) * kSums + index), part);
          sum += part;
        }
      } else {
        sum = total(sums + index, C::wave_k, kSums);
      }
      const u32 bits[1] = {bits_of(sum)};
      if constexpr (kSwap) {
        Output<C>::template finish<1>(bits, first + w, x, args.n, at.batch, args);
      } else {
        Output<C>::template finish<1>(bits, x, first + w, args.n, at.batch, args);
      }
    }
  }
};

}  // namespace tsr
