// GEMM on plain multiply-adds, for any type, layout and alignment: f32 sums in the order of k, or exact i32
// sums of four products at a time. A block stages block_k of its rows and columns in shared memory, a thread
// keeps tile_m x tile_n sums.
#pragma once

#include "cuda/abi.h"
#include "cuda/blocks.h"
#include "cuda/output.h"

namespace tsr {

template <class C>
struct simt {
  typedef BlockParams Params;

  static constexpr bool kInteger = !is_float(C::type_a);
  static constexpr SimtShape kShape = {C::block_m, C::block_n, C::block_k, C::tile_m,
                                       C::tile_n,  C::stages,  kInteger};
  static constexpr int kThreads = kShape.threads(), kMinBlocks = 1;
  static constexpr int kM = C::block_m, kN = C::block_n, kK = C::block_k, kTileM = C::tile_m,
                       kTileN = C::tile_n;
  static constexpr int kAcross = kN / kTileN, kDown = kM / kTileM;  // threads of a block
  // A thread's rows and columns come in groups of neighbours, groups a whole grid of threads apart.
  static constexpr int kGroupM = kTileM % 4 ? kTileM : 4, kGroupN = kTileN % 4 ? kTileN : 4;
  static constexpr int kSteps = kInteger ? kK / 4 : kK;  // of one multiply-add

  typedef typename Output<C>::Acc Acc;

  static_assert(kTileM % kGroupM == 0 && kTileN % kGroupN == 0 && (!kInteger || kK % 4 == 0));

  // A block's share of an operand: kRows rows (of A, columns of B) of kK elements, on the way through
  // registers.
  template <Type kType, int kRows, int kVec, bool kAlongK>
  struct Share {
    typedef Bits<kType> Element;
    static constexpr int kVectors = kRows * kK / kVec, kEach = (kVectors + kThreads - 1) / kThreads;
    static constexpr int kLine = kAlongK ? kK / kVec : kRows / kVec;  // vectors of a line along memory
    struct alignas(sizeof(Element) * kVec) Vector {
      Element e[kVec];
    };
    Vector v[kEach];

    static_assert(kAlongK ? kK % kVec == 0 : kRows % kVec == 0);

    static __device__ __forceinline__ bool place(int i, int* row, int* k) {
      const int index = i * kThreads + static_cast<int>(threadIdx.x), line = index / kLine,
                at = index % kLine * kVec;
      *row = kAlongK ? line : at;
      *k = kAlongK ? at : line;
      return kVectors % kThreads == 0 || index < kVectors;
    }

    // Beyond the operand and its part of k elements are zero.
    __device__ __forceinline__ void load(const void* base, i64 leading, int first, int rows, int k_first,
                                         int k_end) {
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        int row, k;
        const bool mine = place(i, &row, &k);
        row += first, k += k_first;
#pragma unroll
        for (int j = 0; j < kVec; ++j) v[i].e[j] = 0;
        if (mine && row < rows && k < k_end)
          v[i] = *reinterpret_cast<const Vector*>(static_cast<const Element*>(base) +
                                                  (kAlongK ? row * leading + k : k * leading + row));
      }
    }

