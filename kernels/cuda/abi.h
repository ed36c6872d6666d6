// What the CUDA driver and its kernels agree on, beyond what all GPUs share.
#pragma once

#include "cuda/tma_ws_shape.h"
#include "gpu/abi.h"

namespace tsr {

// As the driver's CUtensorMap.
struct alignas(64) TensorMap {
  unsigned long long words[16];
};

struct TmaWsArgs : GpuOutput {
  int rows, cols, batches;       // as the kernel sees them: n x m with swap_ab
  int tiles_m, tiles_n;          // of clusters
  int k_steps;                   // block_k at a time
  int split_steps;               // of one part of k
  int stream_tiles;              // with stream_k: tiles of clusters whose steps are dealt out,
  int stream_each, stream_more;  // so many to a cluster, one more to the first stream_more
  int along_m, swizzle;          // how blocks walk over C
  int edge_a, edge_b;            // rows that a block of a cluster loads of a tile that reaches beyond A (B)
  float* partials;     // of tiles in parts: block_m * block_n for each (block, part), two a block of the
                       // grid with stream_k
  unsigned* arrivals;  // of tiles in parts: one a block, zero before and after
};

// Of the families whose blocks each compute one tile.
struct BlockArgs : GpuOutput {
  const void *a, *b;
  long long a_leading, a_batch_stride, b_leading, b_batch_stride;  // elements
  int m, n, k, batches;
  int tiles_m, tiles_n;  // as the kernel sees them: exchanged with swap_ab
  int parts, part_k;     // of k: how many, elements of one
  int band;              // rows of tiles that blocks walk together
  int first_blocks;      // that run at once when nothing else does
  void* partials;        // with several parts: of each (tile, part) every thread's sums
  unsigned* arrivals;    // with several parts: one a tile, zero before and after
};
struct BlockParams {
  BlockArgs args;
};

// A matrix in rows that start anywhere, to rows that start at multiples of 16 bytes.
struct RealignJob {
  const void* from;
  void* to;
  long long rows, groups;  // none: nothing to do
  long long row_bytes, stride_bytes, group_bytes, to_stride_bytes;
};
struct RealignParams {
  RealignJob jobs[2];
};
constexpr int kRealignThreads = 256;
constexpr int kRealignSegment = 2048;  // bytes of a row that a warp copies at a time

// The skinny product of gemv: X, the operand with few rows, times W. Warps read W from memory as the tensor
// cores take it.
struct GemvShape {
  int tile_m, tile_n, wave_n, wave_k;

  constexpr int threads() const { return 32 * wave_n * wave_k; }
  constexpr int columns() const { return tile_n * wave_n; }  // of W that a block computes
  constexpr int sums() const { return tile_m * columns(); }
  constexpr int shared_bytes() const { return wave_k * sums() * 4; }
};
// Elements of k that a warp loads at once.
constexpr int gemv_depth(int element, bool along_k) { return along_k ? 256 / element : 32; }

struct SimtShape {
  int block_m, block_n, block_k, tile_m, tile_n, stages;
  bool integer;

  constexpr int threads() const { return block_m / tile_m * (block_n / tile_n); }
  // 4 bytes a float, 1 an integer. Rows of 4 floats more than needed keep transposing writes off each other's
  // banks.
  constexpr int bytes(int rows) const { return integer ? rows * block_k : (rows + 4) * block_k * 4; }
  constexpr int stage_bytes() const { return bytes(block_m) + bytes(block_n); }
  constexpr int shared_bytes() const { return stages * stage_bytes(); }
};

struct CpAsyncShape {
  int block_m, block_n, block_k, wave_m, wave_n, stages;
  int element;  // bytes as the tensor cores take them: 2 for 8-bit floats, which are converted on the way

  constexpr int threads() const { return 32 * wave_m * wave_n; }
  constexpr int bytes_a() const { return block_m * block_k * element; }
  constexpr int bytes_b() const { return block_n * block_k * element; }
  // A warp's 16 rows of C on their way to memory, 4 bytes a sum; rows 16 bytes apart in banks.
  constexpr int row_c() const { return block_n / wave_n + 4; }
  constexpr int bytes_c() const { return wave_m * wave_n * 16 * row_c() * 4; }
  constexpr int shared_bytes() const {
    const int staged = stages * (bytes_a() + bytes_b());
    return staged > bytes_c() ? staged : bytes_c();
  }
};

struct TmaWsParams {
  TensorMap a, b, c;
  TensorMap edge_a, edge_b;  // of tiles that reach beyond A (B) where these lie along k
  TmaWsArgs args;
};

}  // namespace tsr
