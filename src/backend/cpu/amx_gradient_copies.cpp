#include "backend/cpu/amx_gradient_copies.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/ahead.h"
#include "backend/cpu/pack_tiles.h"
#include "backend/cpu/tile_configuration.h"
#include "core/tile_math.h"

namespace tessera {

AmxGradientCopies::AmxGradientCopies(const GemmView& view, const AmxGradientPlan& plan)
    : view_(view), plan_(plan), lines_(plan.lines()), shape_(plan.shape()), blocks_(plan.blocks()) {
  place_lines();
  place_tiles();
  zeros_.assign(static_cast<size_t>(std::max(view_.m, view_.window->channels) * kElement), char{0});
}

int64_t AmxGradientCopies::table_bytes() const {
  return round_up((lines_.pitch() + 1) * static_cast<int64_t>(sizeof(const char*)), 64);
}

// A plane of the copy: [16 channels][tap along z][copy][remainder of lines by the step][line]. What a line
// reads beyond its end are the blanks that the next one begins with; behind the last one are zeros, as many
// as the last tap and the last step read there: other channels' numbers, zero times which is none if they
// are infinite, must not be met.
void AmxGradientCopies::place_lines() {
  const LinesAxis& y = shape_.y;
  phase_lines_ = lines_by_remainder(y, blocks_.block_lines);
  lines_before_ = std::max<int64_t>(y.taps - 1, 0) * y.spread;
  copy_bytes_ = 0;
  const int64_t blank = ceil_div(shape_.x.blank(), 2) * kWordBytes;
  int64_t tail = 0;
  for (int64_t lines = 1; lines <= blocks_.block_lines; ++lines)
    tail = std::max(tail, beyond(lines) - (blocks_.block_lines - lines) * plan_.line_bytes());
  for (const int64_t lines : phase_lines_) {
    phase_at_.push_back(copy_bytes_);
    copy_bytes_ += lines * plan_.line_bytes() + blank + tail;
  }
  behind_bytes_ = blank + kTileBytes;
  depth_bytes_ = lines_.copies * copy_bytes_;
  channels_bytes_ = shape_.z.taps * depth_bytes_;
  plane_bytes_ = plan_.piece_channels() * channels_bytes_;
}

// Bytes that the last step reads behind so many lines.
int64_t AmxGradientCopies::beyond(int64_t lines) const {
  return lines_.steps(lines) * kTileBytes - lines * plan_.line_bytes();
}

// Column tiles of a piece: 16 channels after the other, the taps of each as the filter has them.
void AmxGradientCopies::place_tiles() {
  const LinesAxis &z = shape_.z, &y = shape_.y, &x = shape_.x;
  for (int64_t c = 0; c < plan_.piece_channels(); ++c) {
    for (int64_t tz = 0; tz < z.taps; ++tz) {
      for (int64_t ty = 0; ty < y.taps; ++ty) {
        const int64_t down = ty * y.spread;
        const int64_t line =
            phase_at_[static_cast<size_t>(down % y.step)] + down / y.step * plan_.line_bytes();
        for (int64_t tx = 0; tx < x.taps; ++tx) {
          tile_at_.push_back(c * channels_bytes_ + tz * depth_bytes_ + lines_.copy_of(tx) * copy_bytes_ +
                             line + lines_.words_before(tx) * kWordBytes);
        }
      }
    }
  }
  left_bytes_ = blocks_.block_planes * plan_.gradients_bytes(blocks_.block_lines);
  const int64_t last = *std::max_element(tile_at_.begin(), tile_at_.end());
  right_bytes_ =
      std::max(blocks_.block_planes * plane_bytes_, (blocks_.block_planes - 1) * plane_bytes_ + last +
                                                        lines_.steps(blocks_.block_lines) * kTileBytes);
}

// Lines of a plane follow each other `pitch` pixels apart, zeros between them.
void AmxGradientCopies::turn_gradients(const char* data, const LineBlock& b, int64_t row0, int64_t row1,
                                       char* out) const {
  const int64_t across = blocks_.positions, down = blocks_.lines, steps = lines_.steps(b.lines);
  const int64_t pixel = view_.a.col_stride * kElement, tile_bytes = b.planes * steps * kTileBytes;
  const char* pixels[kStepPixels];
  for (int64_t p = 0; p < b.planes; ++p) {
    const char* line = data + (((b.plane0 + p) * down + b.line0) * across + b.first) * pixel;
    int64_t l = 0, x = 0;
    for (int64_t s = 0; s < steps; ++s, out += kTileBytes) {
      for (const char*& at : pixels) {
        at = x < b.positions && l < b.lines ? line + x * pixel : zeros_.data();
        if (++x == lines_.pitch()) {
          x = 0;
          ++l;
          line += across * pixel;
        }
      }
      for (int64_t row = row0; row < row1; ++row) {
        const int live = static_cast<int>(std::min<int64_t>(16, view_.m - row * 16));
        turn_pixels(pixels, row * 16 * kElement, live, out + (row - row0) * tile_bytes);
      }
    }
  }
}

void AmxGradientCopies::copy_images(const char* images, const LineBlock& b, int64_t channel0,
                                    int64_t channel1, bool fetches, char* out, const char** pixels) const {
  const Window& w = *view_.window;
  const LinesAxis &y = shape_.y, &z = shape_.z;
  for (int64_t p = 0; p < b.planes; ++p, out += plane_bytes_) {
    const int64_t plane = b.plane0 + p, position = plane % z.positions;
    for (int64_t tz = 0; tz < z.taps; ++tz) {
      const int64_t depth = z.coordinate(position * z.step + tz * z.spread);
      // In memory's order.
      for (int64_t i = 0; i < lines_before_ + b.lines * y.step; ++i) {
        const int64_t phase = i % y.step, l = i / y.step;
        if (l >= phase_lines_[static_cast<size_t>(phase)] - (blocks_.block_lines - b.lines)) continue;
        const int64_t at = y.coordinate(b.line0 * y.step + i);
        const bool inside = depth >= 0 && depth < z.size && at >= 0 && at < y.size;
        const int64_t element =
            plane / z.positions * w.image_stride + depth * w.axes[0].stride + at * w.axes[1].stride;
        if (fetches && inside && at + 1 < y.size) {
          const char* next = images + (element + w.axes[1].stride) * kElement;
          Ahead{next, next + shape_.x.size * w.axes[2].stride * kElement}.fetch(0, 1);
        }
        copy_line(inside ? images + element * kElement : nullptr, channel0, channel1, b.first,
                  out + tz * depth_bytes_ + phase_at_[static_cast<size_t>(phase)] + l * plan_.line_bytes(),
                  pixels);
      }
      if (b.lines < blocks_.block_lines) clear_behind(b, channel0, channel1, out + tz * depth_bytes_);
    }
  }
}

// Of a tap along z, what lies behind the lines of a block that has fewer than the one before it.
void AmxGradientCopies::clear_behind(const LineBlock& b, int64_t channel0, int64_t channel1,
                                     char* out) const {
  for (int64_t c = channel0; c < channel1; ++c, out += channels_bytes_) {
    for (int64_t copy = 0; copy < lines_.copies; ++copy) {
      for (size_t phase = 0; phase < phase_at_.size(); ++phase) {
        const int64_t lines = std::max<int64_t>(phase_lines_[phase] - (blocks_.block_lines - b.lines), 0);
        const int64_t begin = copy * copy_bytes_ + phase_at_[phase] + lines * plan_.line_bytes();
        const int64_t end =
            copy * copy_bytes_ + (phase + 1 < phase_at_.size() ? phase_at_[phase + 1] : copy_bytes_);
        std::memset(out + begin, 0, static_cast<size_t>(std::min(end - begin, behind_bytes_)));
      }
    }
  }
}

// From position `first` on; zeros where there is no line.
void AmxGradientCopies::copy_line(const char* line, int64_t channel0, int64_t channel1, int64_t first,
                                  char* out, const char** pixels) const {
  const LinesAxis& x = shape_.x;
  const int64_t stride = view_.window->axes[2].stride * kElement;
  int64_t remainder = -1;
  for (int64_t copy = 0; copy < lines_.copies; ++copy, out += copy_bytes_) {
    if (line && lines_.remainder(copy) != remainder) {
      remainder = lines_.remainder(copy);
      for (int64_t i = 0; i <= lines_.pitch(); ++i) {
        const int64_t at = x.coordinate((first + i) * x.step + remainder);
        pixels[i] = at >= 0 && at < x.size ? line + at * stride : zeros_.data();
      }
    }
    for (int64_t c = channel0; c < channel1; ++c) {
      char* to = out + (c - channel0) * channels_bytes_;
      const int live = static_cast<int>(std::min<int64_t>(16, view_.window->channels - c * 16));
      if (line) {
        pair_pixels(pixels + lines_.later(copy), lines_.pitch() / 2, c * 16 * kElement, live, to);
      } else {
        std::memset(to, 0, static_cast<size_t>(plan_.line_bytes()));
      }
    }
  }
}

}  // namespace tessera
