// How a filter's gradient goes over C and the images: C's tiles in pieces whose sums stay in the second-level
// cache, the images in blocks of lines that are copied, and who shares them. Settled once for a kernel.
#pragma once

#include <cstdint>

#include "backend/cpu/line_blocks.h"
#include "core/arch_spec.h"
#include "core/gemm_view.h"
#include "core/lines_shape.h"
#include "core/tile_math.h"

namespace tessera {

// What a task computes: groups, and tiles of rows and of channels.
struct AmxGradientPiece {
  int64_t group0, group1, row0, row1, channel0, channel1;
};

class AmxGradientPlan {
 public:
  static constexpr int64_t kElement = 2;                       // bytes
  static constexpr int64_t kStepPixels = 32, kWordBytes = 64;  // of a tile; of 16 channels of two pixels

  // The view has a window.
  AmxGradientPlan(const GemmView& view, const ArchSpec& arch, int threads);

  const GradientLines& lines() const { return lines_; }
  // Of pieces of lines, where lines are cut.
  const LinesShape& shape() const { return lines_.shape; }
  const LineBlocks& blocks() const { return blocks_; }

  int64_t taps() const { return taps_; }
  int64_t row_tiles() const { return row_tiles_; }
  int64_t channel_tiles() const { return channel_tiles_; }
  int64_t groups_at_once() const { return groups_at_once_; }
  int64_t shares() const { return shares_; }

  int64_t tasks() const { return ceil_div(groups_, groups_at_once_) * row_cuts_ * channel_cuts_; }
  AmxGradientPiece piece(int64_t task) const;
  int64_t piece_rows() const { return ceil_div(row_tiles_, row_cuts_); }
  int64_t piece_channels() const { return ceil_div(channel_tiles_, channel_cuts_); }

  // Of a piece's sums; of a copied line of 16 channels.
  int64_t sums_bytes() const;
  int64_t line_bytes() const { return lines_.pitch() / 2 * kWordBytes; }
  // Of one group's piece and so many lines of a plane of the result.
  int64_t images_bytes(int64_t lines) const;
  int64_t gradients_bytes(int64_t lines) const;

 private:
  void cut(const GemmView& view, int64_t most, int threads);
  void choose_blocks(const GemmView& view, int64_t cache);
  void share_blocks(int threads);

  GradientLines lines_;
  LineBlocks blocks_;
  int64_t groups_, taps_;
  int64_t row_tiles_, channel_tiles_;  // tiles of 16 of all of C's rows and of a tap's channels
  int64_t row_cuts_ = 1, channel_cuts_ = 1, groups_at_once_ = 1;
  int64_t shares_ = 1;  // of a task's blocks
};

}  // namespace tessera