    __device__ __forceinline__ void store(unsigned char* shared) const {
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        int row, k;
        if (!place(i, &row, &k)) continue;
#pragma unroll
        for (int j = 0; j < kVec; ++j) {
          const int r = row + (kAlongK ? 0 : j), x = k + (kAlongK ? j : 0);
          if constexpr (kInteger) {
            shared[(x / 4 * kRows + r) * 4 + x % 4] = v[i].e[j];
          } else {
            reinterpret_cast<float*>(shared)[x * (kRows + 4) + r] = to_float<kType>(v[i].e[j]);
          }
        }
      }
    }
  };

  template <int kRows, int kTile, int kGroup, int kThreadsAlong, class T>
  static __device__ __forceinline__ void read(const unsigned char* shared, int step, int thread,
                                              T (&out)[kTile]) {
    const T* line =
        reinterpret_cast<const T*>(shared) + step * (kInteger ? kRows : kRows + 4) + thread * kGroup;
#pragma unroll
    for (int i = 0; i < kTile; i += kGroup) {
      struct alignas(sizeof(T) * (kGroup % 2 ? 1 : kGroup)) Group {
        T e[kGroup];
      };
      const Group v = *reinterpret_cast<const Group*>(line + i * kThreadsAlong);
#pragma unroll
      for (int j = 0; j < kGroup; ++j) out[i + j] = v.e[j];
    }
  }

  static __device__ __forceinline__ void add(float& acc, float a, float b) { acc = fmaf(a, b, acc); }
  static __device__ __forceinline__ void add(int& acc, u32 a, u32 b) {
    if constexpr (C::type_a == Type::u8 && C::type_b == Type::u8) {
      asm("dp4a.u32.u32 %0, %1, %2, %0;" : "+r"(acc) : "r"(a), "r"(b));
    } else if constexpr (C::type_a == Type::u8) {
      asm("dp4a.u32.s32 %0, %1, %2, %0;" : "+r"(acc) : "r"(a), "r"(b));
    } else if constexpr (C::type_b == Type::u8) {
      asm("dp4a.s32.u32 %0, %1, %2, %0;" : "+r"(acc) : "r"(a), "r"(b));
    } else {
      asm("dp4a.s32.s32 %0, %1, %2, %0;" : "+r"(acc) : "r"(a), "r"(b));
    }
  }

  static __device__ __forceinline__ void multiply(Acc (&acc)[kTileM * kTileN], const unsigned char* a,
                                                  const unsigned char* b, int tx, int ty) {
    typedef typename Pick<kInteger, u32, float>::type Word;
#pragma unroll(kSteps < 8 ? kSteps : 8)
    for (int step = 0; step < kSteps; ++step) {
      Word x[kTileM], y[kTileN];
      read<kM, kTileM, kGroupM, kDown>(a, step, ty, x);
      read<kN, kTileN, kGroupN, kAcross>(b, step, tx, y);
#pragma unroll
      for (int i = 0; i < kTileM; ++i)
#pragma unroll
        for (int j = 0; j < kTileN; ++j) add(acc[i * kTileN + j], x[i], y[j]);
    }
  }

  static __device__ __forceinline__ void run(const Params& params) {
    const BlockArgs& args = params.args;
    ptx::let_next_kernel_start();
    ptx::wait_for_previous_kernel();
    extern __shared__ __align__(16) unsigned char shared[];
    const Place at(args);
    const int tx = threadIdx.x % kAcross, ty = threadIdx.x / kAcross;
    const int first_m = at.tile_m * kM, first_n = at.tile_n * kN;
    const char* a = static_cast<const char*>(args.a) + at.batch * args.a_batch_stride * bytes_of(C::type_a);
    const char* b = static_cast<const char*>(args.b) + at.batch * args.b_batch_stride * bytes_of(C::type_b);

    Acc acc[kTileM * kTileN] = {};
    Share<C::type_a, kM, C::vec_a, C::a_along_k != 0> share_a;
    Share<C::type_b, kN, C::vec_b, C::b_along_k != 0> share_b;
    const auto load = [&](int k) {
      share_a.load(a, args.a_leading, first_m, args.m, k, at.k_end);
      share_b.load(b, args.b_leading, first_n, args.n, k, at.k_end);
    };
    int slot = 0;
    if (at.k_begin < at.k_end) load(at.k_begin);
#pragma unroll 1
    for (int k = at.k_begin; k < at.k_end; k += kK) {
      unsigned char *to_a = shared + slot * kShape.stage_bytes(), *to_b = to_a + kShape.bytes(kM);
      if (C::stages == 1 && k > at.k_begin) __syncthreads();
      share_a.store(to_a);
      share_b.store(to_b);
      __syncthreads();
      if (k + kK < at.k_end) load(k + kK);
      multiply(acc, to_a, to_b, tx, ty);
      if (C::stages == 2) slot ^= 1;
    }
    if (add_parts(acc, at, args)) store(acc, args, first_m, first_n, at.batch, tx, ty);
  }

  static __device__ __forceinline__ void finish(const u32 (&bits)[kGroupN], int row, int col, int batch,
                                                const BlockArgs& args) {
    if constexpr (kGroupN == 4) {
      if (args.wide) {
        Output<C>::template finish<4>(bits, row, col, args.n, batch, args);
        return;
      }
    }
#pragma unroll
    for (int e = 0; e < kGroupN; ++e) {
      const u32 one[1] = {bits[e]};
      if (col + e < args.n) Output<C>::template finish<1>(one, row, col + e, args.n, batch, args);
    }
  }

  // The loop over a thread's groups stays one, so that what finishes them is compiled once, in place.
  static __device__ __forceinline__ void store(const Acc (&acc)[kTileM * kTileN], const BlockArgs& args,
                                               int first_m, int first_n, int batch, int tx, int ty) {
    constexpr int kGroups = kTileN / kGroupN;
#pragma unroll 1
    for (int group = 0; group < kTileM * kGroups; ++group) {
      const int i = group / kGroups, j = group % kGroups * kGroupN;
      const int row = first_m + i / kGroupM * kGroupM * kDown + ty * kGroupM + i % kGroupM;
      const int col = first_n + j * kAcross + tx * kGroupN;
      if (row >= args.m || col >= args.n) continue;
      u32 bits[kGroupN];
#pragma unroll
      for (int g = 0; g < kTileM * kGroups; ++g) {
        if (g != group) continue;
#pragma unroll
        for (int e = 0; e < kGroupN; ++e) bits[e] = bits_of(acc[g * kGroupN + e]);
      }
      finish(bits, row, col, batch, args);
    }
  }
};

}  // namespace tsr
