// How the parts of k of a tile come together in a tma_ws kernel: through memory, or within a cluster through
// the shared memory of its blocks.
#pragma once

#include "cuda/tma_ws_walk.h"

namespace tsr {

// Addresses in shared memory.
template <class C>
struct TmaWsShared {
  typedef TmaWsConfig<C> T;
  u32 a, b, c, full, empty, flag;
  __device__ __forceinline__ explicit TmaWsShared(u32 base)
      : a(base),
        b(a + T::kStages * T::kBytesA),
        c(b + T::kStages * T::kBytesB),
        full(c + T::kBytesC),
        empty(full + 8 * T::kStages),
        flag(empty + 8 * T::kStages) {}
};

template <class C>
struct TmaWsParts : TmaWsConfig<C> {
  typedef TmaWsConfig<C> T;
  typedef TmaWsShared<C> Shared;
  typedef typename TmaWsWalk<C>::Work Work;
  typedef typename T::Acc Acc;
  using T::kAccs;
  using T::kBlockM;
  using T::kBlockN;
  using T::kBlocksM;
  using T::kCluster;
  using T::kClusterK;
  using T::kInteger;
  using T::kSharing;
  using T::kSlice;
  using T::kSlices;
  using T::kTeamBarrier;
  using T::kTeamGroups;

  // Adds the parts of k in their order. True for the block that came last and holds the sum; the others are
  // done. With cluster_k only of the slices that the block owns, which exchange() has left in its hands.
  static __device__ __forceinline__ bool reduce(Acc (&acc)[kBlocksM][kAccs], const Work& w, const Shared& s,
                                                const TmaWsArgs& args, int rank, int team, int group) {
    constexpr int kVectors = kBlocksM * kAccs / 4;
    const int thread = threadIdx.x % 128;
    float4* base = reinterpret_cast<float4*>(args.partials) + group * (kVectors * 128) + thread;
    const auto sums = [&](int part) {
      return base + static_cast<i64>(w.sums_of(part)) * (kBlockM * kBlockN / 4);
    };
    const auto owned = [&](int i) {
      return T::owns(rank / kSharing, group, i * 4 / kAccs, i * 4 % kAccs / (kSlice / 2));
    };
    float4* mine = sums(w.part);
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      if (!owned(i)) continue;
      const Acc* v = &acc[i * 4 / kAccs][i * 4 % kAccs];
      __stcg(mine + i * 128, make_float4(as_float(v[0]), as_float(v[1]), as_float(v[2]), as_float(v[3])));
    }
    __threadfence();
    ptx::named_barrier(kTeamBarrier + team, kTeamGroups * 128);
    u32 flag = s.flag + 4 * team;
    if (group == 0 && thread == 0) {
      unsigned seen = atomicAdd(args.arrivals + w.block, 1u);
      if (seen == w.parts - 1u) args.arrivals[w.block] = 0;
      ptx::store_shared(flag, static_cast<u32>(seen == w.parts - 1u));
      __threadfence();
    }
    ptx::named_barrier(kTeamBarrier + team, kTeamGroups * 128);
    u32 last[1];
    ptx::load_shared(flag, last);
    if (!last[0]) return false;
    __threadfence();
    // Of two parts either order gives the same sum: what this block has stays where it is.
    const bool two = w.parts == 2;
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      Acc* v = &acc[i * 4 / kAccs][i * 4 % kAccs];
      if (!two) v[0] = v[1] = v[2] = v[3] = 0;
    }
#pragma unroll 1
    for (int p = 0; p < w.parts; ++p) {
      if (two && p == w.part) continue;
      const float4* from = sums(p);
#pragma unroll
      for (int i = 0; i < kVectors; ++i) {
        if (!owned(i)) continue;
        Acc* v = &acc[i * 4 / kAccs][i * 4 % kAccs];
        float4 x = __ldcg(from + i * 128);
        v[0] += as_acc(x.x), v[1] += as_acc(x.y), v[2] += as_acc(x.z), v[3] += as_acc(x.w);
      }
    }
    return true;
  }
  // Adds the parts of k that the blocks of a cluster have of one tile: each block those of the slices that
  // are its own, its part first and then in the order of the blocks behind it. The parts lie in the stages,
  // of which nothing is asked any more: the cluster has no tile after this. Blocks may read each other's
  // memory until all have arrived at the cluster's barrier again, which is for the caller to wait for.
  static __device__ __forceinline__ void exchange(Acc (&acc)[kBlocksM][kAccs], const Shared& s, int rank,
                                                  int group) {
    constexpr int kEach = kSlice / 8;  // vectors of a slice that a thread has
    constexpr int kAtOnce = kEach >= 4 ? 2 : 4;
    const u32 parts = s.a + (group * kBlocksM * kSlices * kEach * 128 + threadIdx.x % 128) * 16;
    const int part = rank / kSharing;
    const auto sums = [&](int i, int slice) { return &acc[i][slice * kSlice / 2]; };
    const auto place = [&](int i, int slice) { return parts + (i * kSlices + slice) * kEach * 128 * 16; };
    // The warpgroups of a tile read the same stages.
    ptx::named_barrier(kTeamBarrier, kTeamGroups * 128);
#pragma unroll
    for (int i = 0; i < kBlocksM; ++i) {
#pragma unroll
      for (int slice = 0; slice < kSlices; ++slice) {
        if (T::owns(part, group, i, slice)) continue;
#pragma unroll
        for (int j = 0; j < kEach; ++j) {
          const Acc* v = sums(i, slice) + 4 * j;
          ptx::store_shared(place(i, slice) + j * 128 * 16, bits_of(v[0]), bits_of(v[1]), bits_of(v[2]),
                            bits_of(v[3]));
        }
      }
    }
    ptx::cluster_arrive();
    ptx::cluster_wait();
#pragma unroll
    for (int i = 0; i < kBlocksM; ++i) {
#pragma unroll
      for (int slice = 0; slice < kSlices; ++slice) {
        if (!T::owns(part, group, i, slice)) continue;
#pragma unroll kAtOnce
        for (int p = 1; p < kClusterK; ++p) {
          const u32 from = ptx::remote_address(place(i, slice), (rank + p * kSharing) % kCluster);
#pragma unroll
          for (int j = 0; j < kEach; ++j) {
            Acc* v = sums(i, slice) + 4 * j;
            u32 x[4];
            ptx::load_remote(from + j * 128 * 16, x);
#pragma unroll
            for (int e = 0; e < 4; ++e) {
              Acc other;
              from_bits(x[e], other);
              v[e] += other;
            }
          }
        }
      }
    }
    ptx::cluster_arrive();
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
};

}  // namespace tsr
