// GEMM on tensor cores fed by TMA: one producer warp fills a ring of shared-memory stages by TMA, warpgroups
// of consumers multiply them with wgmma, mbarriers between the two. Blocks are persistent and walk over tiles
// of C.
//
// The kernel sees rows x cols, C = A B; with swap_ab these are the problem's n x m and the product is written
// transposed. A team is the warpgroups that share a tile: the cooperative schedule has one team, ping-pong
// two that alternate, so that one multiplies while the other stores. Blocks of a cluster share the stages of
// the operand they have in common: each loads a part of it and multicasts it.
#pragma once

#include "cuda/abi.h"
#include "cuda/output.h"
#include "cuda/ptx.h"
#include "cuda/realign.h"
#include "cuda/wgmma.h"

namespace tsr {

template <class C>
struct tma_ws {
  typedef TmaWsParams Params;

  static constexpr Type kTypeA = C::swap_ab ? C::type_b : C::type_a,
                        kTypeB = C::swap_ab ? C::type_a : C::type_b;
  static constexpr bool kAlongA = C::swap_ab ? C::b_along_k : C::a_along_k;  // contiguous along k
  static constexpr bool kAlongB = C::swap_ab ? C::a_along_k : C::b_along_k;
  static constexpr int kElement = bytes_of(C::type_a), kOut = bytes_of(C::type_out);
  static constexpr TmaWsShape kShape = {
      C::block_m,   C::block_n,      C::block_k, C::wave_m, C::wave_groups, C::stages, C::cluster_m,
      C::cluster_n, C::swap_ab != 0, kAlongA,    kAlongB,   kElement,       kOut};
  static constexpr int kThreads = kShape.threads(), kMinBlocks = 1;

  static constexpr int kSwizzled = kShape.swizzled();
  static constexpr int kBlockM = C::block_m, kBlockN = C::block_n, kBlockK = C::block_k, kStages = C::stages;
  static constexpr int kCluster = kShape.cluster();
  static constexpr int kTeams = kShape.teams(), kTeamGroups = kShape.team_groups(), kGroups = kShape.groups();
  static constexpr int kBlocksM = kShape.blocks_m();
  static constexpr int kRowsB = kShape.rows_b();
  static constexpr int kBytesA = kShape.bytes_a(), kBytesB = kShape.bytes_b();
  static constexpr int kPartsA = kShape.parts_a(), kPartsB = kShape.parts_b();
  static constexpr int kSlice = kShape.slice(), kSlices = kShape.slices(), kSliceBytes = kShape.slice_bytes();
  static constexpr int kInner = kShape.inner(), kInnerBytes = kInner * kOut;
  static constexpr int kBuffers = kShape.buffers(), kBytesC = kShape.bytes_c();
  static constexpr bool kStoreTma = C::store == 1;  // cshuffle: rows of C start at multiples of 16 bytes

  typedef Bits<C::type_out> Out;
  static constexpr bool kInteger = !is_float(C::type_a);
  typedef typename Output<C>::Acc Acc;
  static constexpr int kAccs = kBlockN / 2;

  // The tensor cores add products of 8-bit floats with some 14 bits: each step of k is added to f32 sums
  // apart.
  static constexpr bool kPromote = kElement == 1 && !kInteger;

  // Named barriers: one for each warpgroup, one for each team, one for each team's turn.
  static constexpr int kGroupBarrier = 1, kTeamBarrier = kGroupBarrier + kGroups,
                       kTurnBarrier = kTeamBarrier + kTeams;

  static_assert(kTeams == 1 || (kTeams == 2 && kTeamGroups == 1), "two teams of one warpgroup, or one team");
  static_assert(kStages <= 32 && kBlockM % (64 * kTeamGroups) == 0 && kBlockN % 8 == 0 &&
                kBlockK % kSwizzled == 0);
  static_assert(kElement == bytes_of(C::type_b));
  static_assert(kElement == 2 || (kAlongA && kAlongB), "only 16-bit operands may lie along m or n");

