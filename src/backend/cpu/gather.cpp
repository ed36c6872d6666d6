#include "backend/cpu/gather.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/copy_pieces.h"
#include "core/tile_math.h"

namespace tessera {
namespace {

// What is gathered on the stack before it is packed.
constexpr int64_t kStrip = 16384;

bool inside(const WindowAxis& a, int64_t coordinate) { return coordinate >= 0 && coordinate < a.size; }

// The least i >= 0 with i * step >= distance.
int64_t steps_until(int64_t distance, int64_t step) { return distance <= 0 ? 0 : ceil_div(distance, step); }

void clear_pieces(char* to, int64_t to_step, int64_t bytes, int64_t count) {
  for (; count > 0; --count, to += to_step) std::memset(to, 0, static_cast<size_t>(bytes));
}

// Patches at neighbouring positions of the last axis.
class Line {
 public:
  Line(const Window& w, const char* images, int element) : w_(w), images_(images), element_(element) {
    const WindowAxis& x = w.axes[2];
    // Neighbouring taps of the last axis are neighbours in memory: one copy for all of them.
    run_ = x.spread == 1 && x.stride == w.channels ? x.taps : 1;
    span_ = run_ * w.channels;
  }

  // Columns [col, end) of the `count` patches from position (p0, p1, p2) on.
  void copy(int64_t image, const ConvShape::Axes& p, int64_t count, int64_t col, int64_t end, char* out,
            int64_t row_bytes) const {
    const WindowAxis &z = w_.axes[0], &y = w_.axes[1], &x = w_.axes[2];
    const int64_t turns = x.taps / run_;
    int64_t turn = col / span_;
    for (int64_t first = col - turn * span_; col < end; ++turn, first = 0) {
      const int64_t columns = std::min(span_ - first, end - col);
      const int64_t t2 = turn % turns * run_, t1 = turn / turns % y.taps, t0 = turn / turns / y.taps;
      const int64_t at0 = p[0] * z.step + t0 * z.spread + z.shift,
                    at1 = p[1] * y.step + t1 * y.spread + y.shift;
      if (inside(z, at0) && inside(y, at1)) {
        const char* line = images_ + (image * w_.image_stride + at0 * z.stride + at1 * y.stride) * element_;
        copy_taps(line, p[2] * x.step + t2 * x.spread + x.shift, count, first, columns, out, row_bytes);
      } else {
        clear_pieces(out, row_bytes, columns * element_, count);
      }
      out += columns * element_;
      col += columns;
    }
  }

 private:
  // A run of taps whose coordinate is `at` in the first patch.
  void copy_taps(const char* line, int64_t at, int64_t count, int64_t first, int64_t columns, char* out,
                 int64_t row_bytes) const {
    const WindowAxis& x = w_.axes[2];
    // Of the run, the taps that these columns belong to are all inside from `lo` to `hi`.
    const int64_t begin = first / w_.channels, last = (first + columns - 1) / w_.channels;
    const int64_t lo = std::clamp<int64_t>(steps_until(-(at + begin), x.step), 0, count);
    const int64_t hi = std::clamp<int64_t>(steps_until(x.size - (at + last), x.step), lo, count);
    for (int64_t i = 0; i < lo; ++i) copy_edge(line, at + i * x.step, first, columns, out + i * row_bytes);
    copy_pieces(out + lo * row_bytes, row_bytes, line + ((at + lo * x.step) * x.stride + first) * element_,
                x.step * x.stride * element_, columns * element_, hi - lo);
    for (int64_t i = hi; i < count; ++i)
      copy_edge(line, at + i * x.step, first, columns, out + i * row_bytes);
  }

  // `count` elements from the `first` on of the taps from coordinate u on, some of which may not exist.
  void copy_edge(const char* line, int64_t u, int64_t first, int64_t count, char* out) const {
    const WindowAxis& x = w_.axes[2];
    const int64_t lo = std::clamp<int64_t>(-u * w_.channels - first, 0, count);
    const int64_t hi = std::clamp<int64_t>((x.size - u) * w_.channels - first, lo, count);
    std::memset(out, 0, static_cast<size_t>(lo * element_));
    if (hi > lo) {
      std::memcpy(out + lo * element_, line + (u * x.stride + first + lo) * element_,
                  static_cast<size_t>((hi - lo) * element_));
    }
    std::memset(out + hi * element_, 0, static_cast<size_t>((count - hi) * element_));
  }

