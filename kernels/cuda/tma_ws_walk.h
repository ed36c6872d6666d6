// Which part of the product a cluster of a tma_ws kernel computes, and in what order.
#pragma once

#include "cuda/tma_ws_config.h"

namespace tsr {

// Tiles of a cluster, all of k or with split_k a part of it; with cluster_k each block of a cluster its part
// of that.
// With stream_k the steps of the first stream_tiles tiles are dealt out evenly, so a cluster may have the end
// of one tile and the beginning of another; the tiles after these come whole.
template <class C>
struct TmaWsWalk {
  typedef TmaWsConfig<C> T;

  struct Work {
    int m, n, batch;     // first row and column
    int k_begin, k_end;  // in steps
    int part, parts;     // of k
    int block;           // index of the (block, batch), with cluster_k of the block's share of it
    int sums;            // partial sums of part 0, in blocks
    __device__ __forceinline__ int steps() const { return k_end - k_begin; }
    // Where those of part p are.
    __device__ __forceinline__ int sums_of(int p) const {
      if constexpr (C::stream_k) {
        return sums + (p > 0 ? (2 * p - 1) * T::kCluster : 0);
      } else {
        return sums + p;
      }
    }
  };

  const TmaWsArgs& args;
  const int rank, rank_k;  // in the cluster: among the blocks that have the same part of k, and the part
  const int cluster, clusters;
  int index;    // the next whole unit
  int at, end;  // steps of streamed tiles

  __device__ __forceinline__ TmaWsWalk(const TmaWsArgs& a, int rank_in_cluster)
      : args(a),
        rank(rank_in_cluster % T::kSharing),
        rank_k(rank_in_cluster / T::kSharing),
        cluster(static_cast<int>(blockIdx.x) / T::kCluster),
        clusters(static_cast<int>(gridDim.x) / T::kCluster),
        index(cluster) {
    if constexpr (C::stream_k) {
      index += args.stream_tiles;
      at = cluster * args.stream_each + min(cluster, args.stream_more);
      end = at + args.stream_each + (cluster < args.stream_more);
    }
  }

  // False when there is no more.
  __device__ __forceinline__ bool next(Work& w) {
    if constexpr (C::stream_k) {
      if (at < end) {
        const int tile = at / args.k_steps, first = tile * args.k_steps;
        place(tile, w);
        w.k_begin = at - first;
        w.k_end = min(args.k_steps, end - first);
        at += w.steps();
        const int owner = owner_of(first);
        w.part = cluster - owner;
        w.parts = owner_of(first + args.k_steps - 1) - owner + 1;
        // A cluster keeps the sums of a tile it begins after those of one that another began.
        w.sums = (2 * owner + 1) * T::kCluster + rank;
        return true;
      }
    }
    const int tiles = args.tiles_m * args.tiles_n * args.batches;
    const int all = C::split_k > 1 ? (args.k_steps + args.split_steps - 1) / args.split_steps : 1;
    if (index >= tiles * all) return false;
    w.part = C::split_k > 1 ? index / tiles : 0;
    w.parts = all;
    place(index - w.part * tiles, w);
    if constexpr (T::kClusterK > 1) {
      // As even as can be: every block has a step.
      const int pieces = all * T::kClusterK, piece = w.part * T::kClusterK + rank_k;
      const int each = args.k_steps / pieces, more = args.k_steps - each * pieces;
      w.k_begin = each * piece + min(piece, more);
      w.k_end = w.k_begin + each + (piece < more);
      w.block = w.block * T::kClusterK + rank_k;
    } else {
      w.k_begin = C::split_k > 1 ? w.part * args.split_steps : 0;
      w.k_end = C::split_k > 1 ? min(args.k_steps, w.k_begin + args.split_steps) : args.k_steps;
    }
    w.sums = w.block * all;
    index += clusters;
    return true;
  }

 private:
  // The cluster that has a step of the streamed tiles.
  __device__ __forceinline__ int owner_of(int step) const {
    const int long_ones = args.stream_more * (args.stream_each + 1);
    return step < long_ones ? step / (args.stream_each + 1)
                            : args.stream_more + (step - long_ones) / args.stream_each;
  }

  // Tiles go in bands of `swizzle` columns (rows with raster 0) so that the blocks running at one time cover
  // a compact piece of C and share their operands in L2.
  __device__ __forceinline__ void place(int index_of_tile, Work& w) const {
    const int tiles = args.tiles_m * args.tiles_n;
    w.batch = index_of_tile / tiles;
    const int tile = index_of_tile - w.batch * tiles;
    const int along = args.along_m ? args.tiles_m : args.tiles_n,
              across = args.along_m ? args.tiles_n : args.tiles_m;
    const int band = tile / (args.swizzle * along), in_band = tile - band * args.swizzle * along;
    const int width = min(args.swizzle, across - band * args.swizzle);
    const int line = in_band / width, cross = band * args.swizzle + in_band - line * width;
    const int m = (args.along_m ? line : cross) * C::cluster_m + rank % C::cluster_m;
    const int n = (args.along_m ? cross : line) * C::cluster_n + rank / C::cluster_m;
    w.m = m * C::block_m;
    w.n = n * C::block_n;
    w.block = (w.batch * args.tiles_m * C::cluster_m + m) * (args.tiles_n * C::cluster_n) + n;
  }
};

}  // namespace tsr
