// GEMM on mma.sync: blocks stage block_k of A and B in a ring in shared memory while their warps multiply
// what is there. Operands whose lines start at multiples of 16 bytes come by cp.async; others, and 8-bit
// floats (which are multiplied as f16, so exactly), through registers.
#pragma once

#include "cuda/abi.h"
#include "cuda/blocks.h"
#include "cuda/mma.h"
#include "cuda/output.h"
#include "cuda/unaligned.h"

namespace tsr {

template <class C>
struct cp_async {
  typedef BlockParams Params;

  static constexpr bool kInteger = !is_float(C::type_a);
  static constexpr bool kFloat8 = bytes_of(C::type_a) == 1 && !kInteger;
  static constexpr int kElement = kInteger ? 1 : 2;  // as the tensor cores take it
  static constexpr CpAsyncShape kShape = {C::block_m, C::block_n, C::block_k, C::wave_m,
                                          C::wave_n,  C::stages,  kElement};
  static constexpr int kThreads = kShape.threads(), kMinBlocks = 1, kStages = C::stages;
  static constexpr int kM = C::block_m, kN = C::block_n, kK = C::block_k;
  static constexpr int kWarpM = kM / C::wave_m, kWarpN = kN / C::wave_n;
  static constexpr int kTilesM = kWarpM / 16, kTilesN = kWarpN / 8;
  static constexpr int kStep = 32 / kElement;  // k of one instruction
  static constexpr int kSpan = 16 / kElement;  // elements of 16 bytes of shared memory

  typedef typename Output<C>::Acc Acc;

  static_assert(kWarpM % 16 == 0 && kWarpN % 16 == 0 && kK % kStep == 0 && kStages >= 2);
  static_assert(!kInteger || (C::a_along_k && C::b_along_k), "integers lie along k");

  // Where 16 bytes of a line of kBytes lie: spread so that 8 lines' pieces of one column fall into different
  // banks.
  template <int kBytes>
  static __device__ __forceinline__ u32 swizzled(int line, int piece) {
    constexpr int kPieces = kBytes / 16;
    static_assert(kPieces >= 2);
    const int x = kPieces >= 8 ? line % 8 : line / (8 / kPieces) % kPieces;
    return static_cast<u32>(line * kBytes + ((piece ^ x) * 16));
  }

  // One operand: kRows rows (of A, columns of B) by kK elements a stage, lines as in memory.
  template <Type kType, int kRows, bool kAlongK, bool kAligned>
  struct Operand {
    static constexpr bool kDirect = kAligned && !kFloat8;  // by cp.async
    static constexpr int kLines = kAlongK ? kRows : kK, kLength = kAlongK ? kK : kRows;
    static constexpr int kLineBytes = kLength * kElement;
    static constexpr int kIn = bytes_of(kType);
    static constexpr int kPieceElements = 16 / kIn;  // of a piece of memory
    static constexpr int kPieces = kLength / kPieceElements, kAll = kLines * kPieces;
    static constexpr int kEach = (kAll + kThreads - 1) / kThreads;
    static_assert(kLength % kPieceElements == 0);

    const char* base;
    i64 leading;  // bytes
    int first, rows, k_end;
    uint4 low[kDirect ? 1 : kEach], high[kDirect || kAligned ? 1 : kEach];

    __device__ __forceinline__ Operand(const void* p, i64 ld, int first_row, int all_rows, int end)
        : base(static_cast<const char*>(p)),
          leading(ld * kIn),
          first(first_row),
          rows(all_rows),
          k_end(end) {}

    // The i-th piece of this thread: its line and first element there, and how many bytes of it exist.
    __device__ __forceinline__ const char* piece(int i, int k, int* line, int* at, int* bytes) const {
      const int index = i * kThreads + static_cast<int>(threadIdx.x);
      *line = index / kPieces, *at = index % kPieces * kPieceElements;
      const int row = first + (kAlongK ? *line : *at), depth = k + (kAlongK ? *at : *line);
      const bool there = row < rows && depth < k_end && (kAll % kThreads == 0 || index < kAll);
      *bytes = there ? min(16, ((kAlongK ? k_end - depth : rows - row)) * kIn) : 0;
      return base + (kAlongK ? row * leading + static_cast<i64>(depth) * kIn
                             : depth * leading + static_cast<i64>(row) * kIn);
    }

