#include "backend/cpu/line_blocks.h"

#include <algorithm>

#include "core/tile_math.h"

namespace tessera {
namespace {

// Lines of a block for each that it reads beyond its own.
constexpr int64_t kLinesPerExtra = 3;
// Positions of a piece, at least; caches that a block may take where it reads more lines than its own.
constexpr int64_t kLeastPositions = 256, kMostCaches = 16;

}  // namespace

LineBlocks::LineBlocks(const Window& window, const LinesShape& shape)
    : planes(window.images * shape.z.positions),
      lines(shape.y.positions),
      positions(shape.x.positions),
      piece(positions) {}

int64_t LineBlocks::pieces() const { return ceil_div(positions, piece); }

int64_t LineBlocks::count() const {
  return block_planes > 1 ? ceil_div(planes, block_planes) : planes * ceil_div(lines, block_lines) * pieces();
}

LineBlock LineBlocks::block(int64_t i) const {
  if (block_planes > 1)
    return {i * block_planes, std::min(block_planes, planes - i * block_planes), 0, lines, 0, positions};
  const int64_t first = i % pieces() * piece;
  i /= pieces();
  const int64_t cuts = ceil_div(lines, block_lines), line0 = i % cuts * block_lines;
  return {
      i / cuts, 1, line0, std::min(block_lines, lines - line0), first, std::min(piece, positions - first)};
}

void LineBlocks::choose_lines(int64_t extra, const std::function<bool(int64_t)>& fits) {
  const int64_t least = std::min(lines, std::max<int64_t>(kLinesPerExtra * extra, 1));
  block_lines = lines;
  while (block_lines > least && !fits(block_lines)) block_lines = std::max(least, ceil_div(block_lines, 2));
  block_lines = ceil_div(lines, ceil_div(lines, block_lines));
}

void LineBlocks::cut_lines(LinesShape& shape, int64_t cache, int64_t unit,
                           const std::function<int64_t(int64_t)>& bytes) {
  const int64_t most = shape.y.taps <= 1 && block_lines == 1 ? cache : kMostCaches * cache;
  while (bytes(block_lines) > most && shape.x.positions > kLeastPositions)
    shape.cut(ceil_div(shape.x.positions, 2));
  if (shape.x.positions < positions) cut_into(ceil_div(positions, shape.x.positions), shape, unit);
}

void LineBlocks::cut_into(int64_t pieces, LinesShape& shape, int64_t unit) {
  shape.cut(round_up(ceil_div(positions, pieces), unit));
  piece = shape.x.positions;
}

std::vector<int64_t> lines_by_remainder(const LinesAxis& y, int64_t block_lines) {
  std::vector<int64_t> out(static_cast<size_t>(y.step));
  for (int64_t t = 0; t < y.taps; ++t) {
    int64_t& lines = out[static_cast<size_t>(t * y.spread % y.step)];
    lines = std::max(lines, block_lines + t * y.spread / y.step);
  }
  return out;
}

Ahead images_of(const LineBlock& block, const Window& window, const LinesShape& shape, const char* images,
                int64_t element) {
  const LinesAxis &y = shape.y, &z = shape.z;
  if (block.planes > 1 && z.positions > 1) return {};
  const int64_t from = std::clamp<int64_t>(y.coordinate(block.line0 * y.step), 0, y.size);
  const int64_t last = (block.line0 + block.lines - 1) * y.step + std::max<int64_t>(y.taps - 1, 0) * y.spread;
  const int64_t to = std::clamp<int64_t>(y.coordinate(last) + 1, from, y.size);
  const int64_t middle = block.plane0 % z.positions * z.step + z.taps / 2 * z.spread;
  const int64_t depth = std::clamp<int64_t>(z.coordinate(middle), 0, z.size - 1);
  const char* image =
      images + (block.plane0 / z.positions * window.image_stride + depth * window.axes[0].stride) * element;
  return {image + from * window.axes[1].stride * element,
          image + ((block.planes - 1) * window.image_stride + to * window.axes[1].stride) * element};
}

}  // namespace tessera
