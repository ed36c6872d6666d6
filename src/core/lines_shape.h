// Patches read where a copy of their images' lines lies: each pixel copied once, and every tap a distance
// from it. Known to the rules, the source, the driver and the model of cpu_amx alike.
#pragma once

#include <algorithm>
#include <vector>

#include "core/gemm_view.h"
#include "tessera/kernel_config.h"

namespace tessera {

// Rows of a tile, and the most of a block: enough for what is read of B, as long as the block's lines stay in
// the second-level cache.
inline constexpr int64_t kLinesTileRows = 16, kLinesBlockRows = 2048;
// Pixels of a gradient that are worth another thread.
inline constexpr int64_t kLinesSharePixels = 1024;

// An axis of the copy. Its columns (or lines, planes) are the coordinates first + at * every; taps are
// counted along memory.
struct LinesAxis {
  int64_t positions, taps;
  int64_t first, every;
  int64_t step, spread;  // columns from one position to the next, and from one tap to the next
  int64_t size;          // coordinates
  bool reversed;         // of the window's taps the last comes first

  int64_t coordinate(int64_t at) const { return first + at * every; }
  // Columns that all positions meet.
  int64_t reach() const { return (positions - 1) * step + std::max<int64_t>(taps - 1, 0) * spread + 1; }
  // Columns before coordinate 0, and those before the end of the coordinates.
  int64_t blank() const;
  int64_t filled() const;
};

struct LinesShape {
  LinesAxis z, y, x;
  int64_t pixel;      // elements: the channels in whole words
  int64_t run, runs;  // taps that are one piece of the copy, and how many such
  int64_t whole;      // steps of a run,
  int64_t tail;       // and the elements of its last, shorter one; 0: none
  int64_t width;      // columns of a line; what a line reads beyond them are the zeros before the next one
  int64_t walked;     // rows of the product from one line to the next, some of which are none of C's

  int64_t steps() const { return runs * (whole + (tail > 0)); }
  // Row tiles of 16 that so many lines take, walked as one or each alone.
  int64_t tiles_of(int64_t lines) const;
  bool as_one(int64_t lines) const;
  // Lines of the copy, of one tap along z, for so many lines of the result.
  int64_t lines_read(int64_t lines) const;
  // Lines become pieces of so many positions. They end amid pixels, not in zeros that another line could
  // share.
  void cut(int64_t positions);
};

// `w` must not be divided. Words are `group` elements, steps `step` of them.
LinesShape lines_shape(const Window& w, int64_t group, int64_t step);

// Whether cpu_amx reads A so.
bool reads_lines(const GemmView& v, const KernelConfig& c);
// Whether it does B, the images of a gradient.
bool sums_lines(const GemmView& v, const KernelConfig& c);

// The gradient's copies of a line. Two neighbouring pixels are a word, so a tap at an odd distance reads a
// copy that begins one pixel later, and each remainder by the step has copies of its own.
struct GradientLines {
  explicit GradientLines(const Window& w);

  LinesShape shape;
  int64_t copies = 0;                       // of a line
  int64_t copy_of(int64_t tap) const;       // of taps along x: the copy it reads,
  int64_t words_before(int64_t tap) const;  // and how far into it
  // Of a copy: pixel i is column (i + later) * step + remainder.
  int64_t remainder(int64_t copy) const { return remainder_later_[static_cast<size_t>(copy)] / 2; }
  int64_t later(int64_t copy) const { return remainder_later_[static_cast<size_t>(copy)] % 2; }
  // Pixels from one line of a copy to the next, whole words.
  int64_t pitch() const;
  // Steps of 32 pixels that so many lines take.
  int64_t steps(int64_t lines) const;

 private:
  int64_t key(int64_t tap) const;
  std::vector<int64_t> remainder_later_;  // 2 * remainder + later
};
// Whether some part's runs have both whole steps and a shorter one.
bool lines_have_tails(const GemmView& v, int64_t group, int64_t step);

}  // namespace tessera
