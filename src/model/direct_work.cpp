#include <algorithm>
#include <cmath>

#include "cpu/direct_stages.h"
#include "model/product_terms.h"

namespace tessera {
namespace {

struct Direct : ProductTerms {
  void add() const {
    const double steps = std::ceil(w.depth / inst.k);
    w.math =
        steps * over_tiles([&](double r, double n) { return tile_step(r, v.b_prepacked ? w.tile_n : n); });
    // Columns that do not lie as the arithmetic wants them are staged again for every block of row tiles.
    const double tiles_at_once = tsr::row_tiles_at_once(static_cast<int>(w.tile_m));
    const double row_blocks = std::ceil(w.row_tiles / tiles_at_once);
    const bool turned = f.right.along_k;
    const double panel = word_bytes(w.tile_n * w.depth), words_b = w.col_tiles * panel;
    if (!v.b_prepacked && (turned || f.right.converts || inst.k > 1)) {
      w.pack_b = interleaves() ? w.bytes_b / kInterleaved
                               : row_blocks * stage(w.cols, turned) + read(w.bytes_b * row_blocks, w.bytes_b);
    }
    if (f.left.converts) w.pack_a = stage(w.rows, !f.left.along_k);
    w.overhead += w.row_tiles * w.col_tiles * steps * (way_conflicts() + f.far_known * t.far_step);
    // A row of the tile of columns at a time: wide tiles read longer pieces of memory.
    w.memory = f.read_a;
    if (v.b_prepacked) {
      w.memory += read(words_b, words_b) + (w.row_tiles - 1) * w.col_tiles * read(panel, 2 * panel);
    } else {
      w.memory += stream(f.read_b, 1024 / w.tile_n) * row_blocks;
    }
    if (c.swap_ab) w.epilogue *= 2;
  }

  // Cycles of a step of k of a register tile with so many live rows and columns, a vector along its columns.
  double tile_step(double rows, double cols) const {
    const double vectors = std::ceil(cols / inst.n);
    return step_cycles(rows * vectors, rows + vectors, issue_per_cycle(), t);
  }

  // Staging lines of an operand inside the direct kernel. What has to be turned goes in squares of vectors:
  // about half of the time to read the lines that exist, half to turn whole squares.
  double stage(double lines, bool turned) const {
    if (!turned) {
      return word_bytes(lines * w.depth) * (t.stage_copy + (inst.k > 1 ? t.stage_interleave : 0));
    }
    const double vector = lanes(), words = std::ceil(w.depth / inst.k);
    const double squares = std::ceil(lines / vector) * vector;
    return (lines + squares) / 2 * std::ceil(words / vector) * vector * 4 * t.stage_transpose;
  }

  // Few rows and a row-major B of bytes: words are made in registers (kernels/cpu/interleave.h), 64 columns
  // of four rows by 8 shuffles.
  static constexpr double kInterleaved = 4 * 64 / 8.0;  // bytes per cycle
  bool interleaves() const {
    return tsr::interleaves_bytes(a.vector_bits, inst.name == "vnni", c.swap_ab, v.b_prepacked, c.tile_m,
                                  c.tile_n) &&
           !f.right.along_k && v.m <= c.tile_m;
  }
};

}  // namespace

void add_direct_work(const ProductTerms& terms) { Direct{terms}.add(); }

}  // namespace tessera
