#include "backend/cpu/gather.h"

#include <algorithm>
#include <cstring>

#include "core/tile_math.h"

namespace tessera {
namespace {

// What is gathered on the stack before it is packed.
constexpr int64_t kStrip = 16384;

bool inside(const WindowAxis& a, int64_t coordinate) { return coordinate >= 0 && coordinate < a.size; }

// Columns [col, end) of one row of patches: the taps of the position whose coordinates at tap 0 are `at`.
class Row {
 public:
  Row(const Window& w, const char* images, int element) : w_(w), images_(images), element_(element) {
    const WindowAxis& x = w.axes[2];
    // Neighbouring taps of the last axis are neighbours in memory: one copy for all of them that exist.
    run_ = x.spread == 1 && x.stride == w.channels ? x.taps : 1;
  }

  void copy(int64_t image, const int64_t (&at)[3], int64_t col, int64_t end, char* out) const {
    const WindowAxis &y = w_.axes[1], &x = w_.axes[2];
    const int64_t span = run_ * w_.channels;  // columns of one turn
    const char* base = images_ + image * w_.image_stride * element_;
    int64_t turn = col / span, in_turn = col - turn * span;
    const int64_t turns = x.taps / run_;
    int64_t t2 = turn % turns * run_, rest = turn / turns;
    int64_t t1 = rest % y.taps, t0 = rest / y.taps;
    while (col < end) {
      const int64_t count = std::min(span - in_turn, end - col);
      const int64_t z = at[0] + t0 * w_.axes[0].spread, v = at[1] + t1 * y.spread, u = at[2] + t2 * x.spread;
      if (!inside(w_.axes[0], z) || !inside(y, v)) {
        std::memset(out, 0, static_cast<size_t>(count * element_));
      } else {
        copy_line(base + (z * w_.axes[0].stride + v * y.stride) * element_, u, in_turn, count, out);
      }
      out += count * element_;
      col += count;
      in_turn = 0;
      if ((t2 += run_) == x.taps) {
        t2 = 0;
        if (++t1 == y.taps) {
          t1 = 0;
          ++t0;
        }
      }
    }
  }

 private:
  // `count` elements from the `first` on of the taps from coordinate u on.
  void copy_line(const char* line, int64_t u, int64_t first, int64_t count, char* out) const {
    const WindowAxis& x = w_.axes[2];
    const int64_t lo = std::clamp<int64_t>(-u * w_.channels - first, 0, count);
    const int64_t hi = std::clamp<int64_t>((x.size - u) * w_.channels - first, lo, count);
    if (lo > 0) std::memset(out, 0, static_cast<size_t>(lo * element_));
    if (hi > lo) {
      std::memcpy(out + lo * element_, line + (u * x.stride + first + lo) * element_,
                  static_cast<size_t>((hi - lo) * element_));
    }
    if (count > hi) std::memset(out + hi * element_, 0, static_cast<size_t>((count - hi) * element_));
  }