  struct Work {
    int m, n, batch;     // first row and column
    int k_begin, k_end;  // in steps
    int part, block;     // of k; index of the (block, batch)
  };

  static __device__ __forceinline__ int work_count(const TmaWsArgs& args) {
    int parts = C::split_k > 1 ? (args.k_steps + args.split_steps - 1) / args.split_steps : 1;
    return args.tiles_m * args.tiles_n * args.batches * parts;
  }

  // The index-th unit of work of this cluster. Tiles go in bands of `swizzle` columns (rows with raster 0) so
  // that the blocks running at one time cover a compact piece of C and share their operands in L2.
  static __device__ __forceinline__ Work work(int index, int rank, const TmaWsArgs& args) {
    Work w;
    int tiles = args.tiles_m * args.tiles_n;
    int outer = index / tiles, tile = index - outer * tiles;
    w.batch = outer;
    w.part = 0;
    w.k_begin = 0;
    w.k_end = args.k_steps;
    if constexpr (C::split_k > 1) {
      w.part = outer / args.batches;
      w.batch = outer - w.part * args.batches;
      w.k_begin = w.part * args.split_steps;
      w.k_end = min(args.k_steps, w.k_begin + args.split_steps);
    }
    int along = args.along_m ? args.tiles_m : args.tiles_n,
        across = args.along_m ? args.tiles_n : args.tiles_m;
    int band = tile / (args.swizzle * along), in_band = tile - band * args.swizzle * along;
    int width = min(args.swizzle, across - band * args.swizzle);
    int line = in_band / width, cross = band * args.swizzle + in_band - line * width;
    int m = (args.along_m ? line : cross) * C::cluster_m + rank % C::cluster_m;
    int n = (args.along_m ? cross : line) * C::cluster_n + rank / C::cluster_m;
    w.m = m * kBlockM;
    w.n = n * kBlockN;
    w.block = (w.batch * args.tiles_m * C::cluster_m + m) * (args.tiles_n * C::cluster_n) + n;
    return w;
  }

  struct Ring {
    int slot = 0;
    u32 phase = 0;
    __device__ __forceinline__ void advance() {
      if (++slot == kStages) slot = 0, phase ^= 1;
    }
    __device__ __forceinline__ void skip(int steps) {
      int at = slot + steps;
      phase ^= (at / kStages) & 1;
      slot = at % kStages;
    }
  };

  struct Shared {
    u32 a, b, c, full, empty, flag;
    __device__ __forceinline__ explicit Shared(u32 base)
        : a(base),
          b(a + kStages * kBytesA),
          c(b + kStages * kBytesB),
          full(c + kBytesC),
          empty(full + 8 * kStages),
          flag(empty + 8 * kStages) {}
  };

  static __device__ __forceinline__ void load_box(u32 to, const TensorMap* map, u32 bar, u16 mask, int x,
                                                  int y, int z, bool multicast) {
    if (multicast) {
      ptx::tma_load_multicast(to, map, bar, mask, x, y, z);
    } else {
      ptx::tma_load(to, map, bar, x, y, z);
    }
  }

  // One operand of one stage: part `part` of kParts of a tile of kRows rows (or columns) from `first`.
  template <bool kKMajor, int kRows, int kParts>
  static __device__ __forceinline__ void load_stage(u32 to, const TensorMap* map, u32 bar, int first, int k,
                                                    int batch, int part, u16 mask) {
    constexpr int kShare = kRows / kParts;
    if (kParts == 1) part = 0;
    if constexpr (kKMajor) {
#pragma unroll
      for (int j = 0; j < kBlockK / kSwizzled; ++j)
        load_box(to + (j * kRows + part * kShare) * 128, map, bar, mask, k + j * kSwizzled,
                 first + part * kShare, batch, kParts > 1);
    } else {
#pragma unroll
      for (int i = 0; i < kShare / 64; ++i)
        load_box(to + (part * (kShare / 64) + i) * kBlockK * 128, map, bar, mask,
                 first + part * kShare + i * 64, k, batch, kParts > 1);
    }
  }

