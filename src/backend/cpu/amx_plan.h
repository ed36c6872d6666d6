// How a product of AMX tiles goes over C: pieces for threads, blocks within a piece, and what a thread keeps
// in the workspace. Settled once for a kernel; every run follows it.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "backend/cpu/arena.h"
#include "core/arch_spec.h"
#include "core/cache_line.h"
#include "core/gemm_view.h"
#include "core/tile_math.h"
#include "cpu/abi.h"
#include "tessera/kernel_config.h"

namespace tessera {

// An operand as the kernel sees it: the left one's lanes are rows of the product, the right one's are
// columns.
struct AmxSide {
  DType type;
  int64_t k_stride, lane_stride, group_stride;  // elements
};

// Whether bf16 results are written past the caches, as far as `c` and the tiles of columns are lines of
// memory.
bool streams_c(const GemmView& view, const KernelConfig& config, const ArchSpec& arch);
// What AmxArgs::far_c is then.
tsr::FarC far_c(bool streams, const void* c);

struct AmxPiece {
  int64_t row0, row1, col0, col1;
};

struct AmxPlan {
  AmxPlan(const GemmView& view, const KernelConfig& config, const Instruction& inst, const ArchSpec& arch,
          int threads);

  bool swap;  // the left operand is B
  AmxSide left, right;
  int64_t rows, cols, k;  // of the product as the kernel sees it
  int group;              // elements of k in a word
  int64_t step;           // k elements of one tile
  int tile_m, tile_n;
  bool right_resident = false;
  tsr::Passing passing = tsr::kNonePasses;            // the operand that is not kept in L1
  int64_t chunk_steps = 0;                            // that go through a block at once
  bool copies_left = false;                           // the first panel's tiles of rows, for the others
  bool far_right = false;                             // rows of the right one: pages from beyond L2
  bool prefetch = false;                              // the next row block is asked for while one is used
  bool fetches_right = false;                         // panels packed ahead come from beyond L2
  bool fetches_c = false;                             // and so is what it writes of C
  int64_t depth = 0, block_rows = 0, block_cols = 0;  // of a block
  std::vector<AmxPiece> pieces;                       // of one group's C

  bool deep() const { return depth < k; }  // several blocks along k: sums of the whole block are kept
  int64_t panels() const { return block_cols / tile_n; }
  int64_t steps_of(int64_t some_k) const { return ceil_div(some_k, step); }
  int64_t panel_bytes_of(int64_t some_k) const { return steps_of(some_k) * 64 * tile_n; }
  int64_t packed_group_bytes() const { return panel_bytes_of(k) * ceil_div(cols, tile_n); }
  // Of rows of patches: an odd number of cache lines, so that those of a tile lie in sets of their own.
  int64_t patch_stride(int64_t some_k) const { return odd_lines(steps_of(some_k) * 64); }
  // Whether, of `some_rows` read in place, the last tile is not whole and the last one of a block of tiles:
  // it begins earlier then, so that it ends with the rows.
  bool overlaps(int64_t some_rows) const {
    return tile_m > 16 && some_rows % 16 != 0 && ceil_div(some_rows, 16) % (tile_m / 16) == 0;
  }
  int64_t sums_stride() const;  // of one panel and row block

  // Bytes of a thread's workspace: sums between blocks of k, rows of the left operand, panels of the right
  // one, where rows of C lie, tiles of the left operand.
  int64_t sums_bytes = 0, left_bytes = 0, right_bytes = 0, table_bytes = 0, copy_bytes = 0;
  int64_t thread_bytes() const {
    return thread_share(sums_bytes + left_bytes + right_bytes + table_bytes + copy_bytes);
  }

 private:
  void choose_blocks(const GemmView& view, const KernelConfig& config, const ArchSpec& arch, int threads);
  int64_t most_rows() const;  // of a piece, so that the sums it keeps between blocks of k are bounded
  std::pair<int64_t, int64_t> thread_grid(bool packs_left, bool packs_right, int threads) const;
  std::vector<AmxPiece> thread_pieces(const GemmView& view, const KernelConfig& config, int threads) const;
};

}  // namespace tessera