  const Window& w_;
  const char* images_;
  int element_;
  int64_t run_;
};

// Whether packed words are the elements as they lie in memory.
bool are_words(const PanelSource& s) { return !s.flip_sign && bytes_of(s.memory) * s.group == 4; }

}  // namespace

void gather_patches(const Window& w, const char* images, int element, const PatchPiece& piece, char* out,
                    int64_t row_bytes) {
  const Row row(w, images, element);
  const auto& axes = w.axes;
  int64_t p2 = piece.row % axes[2].positions, rest = piece.row / axes[2].positions;
  int64_t p1 = rest % axes[1].positions;
  rest /= axes[1].positions;
  int64_t p0 = rest % axes[0].positions, image = rest / axes[0].positions;
  for (int64_t i = 0; i < piece.rows; ++i, out += row_bytes) {
    const int64_t at[3] = {p0 * axes[0].step + axes[0].shift, p1 * axes[1].step + axes[1].shift,
                           p2 * axes[2].step + axes[2].shift};
    row.copy(image, at, piece.col, piece.col + piece.cols, out);
    if (++p2 < axes[2].positions) continue;
    p2 = 0;
    if (++p1 < axes[1].positions) continue;
    p1 = 0;
    if (++p0 < axes[0].positions) continue;
    p0 = 0;
    ++image;
  }
}

void pack_patch_rows(PackRows pack, const Window& w, const PanelSource& words, const PatchPiece& piece,
                     int64_t row_bytes, char* out) {
  const int element = bytes_of(words.memory);
  if (are_words(words)) {
    gather_patches(w, words.data, element, piece, out, row_bytes);
    const int64_t bytes = piece.cols * element, whole = round_up(bytes, 4);
    for (int64_t i = 0; whole > bytes && i < piece.rows; ++i) {
      std::memset(out + i * row_bytes + bytes, 0, static_cast<size_t>(whole - bytes));
    }
    return;
  }
  alignas(64) char strip[kStrip];
  const int64_t most = kStrip / element / 64 * 64;
  PanelSource from = words;
  from.data = strip;
  for (int64_t i = 0; i < piece.rows; ++i) {
    for (int64_t col = 0; col < piece.cols; col += most) {
      const int64_t cols = std::min(most, piece.cols - col);
      gather_patches(w, words.data, element, {piece.row + i, 1, piece.col + col, cols}, strip, 0);
      pack(from, cols, 1, row_bytes, out + i * row_bytes + col / words.group * 4);
    }
  }
}

void pack_patch_panel(PackPanel pack, const Window& w, const PanelSource& words, const PatchPiece& piece,
                      int width, char* out) {
  alignas(64) char strip[kStrip];
  const int element = bytes_of(words.memory);
  const int64_t line = round_up(piece.cols * element, 64);
  const int64_t most = std::max<int64_t>(kStrip / line / words.group, 1) * words.group;
  PanelSource from = words;
  from.data = strip;
  from.k_stride = line / element;
  from.lane_stride = 1;
  for (int64_t k = 0; k < piece.rows; k += most) {
    const int64_t rows = std::min(most, piece.rows - k);
    gather_patches(w, words.data, element, {piece.row + k, rows, piece.col, piece.cols}, strip, line);
    pack(from, {rows, static_cast<int>(piece.cols), width, false}, out + k / words.group * width * 4);
  }
}

void pack_block_panel(PackPanel pack, const Operand& o, const std::vector<int64_t>& blocks,
                      const PanelSource& words, int64_t k, const PanelShape& shape, char* out) {
  const int element = bytes_of(o.type);
  alignas(64) char strip[kStrip];
  const int64_t line = round_up(shape.live * element, 64);
  const bool whole_groups =
      o.row_block % words.group == 0;  // otherwise groups reach from one block into the next
  const int64_t most = whole_groups ? o.row_block : kStrip / line / words.group * words.group;
  auto row = [&](int64_t r) {
    const int64_t block = r / o.row_block;
    const int64_t at = blocks.empty() ? block : blocks[static_cast<size_t>(block)];
    return words.data + (at * o.block_stride + r % o.row_block * o.row_stride) * element;
  };
  for (int64_t done = 0; done < shape.depth;) {
    const int64_t r = k + done;
    PanelSource from = words;
    PanelShape piece = shape;
    if (whole_groups) {
      piece.depth = std::min(o.row_block - r % o.row_block, shape.depth - done);
      from.data = row(r);
    } else {
      piece.depth = std::min(most, shape.depth - done);
      for (int64_t i = 0; i < piece.depth; ++i) {
        std::memcpy(strip + i * line, row(r + i), static_cast<size_t>(shape.live * element));
      }
      from.data = strip;
      from.k_stride = line / element;
    }
    pack(from, piece, out + done / words.group * shape.width * 4);
    done += piece.depth;
  }
}

}  // namespace tessera
