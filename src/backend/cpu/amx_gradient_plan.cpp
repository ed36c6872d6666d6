#include "backend/cpu/amx_gradient_plan.h"

#include <algorithm>

#include "backend/cpu/tile_configuration.h"
#include "core/cache_line.h"

namespace tessera {

AmxGradientPlan::AmxGradientPlan(const GemmView& view, const ArchSpec& arch, int threads)
    : lines_(*view.window),
      blocks_(*view.window, lines_.shape),
      groups_(view.groups),
      taps_(view.window->taps()),
      row_tiles_(ceil_div(view.m, 16)),
      channel_tiles_(ceil_div(view.window->channels, 16)) {
  cut(view, arch.l2.bytes / 4, threads);
  choose_blocks(view, arch.l2.bytes / 4);
  share_blocks(threads);
}

AmxGradientPiece AmxGradientPlan::piece(int64_t task) const {
  const int64_t cuts = row_cuts_ * channel_cuts_, row_cut = task % cuts / channel_cuts_;
  const int64_t channel_cut = task % channel_cuts_;
  const int64_t group0 = task / cuts * groups_at_once_;
  const int64_t group1 = std::min(group0 + groups_at_once_, groups_);
  const int64_t row0 = row_tiles_ * row_cut / row_cuts_, row1 = row_tiles_ * (row_cut + 1) / row_cuts_;
  const int64_t channel0 = channel_tiles_ * channel_cut / channel_cuts_,
                channel1 = channel_tiles_ * (channel_cut + 1) / channel_cuts_;
  return {group0, group1, row0, row1, channel0, channel1};
}

int64_t AmxGradientPlan::sums_bytes() const { return taps_ * piece_rows() * piece_channels() * kTileBytes; }

int64_t AmxGradientPlan::images_bytes(int64_t lines) const {
  return piece_channels() * lines_.shape.z.taps * lines_.copies * lines_.shape.lines_read(lines) *
         line_bytes();
}

int64_t AmxGradientPlan::gradients_bytes(int64_t lines) const {
  return piece_rows() * lines_.steps(lines) * kTileBytes;
}

// Copying the images for another piece of rows costs their copies, turning gradients for another one of
// channels the gradients.
void AmxGradientPlan::cut(const GemmView& view, int64_t most, int threads) {
  const int64_t images = channel_tiles_ * lines_.copies, gradients = row_tiles_ * 2;
  const int64_t pixels = blocks_.planes * blocks_.lines * blocks_.positions;
  while ((sums_bytes() > most || tasks() * std::max<int64_t>(pixels / kLinesSharePixels, 1) < threads) &&
         (row_cuts_ < row_tiles_ || channel_cuts_ < channel_tiles_)) {
    const bool rows = channel_cuts_ == channel_tiles_ || (row_cuts_ < row_tiles_ && images < gradients);
    ++(rows ? row_cuts_ : channel_cuts_);
  }
  // Groups are summed at once where they share lines of memory.
  const int64_t all = view.groups / threads, fit = 2 * most / sums_bytes();
  const bool share = std::min(view.m, view.window->channels) * kElement < kCacheLine;
  if (row_cuts_ * channel_cuts_ == 1 && all > 1 && (fit >= all || share))
    groups_at_once_ = ceil_div(view.groups, ceil_div(view.groups, std::clamp<int64_t>(fit, 1, all)));
}

void AmxGradientPlan::choose_blocks(const GemmView& view, int64_t cache) {
  // Groups of a task are read one after the other, from lines of memory that they share.
  const int64_t pixel = groups_at_once_ > 1 ? groups_at_once_ * kElement : 0;
  auto shared = [&](int64_t lines) {
    return pixel * (lines_.shape.z.taps * lines_.shape.lines_read(lines) * lines_.shape.width *
                        view.window->channels +
                    lines * lines_.shape.x.positions * view.m);
  };
  auto bytes = [&](int64_t lines) {
    return std::max(images_bytes(lines) + gradients_bytes(lines), shared(lines) / 2);
  };
  blocks_.choose_lines(lines_.shape.lines_read(1) - lines_.shape.y.step,
                       [&](int64_t lines) { return bytes(lines) <= cache; });
  blocks_.cut_lines(lines_.shape, cache, kStepPixels, bytes);
  if (blocks_.block_lines == blocks_.lines && blocks_.pieces() == 1)
    blocks_.block_planes = std::clamp<int64_t>(cache / bytes(blocks_.lines), 1, blocks_.planes);
}

// Blocks of fewer planes or lines where a task's are too few for the threads that share it.
void AmxGradientPlan::share_blocks(int threads) {
  if (tasks() >= threads) return;
  const int64_t wanted = ceil_div(threads, tasks());
  blocks_.block_planes = std::clamp<int64_t>(blocks_.planes / wanted, 1, blocks_.block_planes);
  const int64_t line = std::max<int64_t>(blocks_.positions, 1), least = ceil_div(kLinesSharePixels / 4, line);
  if (blocks_.count() < wanted)
    blocks_.block_lines =
        std::min(blocks_.block_lines, std::max(blocks_.lines * blocks_.planes / wanted, least));
  shares_ = std::min(wanted, blocks_.count());
}

}  // namespace tessera
