// GEMM on tensor cores fed by TMA: one producer warp fills a ring of shared-memory stages by TMA, warpgroups
// of consumers multiply them with wgmma, mbarriers between the two. Blocks are persistent and walk over tiles
// of C.
//
// The kernel sees rows x cols, C = A B; with swap_ab these are the problem's n x m and the product is written
// transposed. A team is the warpgroups that share a tile: the cooperative schedule has one team, ping-pong
// two that alternate, so that one multiplies while the other stores. Blocks of a cluster share the stages of
// the operand they have in common: each loads a part of it and multicasts it. With cluster_k they have parts
// of k of the same tile, and add these up through each other's shared memory.
#pragma once

#include "cuda/realign.h"
#include "cuda/tma_ws_parts.h"
#include "cuda/tma_ws_store.h"
#include "cuda/tma_ws_walk.h"
#include "cuda/wgmma.h"

namespace tsr {

template <class C>
struct tma_ws : TmaWsConfig<C> {
  typedef TmaWsParams Params;
  typedef TmaWsConfig<C> T;
  typedef TmaWsWalk<C> Walk;
  typedef typename Walk::Work Work;
  typedef TmaWsParts<C> Parts;
  typedef TmaWsShared<C> Shared;
  typedef typename T::Acc Acc;
  using T::kAccs;
  using T::kAlongA;
  using T::kAlongB;
  using T::kBlockK;
  using T::kBlockM;
  using T::kBlockN;
  using T::kBlocksM;
  using T::kBytesA;
  using T::kBytesB;
  using T::kCluster;
  using T::kClusterK;
  using T::kElement;
  using T::kGroupBarrier;
  using T::kGroups;
  using T::kPartsA;
  using T::kPartsB;
  using T::kPromote;
  using T::kRowsB;
  using T::kShape;
  using T::kSharing;
  using T::kStages;
  using T::kStoreTma;
  using T::kSwizzled;
  using T::kTeamGroups;
  using T::kTeams;
  using T::kTurnBarrier;
  using T::kTypeA;
  using T::kTypeB;

  static constexpr int kPromoted = 4;  // instructions whose sums of 8-bit floats are kept apart
  static constexpr bool kPartial = C::split_k > 1 || C::stream_k != 0;  // whether tiles come in parts

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

  static __device__ __forceinline__ void load_box(u32 to, const TensorMap* map, u32 bar, u16 mask, int x,
                                                  int y, int z, bool multicast) {
    if (multicast) {
      ptx::tma_load_multicast(to, map, bar, mask, x, y, z);
    } else {
      ptx::tma_load(to, map, bar, x, y, z);
    }
  }

  // One operand of one stage: part `part` of kParts, of `share` rows (columns) each, of a tile of kRows from
  // `first`.
  template <bool kKMajor, int kRows, int kParts>
  static __device__ __forceinline__ void load_stage(u32 to, const TensorMap* map, u32 bar, int first, int k,
                                                    int batch, int part, int share, u16 mask) {
    if (kParts == 1) part = 0;
    if constexpr (kKMajor) {
#pragma unroll
      for (int j = 0; j < kBlockK / kSwizzled; ++j)
        load_box(to + (j * kRows + part * share) * 128, map, bar, mask, k + j * kSwizzled,
                 first + part * share, batch, kParts > 1);
    } else {
      constexpr int kShare = kRows / kParts;
#pragma unroll
      for (int i = 0; i < kShare / 64; ++i)
        load_box(to + (part * (kShare / 64) + i) * kBlockK * 128, map, bar, mask,
                 first + part * kShare + i * 64, k, batch, kParts > 1);
    }
  }