    __device__ __forceinline__ void load(u32 shared, int k) {
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        int line, at, bytes;
        const char* from = piece(i, k, &line, &at, &bytes);
        if constexpr (kDirect) {
          if (kAll % kThreads == 0 || i * kThreads + static_cast<int>(threadIdx.x) < kAll)
            ptx::cp_async(shared + swizzled<kLineBytes>(line, at / kSpan), bytes ? from : base, bytes);
        } else {
          const int skip = kAligned ? 0 : unaligned::skip_of(from);
          const uint4* p = reinterpret_cast<const uint4*>(from - skip);
          low[i] = bytes > 0 ? __ldg(p) : make_uint4(0, 0, 0, 0);
          if constexpr (!kAligned)
            high[i] = skip > 0 && bytes > 16 - skip ? __ldg(p + 1) : make_uint4(0, 0, 0, 0);
        }
      }
    }

    // What load() left in registers.
    __device__ __forceinline__ void store(u32 shared, int k) const {
      if constexpr (!kDirect) {
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
          int line, at, bytes;
          const char* from = piece(i, k, &line, &at, &bytes);
          if (kAll % kThreads && i * kThreads + static_cast<int>(threadIdx.x) >= kAll) continue;
          uint4 v = low[i];
          if constexpr (!kAligned)
            v = unaligned::combine(v, high[i], bytes > 0 ? unaligned::skip_of(from) : 0);
          if (bytes < 16) v = unaligned::first_bytes(v, bytes);
          if constexpr (kFloat8) {
            uint4 x, y;
            to_halves<kType>(v.x, x.x, x.y);
            to_halves<kType>(v.y, x.z, x.w);
            to_halves<kType>(v.z, y.x, y.y);
            to_halves<kType>(v.w, y.z, y.w);
            ptx::store_shared(shared + swizzled<kLineBytes>(line, at / kSpan), x);
            ptx::store_shared(shared + swizzled<kLineBytes>(line, at / kSpan + 1), y);
          } else {
            ptx::store_shared(shared + swizzled<kLineBytes>(line, at / kSpan), v);
          }
        }
      }
    }

