#include "model/product_terms.h"

#include <algorithm>
#include <cmath>

#include "core/tile_math.h"

namespace tessera {

void ProductTerms::find_facts() const {
  CpuFacts& to = memo.cpu;
  to.inst = &inst;
  to.swapped = c.swap_ab;
  to.issue_per_cycle = t.issue_share * inst.flops_per_cycle / (2.0 * inst.n * inst.k);
  to.lanes = a.vector_bits / 32.0;
  to.halves = a.issues_halves(inst);
  to.group = inst.m > 1 ? k_group(compute_type(left.type, inst)) : inst.k;
  const auto fill = [&](CpuFacts::Side& s, const Operand& o, double elements, bool turned_along_k) {
    s.converts = converts(o);
    s.along_k = &o == &v.a ? o.col_stride == 1 : o.row_stride == 1;
    s.size = bytes_of(o.type);
    s.copied = copy(o, elements, s.along_k == turned_along_k);
    s.gathered = gather(o, elements);
  };
  fill(to.left, left, w.rows * w.depth, false);
  fill(to.right, right, w.cols * w.depth, true);
  to.far_at_hand = far_rows(kPagesAtHand);
  to.far_known = far_rows(kPagesKnown);
  to.paged = to.left.along_k && left.leading() * bytes_of(left.type) % kPageBytes == 0;
  to.pages_of_rows = pages_of_rows(w.depth);
  to.read_a = read(w.bytes_a, w.bytes_a);
  to.read_b = read(w.bytes_b, w.bytes_b);
  to.read_c = read(w.bytes_c, w.bytes_c);
  const double words = word_bytes(w.cols * w.depth);
  to.read_words_b = read(words, words);
}

bool ProductTerms::converts(const Operand& o) const {
  return inst.k == 1 ? o.type != DType::f32 : compute_type(o.type, inst) != o.type || inst.name == "madd16";
}

double ProductTerms::copy(const Operand& o, double elements, bool turned) const {
  const double bytes = word_bytes(elements);
  const double cycles =
      bytes * (turned ? t.pack_transpose : t.pack_copy) + (side(o).converts ? bytes * t.pack_convert : 0);
  const double memory = elements * side(o).size;
  return cycles + read(memory, memory);
}

// What gathering `elements` of patches costs beyond copying them. Taps that are neighbours in memory are one
// piece; a pixel whose other channels belong to other groups is one line of memory, or a part of one.
double ProductTerms::gather(const Operand& o, double elements) const {
  if (!o.patches) return 0;
  const WindowAxis& x = v.window->axes[2];
  const bool run = x.spread == 1 && x.stride == v.window->channels;
  const double pieces = elements / static_cast<double>(v.window->channels * (run ? x.taps : 1));
  return pieces * t.gather_piece + shared_lines(o, pieces);
}

double ProductTerms::shared_lines(const Operand& o, double pieces) const {
  const double pixel = static_cast<double>(v.window->axes[2].stride * bytes_of(o.type));
  return v.groups > 1 ? pieces * std::min(pixel / kCacheLine, 1.0) * t.gather_line : 0.0;
}

double ProductTerms::pages_of_rows(double depth) const {
  const double size = bytes_of(left.type), page = static_cast<double>(kPageBytes);
  const double apart = std::min(static_cast<double>(left.leading()) * size / page, 1.0);
  return w.rows * std::max(depth * size / page, apart);
}

// far_share of the left operand in place.
double ProductTerms::far_rows(double pages_kept) const {
  if (f.left.along_k) return 0.0;
  return far_share(w.depth, static_cast<double>(left.leading() * bytes_of(left.type)), pages_kept);
}

}  // namespace tessera
