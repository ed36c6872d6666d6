#include <algorithm>
#include <cmath>

#include "model/product_terms.h"

namespace tessera {
namespace {

struct Dot : ProductTerms {
  void add() const {
    const double lanes_k = static_cast<double>(inst.n) * inst.k;
    const double steps = std::ceil(w.depth / lanes_k);
    const double convert = f.left.converts ? t.load_convert : 0;
    w.math = steps * over_tiles([&](double r, double n) {
               return step_cycles(r * n, r + n, issue_per_cycle(), t) + (r + n) * convert;
             });
    w.epilogue += w.row_tiles * w.col_tiles * w.tile_m * w.tile_n * t.reduce_per_acc;
    w.memory = stream(f.read_b, w.tile_n) + f.read_a;
    // Rows pass over all columns a few tiles at a time.
    constexpr double kTilesAtOnce = 4;
    const double passes = std::ceil(w.row_tiles / kTilesAtOnce);
    w.memory += (passes - 1) * f.read_b;
  }
};

}  // namespace

void add_dot_work(const ProductTerms& terms) { Dot{terms}.add(); }

}  // namespace tessera
