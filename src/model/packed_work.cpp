#include <algorithm>
#include <cmath>

#include "core/packed_shape.h"
#include "core/tile_math.h"
#include "model/product_terms.h"

namespace tessera {
namespace {

struct Packed : ProductTerms {
  void add() const {
    w.math = memo.math(c.edge_dot, {c.tile_m, c.tile_n, inst.m, inst.n, inst.k, taps_in_place()},
                       [&] { return packed_math(); });
    const bool b_in_place = !c.pack_b;
    if (!v.b_prepacked && !b_in_place) { w.pack_b = f.right.copied + f.right.gathered; }
    if (c.pack_a) {
      // Panels of fewer rows than a vector has lanes take as long as full ones.
      const bool panels = !f.left.along_k;
      const double rows = w.row_tiles * std::ceil(w.tile_m / lanes()) * lanes();
      w.pack_a = (panels ? copy(left, rows * w.depth, true) : f.left.copied) + f.left.gathered;
    }
    // Each row tile reads the panel of B again, from L1 or L2; each panel reads the block of A again, from
    // L2: the driver cuts rows until it fits, and every further block of rows reads all of packed B.
    const double block_k = c.block_k > 0 ? std::min<double>(c.block_k, w.depth) : w.depth;
    w.staged = word_bytes(w.tile_n * block_k);
    const double panels = w.col_tiles * std::max(w.passes_k, 1.0);
    const double fitting_rows =
        std::max(0.3 * static_cast<double>(a.l2.bytes) / std::max(word_bytes(block_k), 1.0), w.tile_m);
    const double row_blocks = std::ceil(w.rows / fitting_rows);
    const double a_block = word_bytes(std::min(w.rows, fitting_rows) * block_k);
    // The panel in use shares the cache with the next one, on its way meanwhile.
    // Where nothing was packed just before, the first row tile brings it from where B lives.
    const double warm_tiles = w.row_tiles - (v.b_prepacked || b_in_place ? 1 : 0);
    w.memory = warm_tiles * panels * read(w.staged, 2 * w.staged);
    w.memory += row_blocks * panels * read(a_block, a_block);
    if (row_blocks > 1) w.memory += row_blocks * f.read_words_b;
    // Sums between blocks of k are written and read once each.
    w.pack_b += read(w.rows * w.cols * 8 * std::max(w.passes_k - 1, 0.0), w.rows * w.cols * 4);
    const bool rows_in_place = !c.pack_a && !v.a.patches;
    if (taps_in_place()) {
      const double taps = w.depth / static_cast<double>(v.window->channels);
      w.overhead += taps * (w.row_tiles * w.col_tiles * t.tap_call + w.rows * t.tap_row);
      w.overhead += w.col_tiles * shared_lines(left, taps * w.rows);
    }
    double far = rows_in_place ? f.far_at_hand : 0.0;
    if (b_in_place) {
      const double stride = static_cast<double>(right.leading() * bytes_of(right.type));
      far += far_share(std::min(w.depth, static_cast<double>(kInPlaceDepth)), stride, kPagesAtHand);
      if (right.leading() % 16 != 0) far += t.split_loads * w.tile_n / inst.n / t.far_step;
    }
    w.overhead += w.row_tiles * w.col_tiles * w.depth * far * t.far_step;
    if (rows_in_place)
      w.overhead += w.row_tiles * w.col_tiles * std::ceil(w.depth / inst.k) * way_conflicts();
    if (rows_in_place && v.b_prepacked && w.col_tiles > 1 && f.left.along_k)
      w.overhead += w.col_tiles * f.pages_of_rows * t.page_in_place;
    // Blocks of k come to every row again, once its page is forgotten.
    if (rows_in_place && block_k < w.depth && f.left.along_k && f.pages_of_rows > kPagesKnown)
      w.overhead += (w.passes_k * pages_of_rows(block_k) - f.pages_of_rows) * t.page_in_place;
    if (v.b_prepacked || b_in_place) w.memory += f.read_words_b;
    w.memory += f.read_a;
    w.overhead += w.col_tiles * t.block_call;
    // The few channels of a convolution often are less than a tile.
    if (v.window) w.epilogue += w.rows * std::ceil(std::fmod(w.cols, w.tile_n) / lanes()) * kPartOfLanes;
  }

  // Whether cpu_packed reads patches where they lie.
  bool taps_in_place() const { return c.family_id() == Family::cpu_packed && !c.pack_a && v.a.patches; }

  // The same of cpu_packed.
  double packed_step(double rows, double cols) const {
    // Where each row has an address of its own, few of them stay in registers.
    constexpr double kAddresses = 10;
    return product_step(rows, cols, taps_in_place() && rows > kAddresses ? rows : 0.0);
  }

  // Row tiles as the packed kernel cuts them: tall ones and ones a row lower, all as one where columns are
  // few.
  double packed_math() const {
    const double low = w.tile_m > 1 ? std::min(w.row_tiles * w.tile_m - w.rows, w.row_tiles) : 0.0;
    const double edge = c.edge_dot ? static_cast<double>(edge_columns(v, c)) : 0.0, cols = w.cols - edge;
    const double full_n = std::floor(cols / w.tile_n), rest_n = cols - full_n * w.tile_n;
    double cycles = full_n * ((w.row_tiles - low) * packed_step(w.tile_m, w.tile_n) +
                              low * packed_step(w.tile_m - 1, w.tile_n));
    if (rest_n > 0) cycles += w.row_tiles * packed_step(w.tile_m, rest_n);
    return std::ceil(w.depth / inst.k) * cycles + edge_math(edge);
  }

  // So many columns as dot products along k, a few rows at a time.
  double edge_math(double edge) const {
    constexpr double kRows = 6;
    const double step = step_cycles(kRows * edge, kRows + edge, issue_per_cycle(), t) / kRows;
    return w.rows * (std::ceil(w.depth / inst.n) * step + edge * t.reduce_per_acc * inst.n);
  }
};

}  // namespace

void add_packed_work(const ProductTerms& terms) { Packed{terms}.add(); }

}  // namespace tessera
