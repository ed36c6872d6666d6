#include "backend/cpu/line_copies.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/copy_pieces.h"
#include "core/tile_math.h"

namespace tessera {
LineCopies::LineCopies(const GemmView& view, int64_t group, int64_t step, const ArchSpec& arch, int threads)
    : view_(view),
      shape_(lines_shape(*view.window, group, step)),
      blocks_(*view.window, shape_),
      element_(bytes_of(view.a.type)) {
  place_lines(arch, threads);
  place_steps();
  place_tiles();
}

void LineCopies::place_lines(const ArchSpec& arch, int threads) {
  const int64_t cache = arch.l2.bytes / 4;
  const int64_t deep = std::max<int64_t>(shape_.z.taps, 1), whole = shape_.y.positions;
  // All groups of a block are read one after the other, from lines of memory that they share.
  auto bytes = [&](int64_t lines) { return shape_.lines_read(lines) * deep * line_bytes() * view_.groups; };
  const int64_t extra = shape_.lines_read(1) - shape_.lines_read(0) > 0 ? shape_.lines_read(1) - 1 : 0;
  blocks_.choose_lines(extra, [&](int64_t lines) {
    return bytes(lines) <= cache && lines * shape_.walked <= kLinesBlockRows;
  });
  blocks_.cut_lines(shape_, cache, kLinesTileRows, bytes);
  if (blocks_.block_lines == whole && blocks_.pieces() == 1) {
    const int64_t tiles = shape_.tiles_of(whole);
    blocks_.block_planes = std::clamp<int64_t>(
        std::min(cache / std::max<int64_t>(bytes(whole), 1), kLinesBlockRows / (tiles * kLinesTileRows)), 1,
        blocks_.planes);
    blocks_.block_planes = std::min(blocks_.block_planes, std::max<int64_t>(blocks_.planes / threads, 1));
  }
  if (threads > 1 && blocks_.block_planes == 1) cut_for(threads, extra);
}

// Blocks of fewer lines, or shorter pieces of single ones, where the threads then are done sooner: as many at
// a time as there are threads, each of which copies `extra` lines beside its own, at about a third of what
// computing a line costs.
void LineCopies::cut_for(int threads, int64_t extra) {
  constexpr int64_t kLeastRows = 64;
  if (blocks_.lines == 1 && blocks_.count() < threads) {
    const int64_t wanted = ceil_div(threads, blocks_.planes), most = blocks_.positions / kLeastRows;
    if (most > blocks_.pieces()) blocks_.cut_into(std::min(wanted, most), shape_, kLinesTileRows);
    return;
  }
  const int64_t least = std::max<int64_t>(ceil_div(kLeastRows, shape_.walked), 1);
  const auto time = [&](int64_t lines) {
    const int64_t count = blocks_.planes * blocks_.pieces() * ceil_div(blocks_.lines, lines);
    return static_cast<double>(ceil_div(count, threads)) *
           (static_cast<double>(lines) + static_cast<double>(extra) / 3);
  };
  int64_t best = blocks_.block_lines;
  for (int64_t lines = best - 1; lines >= least; --lines) {
    if (time(lines) < time(best) * 0.95) best = lines;
  }
  blocks_.block_lines = best;
}

void LineCopies::place_steps() {
  const LinesAxis& y = shape_.y;
  row_bytes_ = shape_.x.step * shape_.pixel * element_;
  // Lines by their remainder by the step along y: neighbours of the result read neighbours of one
  // remainder.
  phase_lines_ = lines_by_remainder(y, blocks_.block_lines);
  std::vector<int64_t> phase_at;
  tap_plane_ = 0;
  for (const int64_t lines : phase_lines_) {
    phase_at.push_back(tap_plane_);
    tap_plane_ += lines * line_bytes();
  }
  plane_bytes_ = tap_plane_ * shape_.z.taps;
  std::vector<long long> runs;
  for (int64_t z = 0; view_.k > 0 && z < shape_.z.taps; ++z) {
    for (int64_t t = 0; t < y.taps; ++t) {
      const int64_t tap = y.reversed ? y.taps - 1 - t : t, down = tap * y.spread;
      const int64_t plane = shape_.z.reversed ? shape_.z.taps - 1 - z : z;
      const int64_t line =
          plane * tap_plane_ + phase_at[static_cast<size_t>(down % y.step)] + down / y.step * line_bytes();
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
  const bool as_one = shape_.as_one(blocks_.block_lines);
  for (int64_t p = 0; p < blocks_.block_planes; ++p) {
    for (int64_t line = 0; line < (as_one ? 1 : blocks_.block_lines); ++line) {
      const int64_t tiles =
          as_one ? shape_.tiles_of(blocks_.block_lines) : ceil_div(shape_.x.positions, kLinesTileRows);
      for (int64_t t = 0; t < tiles; ++t)
        tile_at_.push_back(p * plane_bytes_ + line * line_bytes() + t * kLinesTileRows * row_bytes_);
    }
  }
  // The last tile reads rows that are none of C's behind the lines.
  int64_t end = blocks_.block_planes * plane_bytes_ + shape_.x.blank() * shape_.pixel * element_;
  for (const long long at : step_at_)
    end = std::max<int64_t>(end, tile_at_.back() + at + (kLinesTileRows - 1) * row_bytes_ + 64);
  bytes_ = round_up(end, 64);
}

void LineCopies::copy(const char* images, const LineBlock& block, char* out) const {
  const Window& w = *view_.window;
  const LinesAxis &y = shape_.y, &z = shape_.z;
  LinesAxis x = shape_.x;
  x.first += block.first * x.step * x.every;
  // What a line reads beyond its columns are the blanks that the next one begins with: they are written
  // behind the last one too, where a block of fewer lines or planes leaves its room as it was.
  const auto blank = static_cast<size_t>(shape_.x.blank() * shape_.pixel * element_);
  for (int64_t p = 0; p < block.planes; ++p) {
    const int64_t plane = block.plane0 + p, position = plane % z.positions;
    for (int64_t tap = 0; tap < z.taps; ++tap) {
      const int64_t depth = z.coordinate(position * z.step + tap * z.spread);
      char* to = out + p * plane_bytes_ + tap * tap_plane_;
      for (int64_t phase = 0; phase < y.step; ++phase) {
        const int64_t slots = phase_lines_[static_cast<size_t>(phase)];
        const int64_t copied = slots - (blocks_.block_lines - block.lines);
        for (int64_t s = 0; s < copied; ++s) {
          const int64_t at = y.coordinate((block.line0 + s) * y.step + phase);
          const bool inside = depth >= 0 && depth < z.size && at >= 0 && at < y.size;
          copy_line(x,
                    inside ? images + (plane / z.positions * w.image_stride + depth * w.axes[0].stride +
                                       at * w.axes[1].stride) *
                                          element_
                           : nullptr,
                    to + s * line_bytes());
        }
        if (copied > 0 && copied < slots) std::memset(to + copied * line_bytes(), 0, blank);
        to += slots * line_bytes();
      }
    }
  }
  std::memset(out + block.planes * plane_bytes_, 0, blank);
}

void LineCopies::copy_line(const LinesAxis& x, const char* line, char* out) const {
  const int64_t channels = view_.window->channels, pixel = shape_.pixel * element_;
  if (!line) {
    std::memset(out, 0, static_cast<size_t>(line_bytes()));
    return;
  }
  const int64_t begin = std::min(x.blank(), shape_.width);
  const int64_t end = std::clamp(x.filled(), begin, shape_.width);
  const bool dense = x.every == 1 && view_.window->axes[2].stride == channels;
  const bool widens = channels != shape_.pixel && dense && element_ == 2;
  if (channels != shape_.pixel && !widens) {
    std::memset(out, 0, static_cast<size_t>(line_bytes()));
  } else {
    std::memset(out, 0, static_cast<size_t>(begin * pixel));
    std::memset(out + end * pixel, 0, static_cast<size_t>(line_bytes() - end * pixel));
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
  const bool as_one = shape_.as_one(blocks_.block_lines);
  const int64_t pitch = as_one ? shape_.walked : round_up(shape_.x.positions, kLinesTileRows);
  const int64_t plane_rows =
      as_one ? round_up((block.lines - 1) * pitch + across, kLinesTileRows) : block.lines * pitch;
  std::fill(rows, rows + block.planes * plane_rows, -1LL);
  for (int64_t p = 0; p < block.planes; ++p) {
    for (int64_t line = 0; line < block.lines; ++line) {
      const int64_t first =
          ((block.plane0 + p) * down + block.line0 + line) * blocks_.positions + block.first;
      const int64_t row = view_.c_rows ? view_.c_rows->row(first) : first;
      long long* to = rows + p * plane_rows + line * pitch;
      for (int64_t i = 0; i < across; ++i) to[i] = row + i * apart;
    }
  }
  return block.planes * plane_rows / kLinesTileRows;
}

}  // namespace tessera
