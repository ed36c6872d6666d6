// How a kernel that copies lines of images goes through them: in blocks of whole planes, of lines of one, or
// of pieces of lines.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "backend/cpu/ahead.h"
#include "core/lines_shape.h"

namespace tessera {

// Lines [line0, line0 + lines) of the planes (image, position along z) [plane0, plane0 + planes), which are
// whole where there are several; perhaps of a piece of each line.
struct LineBlock {
  int64_t plane0, planes, line0, lines;
  int64_t first, positions;  // of a line
};

struct LineBlocks {
  LineBlocks(const Window& window, const LinesShape& shape);

  int64_t planes, lines, positions;  // of the result: planes, lines of each, their positions
  int64_t block_planes = 1, block_lines = 1, piece = 1;  // of a block

  int64_t pieces() const;  // of a line
  int64_t count() const;
  LineBlock block(int64_t i) const;

  // So many lines to a block that it fits; of those that read `extra` lines beyond their own a few at least.
  void choose_lines(int64_t extra, const std::function<bool(int64_t lines)>& fits);
  // Cuts `shape`'s lines into pieces, whole `unit`s of positions, where a block of them is more `bytes` than
  // `cache`, or if other lines are read with them so much that the workspace would be large.
  void cut_lines(LinesShape& shape, int64_t cache, int64_t unit,
                 const std::function<int64_t(int64_t lines)>& bytes);
  // So many pieces, or fewer where units are.
  void cut_into(int64_t pieces, LinesShape& shape, int64_t unit);
};

// Lines of a copy by their remainder by the step along y, for blocks of so many lines.
std::vector<int64_t> lines_by_remainder(const LinesAxis& y, int64_t block_lines);

// What all groups of a block read of `images`, elements of so many bytes.
Ahead images_of(const LineBlock& block, const Window& window, const LinesShape& shape, const char* images,
                int64_t element);

}  // namespace tessera