  static __device__ __forceinline__ void produce(const TensorMap* a, const TensorMap* b,
                                                 const TmaWsArgs& args, const Shared& s, int rank) {
    int rank_m = rank % C::cluster_m, rank_n = rank / C::cluster_m;
    u16 mask_a = 0, mask_b = 0;
    for (int j = 0; j < C::cluster_n; ++j) mask_a |= 1 << (rank_m + j * C::cluster_m);
    for (int i = 0; i < C::cluster_m; ++i) mask_b |= 1 << (i + rank_n * C::cluster_m);

    Ring ring;
    int count = work_count(args);
#pragma unroll 1
    for (int t = blockIdx.x / kCluster; t < count; t += gridDim.x / kCluster) {
      Work w = work(t, rank, args);
#pragma unroll 1
      for (int k = w.k_begin; k < w.k_end; ++k) {
        ptx::mbarrier_wait(s.empty + 8 * ring.slot, ring.phase ^ 1);
        u32 bar = s.full + 8 * ring.slot;
        ptx::mbarrier_expect(bar, kBytesA + kBytesB);
        load_stage<kAlongA, kBlockM, kPartsA>(s.a + ring.slot * kBytesA, a, bar, w.m, k * kBlockK, w.batch,
                                              rank_n, mask_a);
        load_stage<kAlongB, kRowsB, kPartsB>(s.b + ring.slot * kBytesB, b, bar, w.n, k * kBlockK, w.batch,
                                             rank_m, mask_b);
        ring.advance();
      }
    }
    ptx::let_next_kernel_start();
    // A block must not end while another of its cluster can still arrive on its barriers.
    if constexpr (kCluster > 1) {
      for (int i = 0; i < kStages; ++i) {
        ptx::mbarrier_wait(s.empty + 8 * ring.slot, ring.phase ^ 1);
        ring.advance();
      }
    }
  }

  // The low half of an operand's descriptor; only the address (in 16-byte units, without the block's place in
  // its cluster) varies. 128-byte swizzle. K-major: 8 rows of 128 bytes each 1024 bytes. Otherwise 8 k-rows
  // of 64 elements each 1024 bytes, and block_k of them for each 64 elements.
  template <bool kKMajor>
  static __device__ __forceinline__ u32 descriptor(u32 address) {
    return (address & 0x3ffff) >> 4 | (kKMajor ? 1u : kBlockK * 128u / 16) << 16;
  }
  static __device__ __forceinline__ u64 whole(u32 low) {
    return (1ull << 62 | static_cast<u64>(1024 / 16) << 32) | low;
  }
  // 16-byte units from the start of a tile of kRows to its j-th 32-byte (16-row) step of k.
  template <bool kKMajor, int kRows>
  static constexpr int k_offset(int j) {
    return kKMajor ? (j / 4 * kRows * 128 + j % 4 * 32) / 16 : j * 16 * 128 / 16;
  }
  // From the start of A to its i-th 64 rows.
  static constexpr int row_offset(int i) { return (kAlongA ? i * 64 * 128 : i * kBlockK * 128) / 16; }

  static __device__ __forceinline__ void release(u32 empty, int lane) {
    if constexpr (kCluster == 1) {
      if (lane == 0) ptx::mbarrier_arrive(empty);
    } else {
      if (lane < kCluster) ptx::mbarrier_arrive_remote(empty, lane);
    }
  }

  static __device__ __forceinline__ void touch(Acc (&acc)[kBlocksM][kAccs]) {
#pragma unroll
    for (int i = 0; i < kBlocksM; ++i)
#pragma unroll
      for (int j = 0; j < kAccs; ++j) ptx::touch(acc[i][j]);
  }