  const Window& w_;
  const char* images_;
  int element_;
  int64_t run_, span_;  // taps, and columns, that are one piece of memory
};

// Whether packed words are the elements as they lie in memory.
bool are_words(const PanelSource& s) { return !s.flip_sign && bytes_of(s.memory) * s.group == 4; }

}  // namespace

void gather_patches(const Window& w, const char* images, int element, const PatchPiece& piece, char* out,
                    int64_t row_bytes) {
  const Line line(w, images, element);
  const auto& axes = w.axes;
  for (int64_t row = piece.row, end = piece.row + piece.rows; row < end;) {
    const int64_t outer = row / axes[2].positions, middle = outer / axes[1].positions;
    const ConvShape::Axes at{middle % axes[0].positions, outer % axes[1].positions, row % axes[2].positions};
    const int64_t count = std::min(axes[2].positions - at[2], end - row);
    line.copy(middle / axes[0].positions, at, count, piece.col, piece.col + piece.cols, out, row_bytes);
    out += count * row_bytes;
    row += count;
  }
}

void point_at_patches(const Window& w, const char* images, int element, const PatchPiece& piece,
                      const char* zeros, const char** table, int64_t table_rows) {
  const WindowAxis &z = w.axes[0], &y = w.axes[1], &x = w.axes[2];
  const int64_t first_line = piece.row / x.positions, first_plane = first_line / y.positions;
  const int64_t step = x.step * x.stride * element;  // from one patch of a line to the next
  for (int64_t t = 0; t < piece.cols; ++t, table += table_rows) {
    const int64_t tap = piece.col + t, lines = tap / x.taps;
    const int64_t shift0 = lines / y.taps * z.spread + z.shift, shift1 = lines % y.taps * y.spread + y.shift,
                  shift2 = tap % x.taps * x.spread + x.shift;
    const int64_t lo = steps_until(-shift2, x.step), hi = steps_until(x.size - shift2, x.step);
    int64_t p0 = first_plane % z.positions, p1 = first_line % y.positions, p2 = piece.row % x.positions;
    const char* image = images + first_plane / z.positions * w.image_stride * element;
    for (int64_t row = 0; row < piece.rows;) {
      const int64_t count = std::min(x.positions - p2, piece.rows - row);
      const int64_t at0 = p0 * z.step + shift0, at1 = p1 * y.step + shift1;
      const bool on_line = inside(z, at0) && inside(y, at1);
      const int64_t begin = on_line ? std::clamp<int64_t>(lo - p2, 0, count) : count;
      const int64_t end = on_line ? std::clamp<int64_t>(hi - p2, begin, count) : count;
      const char** to = table + row;
      std::fill(to, to + begin, zeros);
      const int64_t at = (at0 * z.stride + at1 * y.stride + (p2 * x.step + shift2) * x.stride) * element;
      for (int64_t i = begin; i < end; ++i) to[i] = image + (at + i * step);
      std::fill(to + end, to + count, zeros);
      row += count;
      p2 = 0;
      if (++p1 < y.positions) continue;
      p1 = 0;
      if (++p0 < z.positions) continue;
      p0 = 0;
      image += w.image_stride * element;
    }
  }
}

void pack_patch_rows(PackRows pack, const Window& w, const PanelSource& words, const PatchPiece& piece,
                     int64_t row_bytes, char* out) {
  const int element = bytes_of(words.memory);
  if (are_words(words)) {
    gather_patches(w, words.data, element, piece, out, row_bytes);
    const int64_t bytes = piece.cols * element, whole = round_up(bytes, 4);
    for (int64_t i = 0; whole > bytes && i < piece.rows; ++i) {
      char* const end = out + i * row_bytes + bytes;
      if (element == 2) {
        const uint16_t zero = 0;
        std::memcpy(end, &zero, 2);  // a call for so little would take longer than the row's copy
      } else {
        std::memset(end, 0, static_cast<size_t>(whole - bytes));
      }
    }
    return;
  }
  alignas(64) char strip[kStrip];
  const int64_t most = kStrip / element / 64 * 64;  // columns at a time
  PanelSource from = words;
  from.data = strip;
  for (int64_t col = 0; col < piece.cols; col += most) {
    const int64_t cols = std::min(most, piece.cols - col), line = round_up(cols * element, 64);
    from.lane_stride = line / element;
    for (int64_t row = 0, rows; row < piece.rows; row += rows) {
      rows = std::min(kStrip / line, piece.rows - row);
      gather_patches(w, words.data, element, {piece.row + row, rows, piece.col + col, cols}, strip, line);
      pack(from, cols, rows, row_bytes, out + row * row_bytes + col / words.group * 4);
    }
  }
}

namespace {

// Channels of a tap that are worth an address of their own for each patch.
constexpr int64_t kScatteredChannels = 12, kScatteredRows = 64;

// Each tap's rows by where they lie.
void pack_scattered_panel(PackScattered pack, const Window& w, const PanelSource& words,
                          const PatchPiece& piece, int width, char* out) {
  static constexpr char kZeros[kMostTileColumns * 4] = {};
  const int element = bytes_of(words.memory);
  const char* table[kScatteredRows];
  for (int64_t row = 0; row < piece.rows;
       row += kScatteredRows, out += kScatteredRows / words.group * width * 4) {
    const int64_t rows = std::min(kScatteredRows, piece.rows - row);
    for (int64_t col = piece.col, end = piece.col + piece.cols; col < end;) {
      const int64_t tap = col / w.channels, channel = col - tap * w.channels;
      const int64_t lanes = std::min(w.channels - channel, end - col), lane = col - piece.col;
      point_at_patches(w, words.data + channel * element, element, {piece.row + row, rows, tap, 1}, kZeros,
                       table, 0);
      for (int64_t i = rows; i % words.group != 0; ++i) table[i] = kZeros;
      col += lanes;
      const int64_t written = col < end ? lanes : std::min(round_up(lane + lanes, 16), int64_t{width}) - lane;
      pack(table, ceil_div(rows, int64_t{words.group}), words.group, static_cast<int>(lanes),
           static_cast<int>(written), width, out + lane * 4);
    }
  }
}

}  // namespace

void pack_patch_panel(PackPanel pack, PackScattered scattered, const Window& w, const PanelSource& words,
                      const PatchPiece& piece, int width, char* out) {
  const int element = bytes_of(words.memory);
  if (scattered && are_words(words) && words.group <= 2 && w.channels >= kScatteredChannels)
    return pack_scattered_panel(scattered, w, words, piece, width, out);
  if (are_words(words) && words.group == 1) {
    const int64_t whole = std::min<int64_t>(round_up(piece.cols, 16), width), row = int64_t{width} * 4;
    gather_patches(w, words.data, element, piece, out, row);
    if (whole > piece.cols) clear_pieces(out + piece.cols * 4, row, (whole - piece.cols) * 4, piece.rows);
    return;
  }
  alignas(64) char strip[kStrip];
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
