// What the costs of the CPU families of products share: operands by their part, copies, register tiles, and
// what reading in place costs.
#pragma once

#include <algorithm>
#include <cmath>

#include "model/cpu_terms.h"

namespace tessera {

struct ProductTerms : CpuTerms {
  const Operand& left = c.swap_ab ? v.b : v.a;   // supplies rows of C as the kernel sees it
  const Operand& right = c.swap_ab ? v.a : v.b;  // supplies columns
  const CpuFacts& f = memo.cpu;

  const CpuFacts::Side& side(const Operand& o) const { return &o == &left ? f.left : f.right; }
  // Bytes of an operand in the words that instructions take.
  double word_bytes(double elements) const { return elements * 4.0 / f.group; }

  // Fills memo.cpu, from a `w` that has its shape.
  void find_facts() const;

  // Copying `elements` of an operand that k runs across (or along, `turned`) into words: the slower of the
  // shuffles and of reading it from where it lives.
  double copy(const Operand& o, double elements, bool turned) const;

  // Lines of memory that other groups share, for so many pieces of the patches of one group.
  double shared_lines(const Operand& o, double pieces) const;

  // Register tiles over the whole of C, `step(rows, cols)` giving cycles per k step of a tile with that many
  // live rows and columns.
  template <class Step>
  double over_tiles(Step step) const {
    const double full_m = std::floor(w.rows / w.tile_m), full_n = std::floor(w.cols / w.tile_n);
    const double rest_m = w.rows - full_m * w.tile_m, rest_n = w.cols - full_n * w.tile_n;
    double cycles = full_m * full_n * step(w.tile_m, w.tile_n);
    if (rest_m > 0) cycles += full_n * step(rest_m, w.tile_n);
    if (rest_n > 0) cycles += full_m * step(w.tile_m, rest_n);
    if (rest_m > 0 && rest_n > 0) cycles += step(rest_m, rest_n);
    return cycles;
  }

  // Operands read in place: so many lines advance side by side, which costs bandwidth beyond a few.
  double stream(double read_alone, double lines) const { return read_alone * (1 + t.stream_penalty * lines); }

  // Pages that stay in the first-level TLB beside what else is read, and in all of it: enough where lines are
  // asked for ahead.
  static constexpr double kPagesAtHand = 48, kPagesKnown = 1024;

  // Share of `steps` that lie on a page of their own and no longer find it when they come to it again, read
  // in place `stride` bytes apart.
  static double far_share(double steps, double stride, double pages_kept) {
    const double pages = std::min(stride / static_cast<double>(kPageBytes), 1.0);
    return steps * pages > pages_kept ? pages : 0.0;
  }

  // Pages that `depth` of k of the left operand's rows lie on, k along memory.
  double pages_of_rows(double depth) const;

  // Cycles of a step along rows read in place that are whole pages apart: more of them than a set of L1 has
  // ways drive each other out.
  double way_conflicts() const {
    const double ways = static_cast<double>(a.l1.bytes) / static_cast<double>(kPageBytes);
    return f.paged ? std::max(w.tile_m - ways, 0.0) / 16 * t.far_step : 0.0;
  }

 private:
  bool converts(const Operand& o) const;
  double gather(const Operand& o, double elements) const;
  double far_rows(double pages_kept) const;
};

// What one group costs cpu_packed, cpu_amx, cpu_dot and cpu_direct, beside reading C.
void add_packed_work(const ProductTerms& terms);
void add_amx_work(const ProductTerms& terms);
void add_dot_work(const ProductTerms& terms);
void add_direct_work(const ProductTerms& terms);

}  // namespace tessera