  static __device__ __forceinline__ void multiply_step(Acc (&acc)[kBlocksM][kAccs], u32 desc_a, u32 desc_b,
                                                       bool add) {
    ptx::wgmma_fence();
#pragma unroll
    for (int j = 0; j < kBlockK * kElement / 32; ++j) {
#pragma unroll
      for (int i = 0; i < kBlocksM; ++i) {
        Wgmma<kBlockN>::template run<kTypeA, kTypeB, !kAlongA, !kAlongB>(
            acc[i], whole(desc_a + row_offset(i) + k_offset<kAlongA, kBlockM>(j)),
            whole(desc_b + k_offset<kAlongB, kRowsB>(j)), j > 0 || add);
      }
    }
    ptx::wgmma_commit();
  }

  static __device__ __forceinline__ void multiply(Acc (&acc)[kBlocksM][kAccs], const Work& w, const Shared& s,
                                                  Ring& ring, int team, int group, int lane) {
    // Teams multiply in turn. A stage's barrier tells only the parity of its use: a team that waited for a
    // use to come while the one before is still due would pass at once.
    if constexpr (kTeams > 1) ptx::named_barrier(kTurnBarrier + team, 256);
    u32 previous = 0;
    u32 base_a = descriptor<kAlongA>(s.a) + row_offset(group * kBlocksM);
    u32 base_b = descriptor<kAlongB>(s.b);
    Acc part[kPromote ? kBlocksM : 1][kAccs];
    auto step = [&](bool first) {
      ptx::mbarrier_wait(s.full + 8 * ring.slot, ring.phase);
      u32 desc_a = base_a + ring.slot * (kBytesA / 16);
      u32 desc_b = base_b + ring.slot * (kBytesB / 16);
      if constexpr (kPromote) {
        multiply_step(part, desc_a, desc_b, false);
        ptx::wgmma_wait<0>();
        release(s.empty + 8 * ring.slot, lane);
        touch(part);
#pragma unroll
        for (int i = 0; i < kBlocksM; ++i)
#pragma unroll
          for (int j = 0; j < kAccs; ++j) acc[i][j] = first ? part[i][j] : acc[i][j] + part[i][j];
      } else {
        multiply_step(acc, desc_a, desc_b, !first);
        if (!first) {
          // The step before this one is done with its stage once only this one is in flight.
          ptx::wgmma_wait<1>();
          release(previous, lane);
        }
        previous = s.empty + 8 * ring.slot;
      }
      ring.advance();
    };
    // The first step apart, for the compiler to see that nothing before it lives on in the accumulators.
    step(true);
#pragma unroll 1
    for (int k = w.k_begin + 1; k < w.k_end; ++k) step(false);
    if constexpr (kTeams > 1) ptx::named_barrier_arrive(kTurnBarrier + 1 - team, 256);
    if constexpr (!kPromote) {
      ptx::wgmma_wait<0>();
      release(previous, lane);
      touch(acc);
    }
  }

  // Adds the parts of k in their order. True for the block that came last and holds the sum; the others are
  // done.
  static __device__ __forceinline__ bool reduce(Acc (&acc)[kBlocksM][kAccs], const Work& w, const Shared& s,
                                                const TmaWsArgs& args, int team, int group) {
    constexpr int kVectors = kBlocksM * kAccs / 4;
    int parts = (args.k_steps + args.split_steps - 1) / args.split_steps;
    int thread = threadIdx.x % 128;
    float4* base = reinterpret_cast<float4*>(args.partials) +
                   static_cast<i64>(w.block) * parts * (kBlockM * kBlockN / 4) + group * (kVectors * 128) +
                   thread;
    float4* mine = base + static_cast<i64>(w.part) * (kBlockM * kBlockN / 4);
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const Acc* v = &acc[i * 4 / kAccs][i * 4 % kAccs];
      __stcg(mine + i * 128, make_float4(as_float(v[0]), as_float(v[1]), as_float(v[2]), as_float(v[3])));
    }
    __threadfence();
    ptx::named_barrier(kTeamBarrier + team, kTeamGroups * 128);
    u32 flag = s.flag + 4 * team;
    if (group == 0 && thread == 0) {
      unsigned seen = atomicAdd(args.arrivals + w.block, 1u);
      if (seen == parts - 1u) args.arrivals[w.block] = 0;
      ptx::store_shared(flag, static_cast<u32>(seen == parts - 1u));
      __threadfence();
    }
    ptx::named_barrier(kTeamBarrier + team, kTeamGroups * 128);
    u32 last;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(last) : "r"(flag) : "memory");
    if (!last) return false;
    __threadfence();
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      Acc* v = &acc[i * 4 / kAccs][i * 4 % kAccs];
      v[0] = v[1] = v[2] = v[3] = 0;
    }
