// What a tma_ws kernel's knobs make of its blocks, for all its parts.
#pragma once

#include "cuda/abi.h"
#include "cuda/output.h"
#include "cuda/ptx.h"

namespace tsr {

template <class C>
struct TmaWsConfig {
  static constexpr Type kTypeA = C::swap_ab ? C::type_b : C::type_a,
                        kTypeB = C::swap_ab ? C::type_a : C::type_b;
  static constexpr bool kAlongA = C::swap_ab ? C::b_along_k : C::a_along_k;  // contiguous along k
  static constexpr bool kAlongB = C::swap_ab ? C::a_along_k : C::b_along_k;
  static constexpr int kElement = bytes_of(C::type_a), kOut = bytes_of(C::type_out);
  static constexpr TmaWsShape kShape = {C::block_m, C::block_n,   C::block_k,   C::wave_m,    C::wave_groups,
                                        C::stages,  C::cluster_m, C::cluster_n, C::cluster_k, C::swap_ab != 0,
                                        kAlongA,    kAlongB,      kElement,     kOut};
  static constexpr int kThreads = kShape.threads(), kMinBlocks = 1;

  static constexpr int kSwizzled = kShape.swizzled();
  static constexpr int kBlockM = C::block_m, kBlockN = C::block_n, kBlockK = C::block_k, kStages = C::stages;
  static constexpr int kCluster = kShape.cluster(), kSharing = kShape.sharing();
  static constexpr int kClusterK = C::cluster_k;
  static constexpr int kTeams = kShape.teams(), kTeamGroups = kShape.team_groups(), kGroups = kShape.groups();
  static constexpr int kBlocksM = kShape.blocks_m();
  static constexpr int kRowsB = kShape.rows_b();
  static constexpr int kBytesA = kShape.bytes_a(), kBytesB = kShape.bytes_b();
  static constexpr int kPartsA = kShape.parts_a(), kPartsB = kShape.parts_b();
  static constexpr int kSlice = kShape.slice(), kSlices = kShape.slices(), kSliceBytes = kShape.slice_bytes();
  static constexpr int kInner = kShape.inner(), kInnerBytes = kInner * kOut;
  static constexpr int kBuffers = kShape.buffers(), kBytesC = kShape.bytes_c();
  // Which of the blocks that have parts of k of the same tile stores a slice of it.
  static __device__ __forceinline__ int owner(int group, int block, int slice) {
    return ((group * kBlocksM + block) * kSlices + slice) % kClusterK;
  }
  static __device__ __forceinline__ bool owns(int part, int group, int block, int slice) {
    return kClusterK == 1 || owner(group, block, slice) == part;
  }
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
  static_assert(kClusterK == 1 || (kTeams == 1 && !C::stream_k),
                "a cluster that adds up parts of k has one tile, in these parts");
  static_assert(kElement == bytes_of(C::type_b));
  static_assert(kElement == 2 || (kAlongA && kAlongB), "only 16-bit operands may lie along m or n");
};

}  // namespace tsr
