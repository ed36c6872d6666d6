#include "backend/cpu/line_copies.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/copy_pieces.h"
#include "core/tile_math.h"

namespace tessera {
namespace {

// Lines of a block for each that it reads beyond its own.
constexpr int64_t kLinesPerExtra = 3;
// Lines are cut into pieces of at least so many positions: those that no other line is read with where they
// are more than the cache keeps, others where the workspace would be large.
constexpr int64_t kLeastPositions = 256, kMostCaches = 16;

}  // namespace

LineCopies::LineCopies(const GemmView& view, int64_t group, int64_t step, const ArchSpec& arch, int threads)
    : view_(view),
      shape_(lines_shape(*view.window, group, step)),
      positions_(shape_.x.positions),
      element_(bytes_of(view.a.type)),
      planes_(view.window->images * shape_.z.positions) {
  place_lines(arch, threads);
  place_steps();
  place_tiles();
}

int64_t LineCopies::pieces() const { return ceil_div(positions_, shape_.x.positions); }
int64_t LineCopies::blocks() const {
  return block_planes_ > 1 ? ceil_div(planes_, block_planes_)
                           : planes_ * ceil_div(shape_.y.positions, block_lines_) * pieces();
}

void LineCopies::place_lines(const ArchSpec& arch, int threads) {
  const int64_t cache = arch.l2.bytes / 4;
  const int64_t deep = std::max<int64_t>(shape_.z.taps, 1), whole = shape_.y.positions;
  // All groups of a block are read one after the other, from lines of memory that they share.
  auto bytes = [&](int64_t lines) { return shape_.lines_read(lines) * deep * line_bytes() * view_.groups; };
  const int64_t extra = shape_.lines_read(1) - shape_.lines_read(0) > 0 ? shape_.lines_read(1) - 1 : 0;
  const int64_t least = std::min(whole, std::max<int64_t>(kLinesPerExtra * extra, 1));
  block_lines_ = whole;
  while (block_lines_ > least &&
         (bytes(block_lines_) > cache || block_lines_ * shape_.walked > kLinesBlockRows))
    block_lines_ = std::max(least, ceil_div(block_lines_, 2));
  block_lines_ = ceil_div(whole, ceil_div(whole, block_lines_));
  const int64_t most = shape_.y.taps <= 1 && block_lines_ == 1 ? cache : kMostCaches * cache;
  while (bytes(block_lines_) > most && shape_.x.positions > kLeastPositions)
    cut_lines(ceil_div(shape_.x.positions, 2));
  if (pieces() > 1) cut_lines(round_up(ceil_div(positions_, pieces()), kLinesTileRows));
  line_bytes_ = line_bytes();
  block_planes_ = 1;
  if (block_lines_ == whole && pieces() == 1) {
    const int64_t tiles = shape_.tiles_of(whole);
    block_planes_ = std::clamp<int64_t>(
        std::min(cache / std::max<int64_t>(bytes(whole), 1), kLinesBlockRows / (tiles * kLinesTileRows)), 1,
        planes_);
    if (planes_ >= threads) block_planes_ = std::min(block_planes_, planes_ / threads);
  }
}

// A piece ends amid pixels, not in zeros that another line could share.
void LineCopies::cut_lines(int64_t positions) {
  shape_.x.positions = positions;
  shape_.width = round_up(shape_.x.reach(), shape_.x.step);
  shape_.walked = shape_.width / shape_.x.step;
}

void LineCopies::place_steps() {
  const LinesAxis& y = shape_.y;
  row_bytes_ = shape_.x.step * shape_.pixel * element_;
  // Lines by their remainder by the step along y: neighbours of the result read neighbours of one
  // remainder.
  phase_lines_.assign(static_cast<size_t>(y.step), 0);
  for (int64_t t = 0; t < y.taps; ++t) {
    int64_t& lines = phase_lines_[static_cast<size_t>(t * y.spread % y.step)];
    lines = std::max(lines, block_lines_ + t * y.spread / y.step);
  }
  std::vector<int64_t> phase_at;
  tap_plane_ = 0;
  for (const int64_t lines : phase_lines_) {
    phase_at.push_back(tap_plane_);
    tap_plane_ += lines * line_bytes_;
  }
  plane_bytes_ = tap_plane_ * shape_.z.taps;
  std::vector<long long> runs;
  for (int64_t z = 0; view_.k > 0 && z < shape_.z.taps; ++z) {
    for (int64_t t = 0; t < y.taps; ++t) {
      const int64_t tap = y.reversed ? y.taps - 1 - t : t, down = tap * y.spread;
      const int64_t plane = shape_.z.reversed ? shape_.z.taps - 1 - z : z;
      const int64_t line =
          plane * tap_plane_ + phase_at[static_cast<size_t>(down % y.step)] + down / y.step * line_bytes_;
      for (int64_t i = 0; i < shape_.x.taps; i += shape_.run) {
        const int64_t across = shape_.run == 1 && shape_.x.reversed ? shape_.x.taps - 1 - i : i;
        runs.push_back(line + across * shape_.x.spread * shape_.pixel * element_);
      }
    }
  }
  for (const long long run : runs) {
    for (int64_t s = 0; s < shape_.whole; ++s) step_at_.push_back(run + s * 64);
  }
  for (const long long run : runs) {
    if (shape_.tail > 0) step_at_.push_back(run + shape_.whole * 64);
  }
}

void LineCopies::place_tiles() {
  const bool as_one = shape_.as_one(block_lines_);
  for (int64_t p = 0; p < block_planes_; ++p) {
    for (int64_t line = 0; line < (as_one ? 1 : block_lines_); ++line) {
      const int64_t tiles =
          as_one ? shape_.tiles_of(block_lines_) : ceil_div(shape_.x.positions, kLinesTileRows);
      for (int64_t t = 0; t < tiles; ++t)
        tile_at_.push_back(p * plane_bytes_ + line * line_bytes_ + t * kLinesTileRows * row_bytes_);
    }
  }
  // The last tile reads rows that are none of C's behind the lines.
  int64_t end = block_planes_ * plane_bytes_ + shape_.x.blank() * shape_.pixel * element_;
  for (const long long at : step_at_)
    end = std::max<int64_t>(end, tile_at_.back() + at + (kLinesTileRows - 1) * row_bytes_ + 64);
  bytes_ = round_up(end, 64);
}

LineBlock LineCopies::block(int64_t i) const {
  if (block_planes_ > 1) {
    return {i * block_planes_, std::min(block_planes_, planes_ - i * block_planes_), 0, block_lines_, 0,
            positions_};
  }
  const int64_t first = i % pieces() * shape_.x.positions;
  i /= pieces();
  const int64_t cuts = ceil_div(shape_.y.positions, block_lines_), line0 = i % cuts * block_lines_;
  return {i / cuts, 1,
          line0,    std::min(block_lines_, shape_.y.positions - line0),
          first,    std::min(shape_.x.positions, positions_ - first)};
}

void LineCopies::copy(const char* images, const LineBlock& block, char* out) const {
  const Window& w = *view_.window;
  const LinesAxis &y = shape_.y, &z = shape_.z;
  LinesAxis x = shape_.x;
  x.first += block.first * x.step * x.every;
  for (int64_t p = 0; p < block.planes; ++p) {
    const int64_t plane = block.plane0 + p, position = plane % z.positions;
    for (int64_t tap = 0; tap < z.taps; ++tap) {
      const int64_t depth = z.coordinate(position * z.step + tap * z.spread);
      char* to = out + p * plane_bytes_ + tap * tap_plane_;
      for (int64_t phase = 0; phase < y.step; ++phase) {
        const int64_t slots = phase_lines_[static_cast<size_t>(phase)];
        for (int64_t s = 0; s < slots - (block_lines_ - block.lines); ++s) {
          const int64_t at = y.coordinate((block.line0 + s) * y.step + phase);
          const bool inside = depth >= 0 && depth < z.size && at >= 0 && at < y.size;
          copy_line(x,
                    inside ? images + (plane / z.positions * w.image_stride + depth * w.axes[0].stride +
                                       at * w.axes[1].stride) *
                                          element_
                           : nullptr,
                    to + s * line_bytes_);
        }
        to += slots * line_bytes_;
      }
    }
  }
  // What the last line reads beyond its columns.
  std::memset(out + block_planes_ * plane_bytes_, 0,
              static_cast<size_t>(shape_.x.blank() * shape_.pixel * element_));
}

void LineCopies::copy_line(const LinesAxis& x, const char* line, char* out) const {
  const int64_t channels = view_.window->channels, pixel = shape_.pixel * element_;
  if (!line) {
    std::memset(out, 0, static_cast<size_t>(line_bytes_));
    return;
  }
  const int64_t begin = std::min(x.blank(), shape_.width);
  const int64_t end = std::clamp(x.filled(), begin, shape_.width);
  const bool dense = x.every == 1 && view_.window->axes[2].stride == channels;
  const bool widens = channels != shape_.pixel && dense && element_ == 2;
  if (channels != shape_.pixel && !widens) {
    std::memset(out, 0, static_cast<size_t>(line_bytes_));
  } else {
    std::memset(out, 0, static_cast<size_t>(begin * pixel));
    std::memset(out + end * pixel, 0, static_cast<size_t>(line_bytes_ - end * pixel));
  }
  const int64_t stride = view_.window->axes[2].stride * element_;
  const char* from = line + x.coordinate(begin) * stride;
  if (widens) {
    widen_pixels_avx512(out + begin * pixel, from, channels, shape_.pixel, end - begin);
  } else if (dense && channels == shape_.pixel) {
    std::memcpy(out + begin * pixel, from, static_cast<size_t>((end - begin) * pixel));
  } else {
    copy_pieces(out + begin * pixel, pixel, from, x.every * stride, channels * element_, end - begin);
  }
}

int64_t LineCopies::place_rows(const LineBlock& block, long long* rows) const {
  const int64_t across = block.positions, down = shape_.y.positions;
  const int64_t apart = view_.c_rows ? view_.c_rows->step[2] : 1;
  const bool as_one = shape_.as_one(block_lines_);
  const int64_t pitch = as_one ? shape_.walked : round_up(shape_.x.positions, kLinesTileRows);
  const int64_t plane_rows =
      as_one ? round_up((block.lines - 1) * pitch + across, kLinesTileRows) : block.lines * pitch;
  std::fill(rows, rows + block.planes * plane_rows, -1LL);
  for (int64_t p = 0; p < block.planes; ++p) {
    for (int64_t line = 0; line < block.lines; ++line) {
      const int64_t first = ((block.plane0 + p) * down + block.line0 + line) * positions_ + block.first;
      const int64_t row = view_.c_rows ? view_.c_rows->row(first) : first;
      long long* to = rows + p * plane_rows + line * pitch;
      for (int64_t i = 0; i < across; ++i) to[i] = row + i * apart;
    }
  }
  return block.planes * plane_rows / kLinesTileRows;
}

}  // namespace tessera
