// How a tma_ws kernel lays out shared memory, for the kernel, its driver and the rules.
#pragma once

namespace tsr {

// The shared memory of a tma_ws kernel and the boxes its tensor maps copy, from its knobs alone.
struct TmaWsShape {
  int block_m, block_n, block_k, wave_m, wave_groups, stages, cluster_m, cluster_n, cluster_k;
  bool swap_ab;
  bool a_along_k, b_along_k;  // operands as the kernel sees them: exchanged with swap_ab
  int element, out;           // bytes of an operand's and an output's element

  constexpr int swizzled() const { return 128 / element; }  // elements of a swizzled row of shared memory
  constexpr int teams() const { return wave_groups; }
  constexpr int team_groups() const { return wave_m / 4; }  // warpgroups that share a tile
  constexpr int groups() const { return teams() * team_groups(); }
  constexpr int threads() const { return 128 * (1 + groups()); }
  constexpr int sharing() const {
    return cluster_m * cluster_n;
  }  // blocks of a cluster that load for one another
  constexpr int cluster() const { return sharing() * cluster_k; }
  constexpr int blocks_m() const { return block_m / team_groups() / 64; }  // 64-row blocks of a warpgroup
  // Columns of B in shared memory: where they are contiguous, whole atoms of 64 are loaded.
  constexpr int rows_b() const { return b_along_k ? block_n : (block_n + 63) / 64 * 64; }
  // Parts of A and B that the blocks of a cluster load for one another; 1 where the tile does not divide.
  constexpr int parts_a() const { return block_m % (cluster_n * (a_along_k ? 8 : 64)) ? 1 : cluster_n; }
  constexpr int parts_b() const { return rows_b() % (cluster_m * (b_along_k ? 8 : 64)) ? 1 : cluster_m; }
  constexpr int bytes_a() const { return block_m * block_k * element; }
  constexpr int bytes_b() const { return rows_b() * block_k * element; }

  // C leaves through shared memory in slices of 64 rows x slice() columns, a warpgroup has up to two on their
  // way.
  constexpr int slice() const {
    if (cluster_k > 1) return epilogue_slice();
    int s = swap_ab || out == 1 ? 64 : 128 / out;
    while (block_n % s) s /= 2;
    return s;
  }
  // Elements of a staged row, which lies along the contiguous axis of the problem's C.
  constexpr int inner() const { return !swap_ab ? slice() : out == 4 ? 32 : 64; }
  constexpr int slices() const { return block_n / slice(); }
  constexpr int slice_bytes() const { return 64 * slice() * out; }
  constexpr int buffers() const { return slices() * blocks_m() > 1 ? 2 : 1; }
  // Columns of a slice that goes through the epilogue: 4-byte accumulators. With cluster_k all slices are
  // these: the blocks that have parts of a tile deal them out among them, so there is one for each if they
  // need not be too narrow.
  constexpr int epilogue_slice() const {
    int s = 32;
    while (block_n % s || (s > 16 && block_m / 64 * (block_n / s) < cluster_k)) s /= 2;
    return s;
  }
  constexpr int group_bytes_c() const {
    const int direct = buffers() * slice_bytes(), epilogue = 64 * epilogue_slice() * 4;
    return ((direct > epilogue ? direct : epilogue) + 1023) / 1024 * 1024;
  }
  constexpr int bytes_c() const { return groups() * group_bytes_c(); }
  constexpr int shared_bytes() const {
    return stages * (bytes_a() + bytes_b()) + bytes_c() + 16 * stages + 16;
  }

  // Boxes, contiguous axis first.
  constexpr int box_a_inner() const { return a_along_k ? swizzled() : 64; }
  constexpr int box_a_outer() const { return a_along_k ? block_m / parts_a() : block_k; }
  constexpr int box_b_inner() const { return b_along_k ? swizzled() : 64; }
  constexpr int box_b_outer() const { return b_along_k ? rows_b() / parts_b() : block_k; }
  constexpr int box_c_outer() const { return swap_ab ? slice() : 64; }
};

}  // namespace tsr
