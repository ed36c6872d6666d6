// The plain answer: C of a problem computed in double precision, element by element, with how far correct
// single-precision arithmetic may lie from it.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "tessera/kernel.h"
#include "tune/operands.h"

namespace tessera {

// `value` is exact but for double rounding. A result rounded from anything in [value - error, value + error]
// is right; an error of 0 asks for equality.
struct Expected {
  double value = 0, error = 0;
};

// How a kernel adds up products, where that is not one f32 sum of the products of the operands.
struct Arithmetic {
  double sum_error = 0;            // as Kernel::sum_error()
  bool minimal_filtering = false;  // products of sums: see MinimalFiltering

  auto operator<=>(const Arithmetic&) const = default;
};
Arithmetic arithmetic_of(const Kernel& kernel);

// One value before and after an epilogue step. d: the step's D element.
Expected apply_step(const EpilogueStep& step, Expected x, double d);

// Element-wise error of a dot product of length k in f32. norms: the product of its factors' Euclidean norms.
// partial: what its sums so far reach, whatever the order, where signs are random as in FillKind::uniform.
// Rounding errors of independent signs grow with sqrt(k), each a part of the sum so far; never more than the
// worst case of k of them, each a part of all magnitudes.
double accumulation_error(int64_t k, double norms, double partial);

// What else a dot product may lose on hardware that aligns the numbers it adds to the largest of them and
// cuts off, towards zero, what lies below `unit` of it. Kernels add kTruncatedRun products so, these sums in
// f32. A product loses half of what it can at most, give or take: errors of products of one sign add up,
// those of both signs cancel. b: every step_b-th number.
constexpr int64_t kTruncatedRun = 128;
double truncation_error(const double* a, const double* b, size_t step_b, int64_t k, double unit);

// The elements of C that are looked at: all of a small problem; of a large one the crossings of at least 64
// rows with at least 64 columns, the first and last eight of each among them.
struct Sample {
  std::vector<int64_t> groups, rows, cols;  // ascending
  bool complete = true;

  size_t size() const { return groups.size() * rows.size() * cols.size(); }
};

// At most about `max_work` multiply-adds for at most about `max_elements` of C.
Sample sample_of(const GemmView& v, int64_t max_work = int64_t{1} << 27,
                 int64_t max_elements = int64_t{1} << 20);

// In the order groups, rows, cols of `s`. Threads share the rows.
std::vector<Expected> reference(const Operands& operands, const Sample& s, Arithmetic arithmetic = {});

// Buffers::bias_grad of the groups and rows of `s`; empty where the problem has none.
std::vector<Expected> reference_bias_grad(const Operands& operands, const Sample& s);

}  // namespace tessera
