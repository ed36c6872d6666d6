#include <algorithm>
#include <cmath>

#include "core/planes_shape.h"
#include "core/tile_math.h"
#include "model/cpu_terms.h"

namespace tessera {
namespace {

// Cycles of the transposition between a vector of pixels and their channels, and of a call of a line.
constexpr double kTransposition = 90, kLineCall = 25;
// Of a pixel whose channels leave alone, its row of C not followed by the next.
constexpr double kPixel = 8;

struct Planes : CpuTerms {
  void add() const {
    const PlanesShape s = planes_shape(v, c, a);
    const double groups = static_cast<double>(s.groups), units = static_cast<double>(s.units),
                 together = groups / std::ceil(groups / static_cast<double>(s.together));
    const double flat = static_cast<double>(s.flat), tile_m = c.tile_m,
                 vectors = static_cast<double>(c.tile_n) / inst.n, residues = static_cast<double>(s.residues),
                 terms = static_cast<double>(s.taps * s.steps) / (s.gradient ? 1 : residues);
    const double outer_tiles = static_cast<double>(s.outer_tiles);
    const double passes = units * together;  // over the planes of a group
    if (s.gradient) {
      const double tiles = passes * outer_tiles * static_cast<double>(s.term_tiles);
      const double steps = std::ceil(flat * static_cast<double>(s.element) / 4 / inst.n);
      w.math = tiles * steps * step_cycles(tile_m * vectors, tile_m + vectors, issue_per_cycle(), t);
      w.overhead = tiles * (t.tile_overhead + 2 * tile_m * vectors);
    } else {
      const double tiles = passes * outer_tiles * residues * std::ceil(flat / c.tile_n);
      w.math = tiles * terms * step_cycles(tile_m * vectors, tile_m + vectors, issue_per_cycle(), t);
      w.overhead = tiles * (t.tile_overhead + tile_m * vectors);
      if (!v.b_prepacked) w.pack_b = static_cast<double>(s.filter_bytes) / 4 * t.pack_transpose;
    }

    // Lines are copied apart, and come together again.
    const auto lines = [&](double all, double length, double split, double channels) {
      const double at_once = split * channels <= inst.n ? 1 : split * std::ceil(channels / inst.n);
      return all * at_once * (kLineCall + std::ceil(length / split / inst.n) * kTransposition);
    };
    const auto& axes = v.window->axes;
    const auto rows = [&](auto size) { return static_cast<double>(size(axes[0]) * size(axes[1])); };
    const double blocks = static_cast<double>(v.window->images) * groups / together;
    const auto size = [](const WindowAxis& x) { return x.size; };
    const auto positions = [](const WindowAxis& x) { return x.positions; };
    const double inputs = blocks * rows(size), outputs = blocks * rows(positions);
    w.pack_a = lines(inputs, static_cast<double>(axes[2].size), static_cast<double>(s.axes[2].phases),
                     together * static_cast<double>(s.steps));
    const double leaving =
        lines(outputs, static_cast<double>(axes[2].positions), static_cast<double>(s.axes[2].residues),
              together * static_cast<double>(s.outer));
    const double elements = outputs * static_cast<double>(axes[2].positions * s.outer) * together;
    if (s.gradient) {
      w.pack_a += leaving;
      w.epilogue = groups * static_cast<double>(s.outer) * std::ceil(terms / inst.n) * kTransposition;
    } else {
      const bool follow = s.together == s.groups && v.epilogue.d_count() == 0;
      const double stores = follow ? elements / inst.n + outputs
                                   : elements / static_cast<double>(s.outer) / together *
                                         std::ceil(together * static_cast<double>(s.outer) / inst.n);
      w.epilogue =
          leaving + outputs * kLineCall +
          stores * (t.store_per_vector + (follow ? 0 : kPixel) + v.epilogue.count * t.step_per_vector);
    }

    const double planes = static_cast<double>(s.plane_bytes()), moved = read(2 * units * planes, planes);
    w.memory = read(v.bytes(), v.bytes()) + moved;
    w.staged = planes;
    w.shares = units;
    for (double* part : {&w.math, &w.pack_a, &w.pack_b, &w.epilogue, &w.memory, &w.overhead})
      *part /= w.groups;
  }
};

}  // namespace

void add_planes_work(const CpuTerms& terms) { Planes{terms}.add(); }

}  // namespace tessera