  static __device__ __forceinline__ void produce(const Params& params, const Shared& s, int rank) {
    const TmaWsArgs& args = params.args;
    const int sharing = rank % kSharing, rank_m = sharing % C::cluster_m, rank_n = sharing / C::cluster_m;
    u16 mask_a = 0, mask_b = 0;
    for (int j = 0; j < C::cluster_n; ++j) mask_a |= 1 << (rank_m + j * C::cluster_m);
    for (int i = 0; i < C::cluster_m; ++i) mask_b |= 1 << (i + rank_n * C::cluster_m);
    mask_a <<= rank - sharing, mask_b <<= rank - sharing;

    Ring ring;
    Walk walk(args, rank);
    Work w;
#pragma unroll 1
    while (walk.next(w)) {
      // Fewer rows of a block that reaches beyond the matrix: TMA takes several times as long for a row that
      // is not there as for one that is.
      const bool edge_a = args.edge_a && w.m + kBlockM > args.rows,
                 edge_b = args.edge_b && w.n + kBlockN > args.cols;
      const int rows_a = edge_a ? args.edge_a : kBlockM / kPartsA,
                rows_b = edge_b ? args.edge_b : kRowsB / kPartsB;
      const TensorMap *from_a = edge_a ? &params.edge_a : &params.a,
                      *from_b = edge_b ? &params.edge_b : &params.b;
      const u32 bytes = (rows_a * kPartsA + rows_b * kPartsB) * (kBlockK * kElement);
#pragma unroll 1
      for (int k = w.k_begin; k < w.k_end; ++k) {
        ptx::mbarrier_wait(s.empty + 8 * ring.slot, ring.phase ^ 1);
        u32 bar = s.full + 8 * ring.slot;
        ptx::mbarrier_expect(bar, bytes);
        load_stage<kAlongA, kBlockM, kPartsA>(s.a + ring.slot * kBytesA, from_a, bar, w.m, k * kBlockK,
                                              w.batch, rank_n, rows_a, mask_a);
        load_stage<kAlongB, kRowsB, kPartsB>(s.b + ring.slot * kBytesB, from_b, bar, w.n, k * kBlockK,
                                             w.batch, rank_m, rows_b, mask_b);
        ring.advance();
      }
    }
    ptx::let_next_kernel_start();
    // A block must not end while another of its cluster can still arrive on its barriers.
    if constexpr (kSharing > 1) {
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
    if constexpr (kSharing == 1) {
      if (lane == 0) ptx::mbarrier_arrive(empty);
    } else {
      const u32 first = kClusterK == 1 ? 0 : ptx::cluster_rank() / kSharing * kSharing;
      if (lane < kSharing) ptx::mbarrier_arrive_remote(empty, first + lane);
    }
  }

  static __device__ __forceinline__ void touch(Acc (&acc)[kBlocksM][kAccs]) {
#pragma unroll
    for (int i = 0; i < kBlocksM; ++i)
#pragma unroll
      for (int j = 0; j < kAccs; ++j) ptx::touch(acc[i][j]);
  }

  // Instructions kBegin .. kEnd of a stage.
  template <int kBegin, int kEnd>
  static __device__ __forceinline__ void multiply_step(Acc (&acc)[kBlocksM][kAccs], u32 desc_a, u32 desc_b,
                                                       bool add) {
    ptx::wgmma_fence();
#pragma unroll
    for (int j = kBegin; j < kEnd; ++j) {
#pragma unroll
      for (int i = 0; i < kBlocksM; ++i) {
        Wgmma<kBlockN>::template run<kTypeA, kTypeB, !kAlongA, !kAlongB>(
            acc[i], whole(desc_a + row_offset(i) + k_offset<kAlongA, kBlockM>(j)),
            whole(desc_b + k_offset<kAlongB, kRowsB>(j)), j > kBegin || add);
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
      constexpr int kSteps = kBlockK * kElement / 32;
      if constexpr (kPromote) {
        const auto promote = [&](bool begins) {
          touch(part);
#pragma unroll
          for (int i = 0; i < kBlocksM; ++i)
#pragma unroll
            for (int j = 0; j < kAccs; ++j) acc[i][j] = begins ? part[i][j] : acc[i][j] + part[i][j];
        };
        if constexpr (kSteps > kPromoted) {
          multiply_step<0, kPromoted>(part, desc_a, desc_b, false);
          ptx::wgmma_wait<0>();
          promote(first);
          first = false;
        }
        multiply_step<kSteps - kPromoted, kSteps>(part, desc_a, desc_b, false);
        ptx::wgmma_wait<0>();
        release(s.empty + 8 * ring.slot, lane);
        promote(first);
      } else {
        multiply_step<0, kSteps>(acc, desc_a, desc_b, !first);
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

  static __device__ __forceinline__ void consume(const TensorMap* c, const TmaWsArgs& args, const Shared& s,
                                                 int rank, int consumer) {
    int team = consumer / kTeamGroups, group = consumer % kTeamGroups, lane = threadIdx.x % 32;
    const u32 memory = s.c + consumer * kShape.group_bytes_c();
    Acc acc[kBlocksM][kAccs];
    Ring ring;
    int rounds = 0;
    Walk walk(args, rank);
    Work w;
    bool more = walk.next(w);
    // Teams take turns in the cluster's work.
    const auto leave_to_other_team = [&] {
      if (!more) return;
      ring.skip(w.steps());
      more = walk.next(w);
    };
    if constexpr (kTeams > 1) {
      if (team == 1) {
        ptx::named_barrier_arrive(kTurnBarrier, 256);
        leave_to_other_team();
      }
    }
#pragma unroll 1
    while (more) {
      multiply(acc, w, s, ring, team, group, lane);
      if constexpr (kClusterK > 1) Parts::exchange(acc, s, rank, group);
      if (!kPartial || w.parts == 1 || Parts::reduce(acc, w, s, args, rank, team, group))
        TmaWsStore<C>::store(acc, c, w.m + group * kBlocksM * 64, w.n, w.batch, memory, args,
                             kGroupBarrier + consumer, rounds, group, rank / kSharing);
      more = walk.next(w);
      if constexpr (kTeams > 1) leave_to_other_team();
    }
    if (kStoreTma && threadIdx.x % 128 == 0) ptx::tma_store_wait_read<0>();
    if constexpr (kClusterK > 1) {
      __syncwarp();
      ptx::cluster_wait();
    }
  }

  static __device__ __forceinline__ void run(const Params& params) {
    const TensorMap *a = &params.a, *b = &params.b, *c = &params.c;
    const TmaWsArgs& args = params.args;
    extern __shared__ __align__(1024) unsigned char memory[];
    Shared s(ptx::shared_address(memory));
    int rank = kCluster > 1 ? static_cast<int>(ptx::cluster_rank()) : 0;
    if (threadIdx.x < kStages) {
      ptx::mbarrier_init(s.full + 8 * threadIdx.x, 1);
      ptx::mbarrier_init(s.empty + 8 * threadIdx.x, kSharing * C::wave_m);
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
      if (threadIdx.x == 0) produce(params, s, rank);
      if constexpr (kClusterK > 1) {
        // The consumers' meeting takes all threads of the cluster.
        __syncwarp();
        ptx::cluster_arrive();
        ptx::cluster_wait();
        ptx::cluster_arrive();
        ptx::cluster_wait();
      }
    } else {
      if constexpr (kDown > 0) ptx::registers_up<kUp>();
      // Through a shuffle, for the compiler to know that it is the same in a whole warp.
      consume(c, args, s, rank, __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 128 - 1, 0));
    }
  }
};

}  // namespace tsr