#pragma unroll 1
    for (int p = 0; p < parts; ++p) {
      const float4* from = base + static_cast<i64>(p) * (kBlockM * kBlockN / 4);
#pragma unroll
      for (int i = 0; i < kVectors; ++i) {
        Acc* v = &acc[i * 4 / kAccs][i * 4 % kAccs];
        float4 x = __ldcg(from + i * 128);
        v[0] += as_acc(x.x), v[1] += as_acc(x.y), v[2] += as_acc(x.z), v[3] += as_acc(x.w);
      }
    }
    return true;
  }
  static __device__ __forceinline__ float as_float(float x) { return x; }
  static __device__ __forceinline__ float as_float(int x) { return __int_as_float(x); }
  static __device__ __forceinline__ Acc as_acc(float x) {
    if constexpr (kInteger) {
      return __float_as_int(x);
    } else {
      return x;
    }
  }

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
                                                     const TmaWsArgs& args, int barrier, int& rounds) {
    int thread = threadIdx.x % 128, warp = thread / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < kBlocksM; ++i) {
#pragma unroll
      for (int slice = 0; slice < kSlices; ++slice) {
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
  // that the threads that share a row of C read and write neighbours, and the chain of steps is in a loop,
  // compiled once.
  static __device__ __forceinline__ void store_general(Acc (&acc)[kBlocksM][kAccs], int first_row,
                                                       int first_col, int batch, u32 memory,
                                                       const TmaWsArgs& args, int barrier) {
    constexpr int kColumns = kShape.epilogue_slice();
    int thread = threadIdx.x % 128, warp = thread / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < kBlocksM; ++i) {
#pragma unroll
      for (int slice = 0; slice < kBlockN / kColumns; ++slice) {
        ptx::named_barrier(barrier, 128);
#pragma unroll
        for (int j = 0; j < kColumns; j += 8) {
          const Acc* v = &acc[i][(slice * kColumns + j) / 2];
          int row = warp * 16 + lane / 4, col = j + lane % 4 * 2;
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            if constexpr (C::swap_ab) {
              ptx::store_shared(memory + staged_acc(row + 8 * h, col), bits_of(v[2 * h]));
              ptx::store_shared(memory + staged_acc(row + 8 * h, col + 1), bits_of(v[2 * h + 1]));
            } else {
              ptx::store_shared(memory + staged_acc(row + 8 * h, col), bits_of(v[2 * h]),
                                bits_of(v[2 * h + 1]));
            }
          }
        }
        ptx::named_barrier(barrier, 128);
        finish_slice(first_row + i * 64, first_col + slice * kColumns, batch, memory, args);
      }
    }
  }
  // One copy for all slices of a tile. Neighbouring threads take neighbours of a row of the problem's C,
  // where they are aligned four at a time.
  static __device__ __noinline__ void finish_slice(int first_row, int first_col, int batch, u32 memory,
                                                   const TmaWsArgs& params) {
    // A copy, which stores to C cannot change: what the loop uses stays in registers.
    const TmaWsArgs args = params;
    if (args.wide) {
      finish_lines<4>(first_row, first_col, batch, memory, args);
    } else {
      finish_lines<1>(first_row, first_col, batch, memory, args);
    }
  }
  template <int kWidth>
  static __device__ __forceinline__ void finish_lines(int first_row, int first_col, int batch, u32 memory,
                                                      const TmaWsArgs& args) {
    constexpr int kColumns = kShape.epilogue_slice();
    constexpr int kAcross = (C::swap_ab ? 64 : kColumns) / kWidth;
#pragma unroll 4
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
  static __device__ __forceinline__ void store(Acc (&acc)[kBlocksM][kAccs], const TensorMap* map,
                                               const Work& w, const Shared& s, const TmaWsArgs& args,
                                               int consumer, int group, int& rounds) {
    u32 memory = s.c + consumer * kShape.group_bytes_c();
    int row = w.m + group * kBlocksM * 64;
    if constexpr (kStoreTma && C::epilogue_count == 0) {
      if (args.epilogue.beta == 0 && (!kRaw || args.epilogue.alpha == 1)) {
        store_plain(acc, map, row, w.n, w.batch, memory, args, kGroupBarrier + consumer, rounds);
        return;
      }
    }
    store_general(acc, row, w.n, w.batch, memory, args, kGroupBarrier + consumer);
  }

  static __device__ __forceinline__ void consume(const TensorMap* c, const TmaWsArgs& args, const Shared& s,
                                                 int rank, int consumer) {
    int team = consumer / kTeamGroups, group = consumer % kTeamGroups, lane = threadIdx.x % 32;
    Acc acc[kBlocksM][kAccs];
    Ring ring;
    int count = work_count(args), step = gridDim.x / kCluster, rounds = 0;
    int t = blockIdx.x / kCluster;
    if constexpr (kTeams > 1) {
      if (team == 1) ptx::named_barrier_arrive(kTurnBarrier, 256);
      if (team == 1 && t < count) {
        Work other = work(t, rank, args);
        ring.skip(other.k_end - other.k_begin);
        t += step;
      }
    }
#pragma unroll 1
    for (; t < count; t += step) {
      Work w = work(t, rank, args);
      multiply(acc, w, s, ring, team, group, lane);
      if (C::split_k == 1 || reduce(acc, w, s, args, team, group))
        store(acc, c, w, s, args, consumer, group, rounds);
      if constexpr (kTeams > 1) {
        t += step;
        if (t < count) {
          Work other = work(t, rank, args);
          ring.skip(other.k_end - other.k_begin);
        }
      }
    }
    if (kStoreTma && threadIdx.x % 128 == 0) ptx::tma_store_wait_read<0>();
  }

  static __device__ __forceinline__ void run(const Params& params) {
    const TensorMap *a = &params.a, *b = &params.b, *c = &params.c;
    const TmaWsArgs& args = params.args;
    extern __shared__ __align__(1024) unsigned char memory[];
    Shared s(ptx::shared_address(memory));
    int rank = kCluster > 1 ? static_cast<int>(ptx::cluster_rank()) : 0;
    if (threadIdx.x < kStages) {
      ptx::mbarrier_init(s.full + 8 * threadIdx.x, 1);
      ptx::mbarrier_init(s.empty + 8 * threadIdx.x, kCluster * C::wave_m);
      ptx::mbarrier_init_fence();
    } else if (threadIdx.x == 32) {
      ptx::prefetch_map(a);
      ptx::prefetch_map(b);
      if constexpr (kStoreTma) ptx::prefetch_map(c);
    }
    __syncwarp();
    if constexpr (kCluster > 1) {
      ptx::cluster_arrive();
      ptx::cluster_wait();
    } else {
      __syncthreads();
    }
    ptx::wait_for_previous_kernel();

    // Registers move from the producer to the consumers where these want more than an even share.
    constexpr int kTight = kBlocksM * kAccs > 192;  // accumulators that leave little beside them
    constexpr int kDown = kGroups == 1 ? 0 : kGroups == 3 ? 32 : kTight ? 24 : 40;
    constexpr int kUp = kGroups == 3 ? 160 : kTight ? 240 : 232;
    if (threadIdx.x < 128) {
      if constexpr (kDown > 0) ptx::registers_down<kDown>();
      if (threadIdx.x == 0) produce(a, b, args, s, rank);
    } else {
      if constexpr (kDown > 0) ptx::registers_up<kUp>();
      // Through a shuffle, for the compiler to know that it is the same in a whole warp.
      consume(c, args, s, rank, __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 128 - 1, 0));
    }
  }
};

}  // namespace tsr