    // A 16 x 32-byte tile as the instruction takes A, from `row` and element `k` of the stage. Of B these are
    // two neighbouring tiles of 8 columns: words 0 and 2 are one's, 1 and 3 the other's.
    static __device__ __forceinline__ void fragment(u32 shared, int row, int k, u32 (&r)[4]) {
      const int lane = threadIdx.x % 32;
      if constexpr (kAlongK) {
        ptx::ldmatrix(r, shared + swizzled<kLineBytes>(row + lane % 16, k / kSpan + lane / 16));
      } else {
        // Matrices in the order of r: (rows 0-7, k 0-7), (rows 8-15, k 0-7), (rows 0-7, k 8-15), (rows 8-15,
        // k 8-15).
        ptx::ldmatrix_transposed(
            r, shared + swizzled<kLineBytes>(k + lane % 8 + lane / 16 * 8, (row + lane / 8 % 2 * 8) / kSpan));
      }
    }
  };
  typedef Operand<C::type_a, kM, C::a_along_k != 0, C::vec_a * bytes_of(C::type_a) == 16> OperandA;
  typedef Operand<C::type_b, kN, C::b_along_k != 0, C::vec_b * bytes_of(C::type_b) == 16> OperandB;

  static __device__ __forceinline__ void multiply(Acc (&acc)[kTilesM * kTilesN * 4], u32 a, u32 b, int row,
                                                  int col) {
#pragma unroll
    for (int k = 0; k < kK; k += kStep) {
      u32 x[kTilesM][4], y[kTilesN / 2][4];
#pragma unroll
      for (int i = 0; i < kTilesM; ++i) OperandA::fragment(a, row + 16 * i, k, x[i]);
#pragma unroll
      for (int j = 0; j < kTilesN / 2; ++j) OperandB::fragment(b, col + 16 * j, k, y[j]);
#pragma unroll
      for (int i = 0; i < kTilesM; ++i)
#pragma unroll
        for (int j = 0; j < kTilesN; ++j)
          mma<kFloat8 ? Type::f16 : C::type_a, kFloat8 ? Type::f16 : C::type_b>(
              reinterpret_cast<Acc(&)[4]>(acc[(i * kTilesN + j) * 4]), x[i][0], x[i][1], x[i][2], x[i][3],
              y[j / 2][j % 2], y[j / 2][j % 2 + 2]);
    }
  }

  static __device__ __forceinline__ void run(const Params& params) {
    const BlockArgs& args = params.args;
    ptx::let_next_kernel_start();
    ptx::wait_for_previous_kernel();
    extern __shared__ __align__(128) unsigned char memory[];
    const u32 shared = ptx::shared_address(memory);
    const Place at(args);
    const int warp = threadIdx.x / 32, row = warp % C::wave_m * kWarpM, col = warp / C::wave_m * kWarpN;
    OperandA a(static_cast<const char*>(args.a) + at.batch * args.a_batch_stride * OperandA::kIn,
               args.a_leading, at.tile_m * kM, args.m, at.k_end);
    OperandB b(static_cast<const char*>(args.b) + at.batch * args.b_batch_stride * OperandB::kIn,
               args.b_leading, at.tile_n * kN, args.n, at.k_end);
    constexpr u32 kStage = kShape.bytes_a() + kShape.bytes_b();
    const auto stage = [&](int slot) { return shared + slot * kStage; };
    const auto load = [&](int slot, int k) {
      if (k < at.k_end) {
        a.load(stage(slot), k);
        b.load(stage(slot) + kShape.bytes_a(), k);
      }
      ptx::cp_async_commit();
    };
    const auto store = [&](int slot, int k) {
      if (k < at.k_end) {
        a.store(stage(slot), k);
        b.store(stage(slot) + kShape.bytes_a(), k);
      }
    };

    Acc acc[kTilesM * kTilesN * 4] = {};
#pragma unroll 1
    for (int s = 0; s < kStages - 1; ++s) {
      load(s, at.k_begin + s * kK);
      store(s, at.k_begin + s * kK);
    }
    int slot = 0, next = kStages - 1;
#pragma unroll 1
    for (int k = at.k_begin; k < at.k_end; k += kK) {
      ptx::cp_async_wait<kStages - 2>();
      __syncthreads();  // the stage is there for all, and the one before it is free
      const int ahead = k + (kStages - 1) * kK;
      load(next, ahead);
      multiply(acc, stage(slot), stage(slot) + kShape.bytes_a(), row, col);
      store(next, ahead);
      slot = slot + 1 == kStages ? 0 : slot + 1;
      next = next + 1 == kStages ? 0 : next + 1;
    }
    ptx::cp_async_wait<0>();
    if (!add_parts(acc, at, args)) return;
    __syncthreads();
    write(acc, args, memory, at.tile_m * kM + row, at.tile_n * kN + col, at.batch);
  }

  // A warp's sums through its own piece of shared memory, 16 rows at a time, so that lanes store neighbours.
  // The loop over these stays one, so that what follows is compiled once, in place.
  static __device__ __forceinline__ void write(const Acc (&acc)[kTilesM * kTilesN * 4], const BlockArgs& args,
                                               unsigned char* memory, int first_row, int first_col,
                                               int batch) {
    constexpr int kRow = kShape.row_c();
    u32* mine = reinterpret_cast<u32*>(memory) + threadIdx.x / 32 * (16 * kRow);
    const int lane = threadIdx.x % 32;
#pragma unroll 1
    for (int tile = 0; tile < kTilesM; ++tile) {
      __syncwarp();
#pragma unroll
      for (int i = 0; i < kTilesM; ++i) {
        if (i != tile) continue;
#pragma unroll
        for (int j = 0; j < kTilesN; ++j)
#pragma unroll
          for (int h = 0; h < 2; ++h)
            *reinterpret_cast<uint2*>(mine + (lane / 4 + 8 * h) * kRow + 8 * j + lane % 4 * 2) = make_uint2(
                bits_of(acc[(i * kTilesN + j) * 4 + 2 * h]), bits_of(acc[(i * kTilesN + j) * 4 + 2 * h + 1]));
      }
      __syncwarp();
      if (args.wide) {
        write_rows<4>(mine, first_row + 16 * tile, first_col, batch, args);
      } else {
        write_rows<1>(mine, first_row + 16 * tile, first_col, batch, args);
      }
    }
  }
  template <int kWidth>
  static __device__ __forceinline__ void write_rows(const u32* mine, int first_row, int first_col, int batch,
                                                    const BlockArgs& args) {
    constexpr int kAcross = kWarpN / kWidth;
#pragma unroll 2
    for (int q = threadIdx.x % 32; q < 16 * kAcross; q += 32) {
      const int row = first_row + q / kAcross, col = first_col + q % kAcross * kWidth;
      if (row >= args.m || col >= args.n) continue;
      const u32* from = mine + q / kAcross * kShape.row_c() + q % kAcross * kWidth;
      u32 bits[kWidth];
      if constexpr (kWidth == 4) {
        const uint4 v = *reinterpret_cast<const uint4*>(from);
        bits[0] = v.x, bits[1] = v.y, bits[2] = v.z, bits[3] = v.w;
      } else {
        bits[0] = *from;
      }
      Output<C>::template finish<kWidth>(bits, row, col, args.n, batch, args);
    }
  }
};

}  // namespace tsr
