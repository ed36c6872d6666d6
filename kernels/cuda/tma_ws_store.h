// How a warpgroup of a tma_ws kernel writes its part of C: through shared memory, by TMA where nothing but a
// conversion is due, else a row at a time with everything that the problem asks for.
#pragma once

#include "cuda/tma_ws_config.h"

namespace tsr {

template <class C>
struct TmaWsStore : TmaWsConfig<C> {
  typedef TmaWsConfig<C> T;
  typedef typename T::Acc Acc;
  typedef typename T::Out Out;
  using T::kAccs;
  using T::kBlockN;
  using T::kBlocksM;
  using T::kBuffers;
  using T::kInner;
  using T::kInnerBytes;
  using T::kOut;
  using T::kShape;
  using T::kSlice;
  using T::kSliceBytes;
  using T::kSlices;

  // Byte offset of (row, column) in a slice that is staged for TMA.
  static __device__ __forceinline__ u32 staged(int row, int column) {
    u32 at;
    if constexpr (C::swap_ab) {
      at = (row / kInner * kSlice + column) * kInnerBytes + row % kInner * kOut;
    } else {
      at = row * kInnerBytes + column * kOut;
    }
    constexpr u32 kMask = kInnerBytes / 16 - 1;
    return at ^ (at >> 7 & kMask) << 4;
  }

  static __device__ __forceinline__ float scaled(Acc acc, const TmaWsArgs& args) {
    return static_cast<float>(acc) * args.epilogue.alpha;
  }
  static __device__ __forceinline__ u32 scaled_pair(const Acc* v, const TmaWsArgs& args) {
    return pack2<C::type_out>(scaled(v[0], args), scaled(v[1], args));
  }
  static constexpr bool kRaw = Output<C>::kRaw;

  // Two neighbours of a row.
  static __device__ __forceinline__ void stage_pair(u32 buffer, const Acc* v, int row, int col,
                                                    const TmaWsArgs& args) {
    u32 first, second;  // as 4-byte elements
    if constexpr (kRaw) {
      first = static_cast<u32>(v[0]), second = static_cast<u32>(v[1]);
    } else if constexpr (kOut == 4) {
      first = word_of<C::type_out>(scaled(v[0], args)), second = word_of<C::type_out>(scaled(v[1], args));
    } else {
      first = scaled_pair(v, args);
      second = first >> 8 * kOut;
    }
    u32 to = buffer + staged(row, col);
    if constexpr (C::swap_ab) {
      ptx::store_shared(to, static_cast<Out>(first));
      ptx::store_shared(buffer + staged(row, col + 1), static_cast<Out>(second));
    } else if constexpr (kOut == 4) {
      ptx::store_shared(to, first, second);
    } else if constexpr (kOut == 2) {
      ptx::store_shared(to, first);
    } else {
      ptx::store_shared(to, static_cast<u16>(first));
    }
  }

  // alpha * A B in the output type, by TMA. `row`: of the warpgroup's first row in C.
  static __device__ __forceinline__ void store_plain(Acc (&acc)[kBlocksM][kAccs], const TensorMap* map,
                                                     int first_row, int first_col, int batch, u32 memory,
                                                     const TmaWsArgs& args, int barrier, int& rounds,
                                                     int group, int part) {
    int thread = threadIdx.x % 128, warp = thread / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < kBlocksM; ++i) {
#pragma unroll
      for (int slice = 0; slice < kSlices; ++slice) {
        if (!T::owns(part, group, i, slice)) continue;
        u32 buffer = memory + rounds % kBuffers * kSliceBytes;
        ++rounds;
        if (thread == 0) ptx::tma_store_wait_read<kBuffers - 1>();
        ptx::named_barrier(barrier, 128);
        if constexpr (kOut == 2 && kSlice % 16 == 0) {
          // Lane l addresses row l % 8 (column when transposed) of matrix l / 8: upper and lower 8 rows of 8
          // columns, then of the next 8.
          int half = lane / 8 % 2 * 8, next = lane / 16 * 8;
#pragma unroll
          for (int j = 0; j < kSlice; j += 16) {
            const Acc* v = &acc[i][(slice * kSlice + j) / 2];
            u32 x[4];
#pragma unroll
            for (int e = 0; e < 4; ++e) x[e] = scaled_pair(v + 2 * e, args);
            if constexpr (C::swap_ab) {
              ptx::stmatrix_transposed(buffer + staged(warp * 16 + half, j + next + lane % 8), x[0], x[1],
                                       x[2], x[3]);
            } else {
              ptx::stmatrix(buffer + staged(warp * 16 + half + lane % 8, j + next), x[0], x[1], x[2], x[3]);
            }
          }
        } else {
#pragma unroll
          for (int j = 0; j < kSlice; j += 8) {
#pragma unroll
            for (int h = 0; h < 2; ++h)
              stage_pair(buffer, &acc[i][(slice * kSlice + j) / 2 + 2 * h], warp * 16 + lane / 4 + 8 * h,
                         j + lane % 4 * 2, args);
          }
        }
        ptx::fence_async_shared();
        ptx::named_barrier(barrier, 128);
        if (thread == 0) {
          int row = first_row + i * 64, col = first_col + slice * kSlice;
          if constexpr (C::swap_ab) {
#pragma unroll
            for (int p = 0; p < 64 / kInner; ++p)
              ptx::tma_store(map, buffer + p * kSlice * kInnerBytes, row + p * kInner, col, batch);
          } else {
            ptx::tma_store(map, buffer, col, row, batch);
          }
          ptx::tma_store_commit();
        }
      }
    }
  }

