// What a filter's gradient multiplies, as AMX's tiles take it: gradients turned so that a step of a tile is
// 32 pixels, and images' lines copied so that every tap is a distance in the copy.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/cpu/amx_gradient_plan.h"
#include "backend/cpu/line_blocks.h"
#include "core/gemm_view.h"
#include "core/lines_shape.h"

namespace tessera {

class AmxGradientCopies {
 public:
  // Keeps both.
  AmxGradientCopies(const GemmView& view, const AmxGradientPlan& plan);

  // Of a piece: its gradients' tiles, its images' lines, and a table that copying those needs.
  int64_t left_bytes() const { return left_bytes_; }
  int64_t right_bytes() const { return right_bytes_; }
  int64_t table_bytes() const;
  int64_t plane_bytes() const { return plane_bytes_; }  // of the images' lines
  // Bytes from the begin of a plane to each of a piece's column tiles.
  const std::vector<long long>& tile_at() const { return tile_at_; }

  // Of one group's data. Images' room is all zeros before its first block: steps read what lies beyond lines.
  void turn_gradients(const char* data, const LineBlock& b, int64_t row0, int64_t row1, char* out) const;
  void copy_images(const char* images, const LineBlock& b, int64_t channel0, int64_t channel1, bool fetches,
                   char* out, const char** pixels) const;

 private:
  static constexpr int64_t kElement = AmxGradientPlan::kElement, kStepPixels = AmxGradientPlan::kStepPixels,
                           kWordBytes = AmxGradientPlan::kWordBytes;

  void place_lines();
  void place_tiles();
  int64_t beyond(int64_t lines) const;
  void clear_behind(const LineBlock& b, int64_t channel0, int64_t channel1, char* out) const;
  void copy_line(const char* line, int64_t channel0, int64_t channel1, int64_t first, char* out,
                 const char** pixels) const;

  const GemmView& view_;
  const AmxGradientPlan& plan_;
  const GradientLines& lines_;
  const LinesShape& shape_;
  const LineBlocks& blocks_;
  int64_t lines_before_ = 0;                     // of an image, up to where the last tap meets the first line
  std::vector<int64_t> phase_lines_, phase_at_;  // by a line's remainder: how many, and bytes before them
  int64_t behind_bytes_ = 0;                     // that steps read behind lines, at most
  int64_t copy_bytes_ = 0, depth_bytes_ = 0, channels_bytes_ = 0, plane_bytes_ = 0;
  int64_t left_bytes_ = 0, right_bytes_ = 0;
  std::vector<long long> tile_at_;  // of a piece's column tiles
  std::vector<char> zeros_;         // a pixel of either operand
};

}  // namespace tessera
