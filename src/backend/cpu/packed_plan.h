// How a packed product goes over C: tasks for threads, blocks within a task, and what a thread keeps in the
// workspace. Settled once for a kernel; every run follows it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "backend/cpu/arena.h"
#include "core/arch_spec.h"
#include "core/gemm_view.h"
#include "core/tile_math.h"
#include "cpu/abi.h"
#include "tessera/kernel_config.h"

namespace tessera {

// A rectangle of one group's C and a range of k.
struct PackedTask {
  int64_t group, m0, m1, n0, n1, k0, k1;
  int part;  // of split-k
};

struct PackedPlan {
  // `flip_a`: signed A is moved up by 128 (CpuKernel::flips_a), which takes whole columns of k at once.
  PackedPlan(const GemmView& view, const KernelConfig& config, const Instruction& inst, const ArchSpec& arch,
             int threads, bool flip_a);

  int group;  // elements of k in a word
  int tile_m, tile_n;
  bool edge_words;     // columns past whole vectors are dot products though the config does not ask for it
  int64_t edge, n;     // columns past whole vectors that are dot products; columns before them
  bool flip_a;         // signed A is moved up by 128
  bool taps_in_place;  // A is patches, read where they lie
  bool pack_a;
  bool odd_words;      // A is in place though its words are not the instruction's
  bool all_rows;       // packed A: packs_all_rows
  bool b_in_place;     // but for a last panel that is not whole
  bool by_blocks;      // all panels of a block are packed at once: lines of memory run across them
  tsr::FarC far_c;     // how the kernel writes C
  bool buffers_c;      // instead, its rows are computed apart and written past the caches from there
  bool copies_b;       // there are panels to pack
  bool far_b;          // B is more than the caches keep
  bool fetches_b;      // what the next one is packed from is fetched while one is used
  bool fetches_a;      // the next block's rows of A are fetched while the last panel of one is used
  bool evens;          // panel_cols shares columns out
  bool few_registers;  // of vectors: 16
  bool one_block;      // nothing is copied and no sums are kept: a run needs no workspace
  int64_t grid_m = 1;  // pieces of the rows
  std::vector<PackedTask> tasks;               // piece by piece
  int64_t most_m = 0, most_n = 0, most_k = 0;  // of a task
  int64_t depth, rows, cols;                   // block along k, m, n
  int64_t strip;  // of a block's columns, those whose panels of B are packed at once

  // Bytes of the workspace: of each thread A, panels of B, sums between blocks of k, where rows of C lie, the
  // edge's columns, where taps lie, words of A's rest, rows of C; of each part of k its sums.
  int64_t a_bytes = 0, b_bytes = 0, sums_bytes = 0, c_table_bytes = 0, edge_bytes = 0, a_table_bytes = 0,
          a_rest_bytes = 0, c_bytes = 0;
  int64_t part_bytes = 0;
  int64_t thread_bytes() const {
    return thread_share(a_bytes + b_bytes + sums_bytes + c_table_bytes + edge_bytes + a_table_bytes +
                        a_rest_bytes + c_bytes);
  }

  int64_t panel_b(int64_t k) const;
  // Of k, packed at a time where lines of memory run across panels: all panels take theirs while the pages
  // are at hand.
  static constexpr int64_t kChunkSteps = 16;
  int64_t chunk() const { return kChunkSteps * group; }
  // Packed A is rows of words, all rows' words of a step after one another, or panels of tile_m.
  int64_t a_row_bytes(int64_t k) const;
  int64_t a_step_bytes() const { return round_up(std::max<int64_t>(most_rows(), tile_m), 16) * 4; }
  int64_t a_panel_bytes(int64_t k) const;
  // Rows of a block at most: a short last one joins the one before.
  int64_t most_rows() const { return rows + tile_m; }
  // Of columns from `begin` to `end`, those of the first panel. A last panel of a single vector has too few
  // sums for an instruction to come before the one before it is done: it takes some of its neighbour's.
  int64_t panel_cols(int64_t begin, int64_t end) const {
    const int64_t left = end - begin;
    const bool shares = evens && left > tile_n && left <= tile_n + kLanes;
    return shares ? round_up(left / 2, kLanes) : std::min<int64_t>(tile_n, left);
  }
  // Whether so many rows meet a panel of so few steps that to bring the panel is a small part of what they
  // take: where registers are few, tiles that ask for nothing ahead are faster.
  bool many_short_tiles(int64_t block_rows, int64_t steps) const {
    return few_registers && block_rows >= 32 * tile_m && steps <= 64;
  }
  // Whether the panels of a block are kept for its other rows.
  bool keeps_b(int64_t task_rows) const { return by_blocks || task_rows > rows; }

 private:
  static constexpr int64_t kLanes = 16;

  bool shares_lines(const GemmView& view) const;
  bool a_fits_in_place(const GemmView& view, const Instruction& inst) const;
  bool fetch_pays(const GemmView& view, const ArchSpec& arch) const;
  bool c_past_caches(const GemmView& view, const ArchSpec& arch) const;
  tsr::FarC how_far_c(const GemmView& view, const ArchSpec& arch) const;
  bool buffer_pays(const GemmView& view, const KernelConfig& config, const Instruction& inst,
                   const ArchSpec& arch) const;
  bool far_a(const GemmView& view, const ArchSpec& arch) const;
  struct Grid {
    int64_t m, n;  // pieces of the rows, of the panels
  };
  // Of each of so many groups and parts of k.
  Grid choose_grid(const GemmView& view, int64_t others, int64_t threads) const;
  int64_t row_pieces(const GemmView& view, const ArchSpec& arch) const;
  void make_tasks(const GemmView& view, int split_k, const ArchSpec& arch, int threads);
  void choose_depth(const GemmView& view, const KernelConfig& config);
  void choose_rows(const GemmView& view, const KernelConfig& config, const ArchSpec& arch);
  void choose_cols(const GemmView& view, const KernelConfig& config, const ArchSpec& arch);
  void count_bytes(const GemmView& view, int split_k);
  int64_t table_row_bytes(const GemmView& view) const;
};

}  // namespace tessera
