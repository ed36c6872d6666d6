// What the families whose blocks each compute one tile of C (or one part of k of it) share.
#pragma once

#include "cuda/abi.h"
#include "cuda/output.h"

namespace tsr {

// Where a block works. Parts of one tile are neighbours, so that they meet soon.
struct Place {
  int tile_m, tile_n, batch, part;
  int tile;  // of all tiles of all batches
  int k_begin, k_end;

  __device__ __forceinline__ explicit Place(const BlockArgs& args) {
    const int index = static_cast<int>(blockIdx.x);
    tile = index / args.parts;
    part = index - tile * args.parts;
    const int tiles = args.tiles_m * args.tiles_n;
    batch = tile / tiles;
    const int in_batch = tile - batch * tiles;
    // In bands of rows, so that blocks that run together share operands.
    const int band = in_batch / (args.band * args.tiles_n), at = in_batch - band * args.band * args.tiles_n;
    const int height = min(args.band, args.tiles_m - band * args.band);
    tile_n = at / height;
    tile_m = band * args.band + at - tile_n * height;
    k_begin = part * args.part_k;
    k_end = min(args.k, k_begin + args.part_k);
  }
};

// Called by all threads of a block after they wrote their partial sums: true in the block that came last of
// `parts`, which then sees the sums of all. The counter is zero before and after.
__device__ __forceinline__ bool comes_last(unsigned* counter, int parts) {
  __shared__ unsigned last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    const unsigned seen = atomicAdd(counter, 1u);
    last = seen == parts - 1u;
    if (last) *counter = 0;
    __threadfence();
  }
  __syncthreads();
  if (!last) return false;
  __threadfence();
  return true;
}

// Adds the sums that the parts of a tile hold, in the order of the parts. True for the block that holds the
// whole. kCount sums a thread, the same in every block.
template <int kCount, class Acc>
__device__ __forceinline__ bool add_parts(Acc (&acc)[kCount], const Place& at, const BlockArgs& args) {
  if (args.parts == 1) return true;
  const int threads = static_cast<int>(blockDim.x);
  u32* base = static_cast<u32*>(args.partials) + static_cast<i64>(at.tile) * args.parts * kCount * threads +
              threadIdx.x;
  u32* mine = base + static_cast<i64>(at.part) * kCount * threads;
#pragma unroll
  for (int i = 0; i < kCount; ++i) __stcg(mine + i * threads, bits_of(acc[i]));
  if (!comes_last(args.arrivals + at.tile, args.parts)) return false;
#pragma unroll
  for (int i = 0; i < kCount; ++i) acc[i] = 0;
#pragma unroll 1
  for (int p = 0; p < args.parts; ++p) {
    const u32* from = base + static_cast<i64>(p) * kCount * threads;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      Acc x;
      from_bits(__ldcg(from + i * threads), x);
      acc[i] += x;
    }
  }
  return true;
}

}  // namespace tsr
