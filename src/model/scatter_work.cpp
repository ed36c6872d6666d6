#include <algorithm>
#include <cmath>

#include "core/scatter_shape.h"
#include "core/tile_math.h"
#include "model/cpu_terms.h"

namespace tessera {
namespace {

// Cycles of a vector of a product that is read and added to a sum in the first-level cache.
constexpr double kAdd = 2.5;
// Of an element of C that shares its vector with no other: stored one position at a time.
constexpr double kPosition = 8;

struct Scatter : CpuTerms {
  void add() const {
    const ScatterShape s = scatter_shape(v);
    const double coordinates = static_cast<double>(s.images * s.coordinates),
                 columns = static_cast<double>(s.columns),
                 steps = std::ceil(static_cast<double>(v.window->channels) / inst.k);
    // Register tiles of about one height, as cpu_packed cuts them.
    const double block = std::max<double>(c.block_m, c.tile_m), blocks = std::ceil(coordinates / block),
                 heights = std::ceil(coordinates / blocks / c.tile_m), rows = coordinates / blocks / heights;
    const auto panel = [&](double cols) { return product_step(rows, cols); };
    const double whole = std::floor(columns / c.tile_n), rest = columns - whole * c.tile_n;
    const double panels = whole + (rest > 0), tiles = blocks * heights;
    w.math = tiles * steps * (whole * panel(c.tile_n) + (rest > 0 ? panel(rest) : 0));
    w.overhead = tiles * panels * t.tile_overhead + blocks * t.block_call;

    // Products leave their registers and are added.
    const double runs = static_cast<double>(s.runs), vectors = std::ceil(static_cast<double>(s.run) / inst.n);
    const double product_bytes = static_cast<double>(s.product_bytes);
    w.epilogue = coordinates * (runs * vectors * kAdd + std::ceil(columns / inst.n) +
                                read(2 * product_bytes, block * product_bytes));
    const double positions = static_cast<double>(v.m);
    const double leaving = s.flat ? positions * w.cols / inst.n : positions;
    w.epilogue += leaving * (s.flat ? 1 + t.store_per_vector : kPosition) +
                  leaving * v.epilogue.count * t.step_per_vector;

    const double sums = static_cast<double>(s.sums_bytes());
    const double image_bytes = static_cast<double>(v.a.extent) * bytes_of(v.a.type);
    const double panel_bytes = steps * c.tile_n * 4;
    w.memory = read(image_bytes, image_bytes) * panels + read(w.bytes_c, w.bytes_c) +
               coordinates * runs * static_cast<double>(s.run) * 4 / a.l2.bytes_per_cycle *
                   (sums > static_cast<double>(a.l1.bytes)) +
               (tiles - 1) * panels * read(panel_bytes, 2 * panel_bytes);
    if (!v.b_prepacked) w.pack_b = panels * panel_bytes * t.pack_copy + read(w.bytes_b, w.bytes_b);
    w.staged = panel_bytes;
    w.shares = static_cast<double>(s.images * s.most_parts());
  }
};

}  // namespace

void add_scatter_work(const CpuTerms& terms) { Scatter{terms}.add(); }

}  // namespace tessera
