// Copies of an image's lines from which taps are read at fixed distances: which lines make a block, where
// they lie in the copy, and making it.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/cpu/line_blocks.h"
#include "core/arch_spec.h"
#include "core/lines_shape.h"

namespace tessera {

class LineCopies {
 public:
  // Keeps `view`, which has a window. Blocks are for so many threads; words are `group` elements of A, steps
  // `step` of them. A view without k has no steps.
  LineCopies(const GemmView& view, int64_t group, int64_t step, const ArchSpec& arch, int threads);

  // Of pieces of lines, where lines are cut.
  const LinesShape& shape() const { return shape_; }
  const LineBlocks& blocks() const { return blocks_; }
  int64_t bytes() const { return bytes_; }
  int64_t row_bytes() const { return row_bytes_; }
  // Bytes from the copy's begin to each tile of kLinesTileRows rows, and from there to each step: the whole
  // steps of all runs before the shorter ones.
  const std::vector<long long>& tile_at() const { return tile_at_; }
  const std::vector<long long>& step_at() const { return step_at_; }

  // Of one group's images, to bytes() at `out`.
  void copy(const char* images, const LineBlock& block, char* out) const;

  // Rows of C that the rows of the tiles are, -1 for those between the lines and behind them. Returns how
  // many tiles there are, tile_at().size() at most.
  int64_t place_rows(const LineBlock& block, long long* rows) const;

 private:
  void place_lines(const ArchSpec& arch, int threads);
  void cut_for(int threads, int64_t extra);
  int64_t line_bytes() const { return shape_.width * shape_.pixel * element_; }
  void place_steps();
  void place_tiles();
  void copy_line(const LinesAxis& x, const char* line, char* out) const;

  const GemmView& view_;
  LinesShape shape_;
  LineBlocks blocks_;
  int64_t element_;  // bytes
  int64_t tap_plane_ = 0, plane_bytes_ = 0, row_bytes_ = 0, bytes_ = 0;
  std::vector<int64_t> phase_lines_;
  std::vector<long long> tile_at_, step_at_;
};

}  // namespace tessera