  // Byte offset of an accumulator in a slice that is staged for the epilogue: rows of C are contiguous.
  static __device__ __forceinline__ u32 staged_acc(int row, int col) {
    constexpr int kColumns = kShape.epilogue_slice();
    if constexpr (C::swap_ab) {
      u32 at = col * 256 + row * 4;
      return at ^ (at >> 9 & 7) << 4;
    } else {
      u32 at = (row * kColumns + col) * 4;
      return at ^ (at >> 7 & (kColumns / 4 - 1)) << 4;
    }
  }

  // Everything: alpha, beta, the steps, any alignment of C. The accumulators go through shared memory, so
  // that the threads that share a row of C read and write neighbours. Slices of them in a loop that the
  // compiler leaves one, so that what follows is compiled once, in place: called, it would take the arguments
  // through local memory, for which the stages leave no cache.
  static __device__ __forceinline__ void store_general(Acc (&acc)[kBlocksM][kAccs], int first_row,
                                                       int first_col, int batch, u32 memory,
                                                       const TmaWsArgs& args, int barrier, int group,
                                                       int part) {
    constexpr int kColumns = kShape.epilogue_slice(), kAcross = kBlockN / kColumns;
#pragma unroll 1
    for (int slice = 0; slice < kBlocksM * kAcross; ++slice) {
      if (!T::owns(part, group, slice / kAcross, slice % kAcross)) continue;
      ptx::named_barrier(barrier, 128);
#pragma unroll
      for (int s = 0; s < kBlocksM * kAcross; ++s)
        if (s == slice) stage_slice(&acc[s / kAcross][s % kAcross * kColumns / 2], memory);
      ptx::named_barrier(barrier, 128);
      finish_slice(first_row + slice / kAcross * 64, first_col + slice % kAcross * kColumns, batch, memory,
                   args);
    }
  }
  static __device__ __forceinline__ void stage_slice(const Acc* acc, u32 memory) {
    const int thread = threadIdx.x % 128, warp = thread / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int j = 0; j < kShape.epilogue_slice(); j += 8) {
      const Acc* v = acc + j / 2;
      const int row = warp * 16 + lane / 4, col = j + lane % 4 * 2;
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        if constexpr (C::swap_ab) {
          ptx::store_shared(memory + staged_acc(row + 8 * h, col), bits_of(v[2 * h]));
          ptx::store_shared(memory + staged_acc(row + 8 * h, col + 1), bits_of(v[2 * h + 1]));
        } else {
          ptx::store_shared(memory + staged_acc(row + 8 * h, col), bits_of(v[2 * h]), bits_of(v[2 * h + 1]));
        }
      }
    }
  }
  // Neighbouring threads take neighbours of a row of the problem's C, where they are aligned four at a time.
  static __device__ __forceinline__ void finish_slice(int first_row, int first_col, int batch, u32 memory,
                                                      const TmaWsArgs& args) {
    if (args.wide) {
      finish_lines<4>(first_row, first_col, batch, memory, args);
      return;
    }
    if constexpr (C::epilogue_count == 0 && !kRaw) {
      if (args.epilogue.beta == 0) {
        convert_lines(first_row, first_col, batch, memory, args);
        return;
      }
    }
    finish_lines<1>(first_row, first_col, batch, memory, args);
  }
  // alpha times the sums to rows of C that start anywhere: four neighbours at a time where memory is aligned
  // for them, the ends of a row one by one.
  static __device__ __forceinline__ void convert_lines(int first_row, int first_col, int batch, u32 memory,
                                                       const TmaWsArgs& args) {
    constexpr int kColumns = kShape.epilogue_slice();
    constexpr int kAlong = C::swap_ab ? 64 : kColumns, kLines = 64 * kColumns / kAlong;
    constexpr int kPieces = kAlong / 4 + 1;
    const int first = C::swap_ab ? first_col : first_row, along = C::swap_ab ? first_row : first_col;
    const int lines = min(kLines, (C::swap_ab ? args.cols : args.rows) - first);
    const int length = min(kAlong, (C::swap_ab ? args.rows : args.cols) - along);
    Out* const c = static_cast<Out*>(args.c) + batch * args.c_batch_stride + along;
#pragma unroll 1
    for (int q = static_cast<int>(threadIdx.x) % 128; q < lines * kPieces; q += 128) {
      const int line = q / kPieces;
      Out* const to = c + (first + line) * args.c_leading;
      const int at = (q - line * kPieces) * 4 - static_cast<int>(reinterpret_cast<u64>(to) / sizeof(Out) % 4);
      const int begin = max(at, 0), end = min(at + 4, length);
      if (begin >= end) continue;
      float x[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int place = min(max(at + i, 0), kAlong - 1);
        u32 bits[1];
        ptx::load_shared(memory + (C::swap_ab ? staged_acc(place, line) : staged_acc(line, place)), bits);
        Acc sum;
        from_bits(bits[0], sum);
        x[i] = scaled(sum, args);
      }
      if (end - begin == 4) {
        tsr::store<C::type_out>(to + at, x);
      } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float one[1] = {x[i]};
          if (at + i >= begin && at + i < end) tsr::store<C::type_out>(to + at + i, one);
        }
      }
    }
  }
  template <int kWidth>
  static __device__ __forceinline__ void finish_lines(int first_row, int first_col, int batch, u32 memory,
                                                      const TmaWsArgs& args) {
    constexpr int kColumns = kShape.epilogue_slice();
    constexpr int kAcross = (C::swap_ab ? 64 : kColumns) / kWidth;
#pragma unroll 1
    for (int i = 0; i < 64 * kColumns / kWidth / 128; ++i) {
      const int q = i * 128 + static_cast<int>(threadIdx.x) % 128;
      const int along = q % kAcross * kWidth, line = q / kAcross;
      int row = C::swap_ab ? along : line, col = C::swap_ab ? line : along;
      u32 bits[kWidth];
      ptx::load_shared(memory + staged_acc(row, col), bits);
      row += first_row, col += first_col;
      if (row < args.rows && col < args.cols) {
        if constexpr (C::swap_ab) {
          Output<C>::template finish<kWidth>(bits, col, row, args.rows, batch, args);
        } else {
          Output<C>::template finish<kWidth>(bits, row, col, args.cols, batch, args);
        }
      }
    }
  }

  // The warpgroup's rows from `row` on, columns from `col` on; with cluster_k the slices that part `part` of
  // k owns. `memory`: the warpgroup's own buffer. rounds: of that buffer so far.
  static __device__ __forceinline__ void store(Acc (&acc)[kBlocksM][kAccs], const TensorMap* map, int row,
                                               int col, int batch, u32 memory, const TmaWsArgs& args,
                                               int barrier, int& rounds, int group, int part) {
    if constexpr (T::kStoreTma && C::epilogue_count == 0) {
      if (args.epilogue.beta == 0 && (!kRaw || args.epilogue.alpha == 1)) {
        store_plain(acc, map, row, col, batch, memory, args, barrier, rounds, group, part);
        return;
      }
    }
    store_general(acc, row, col, batch, memory, args, barrier, group, part);
  }
};

}  // namespace tsr
