// How far the results of minimal filtering F(2,3) may lie from the exact ones. What is added up are not
// products of the operands but products of their sums, which may be larger than the result they cancel to.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/gemm_view.h"

namespace tessera {

// Of three taps x and weights g along an axis, the first of two neighbouring results is computed as
//   (x0 - x2) g0 + (x1 + x2) (g0 + g1 + g2) / 2 + (x2 - x1) (g0 - g1 + g2) / 2,
// the second as its mirror image; several axes are nested. With absolute values in place of all numbers that
// is two terms for each axis, an outer and an inner one. This bounds their sum over channels by the Euclidean
// norms of the factors.
class MinimalFiltering {
 public:
  explicit MinimalFiltering(const GemmView& view);  // kept; winograd_window() holds

  // Norms of the factors of row i (Factors::row) and of a column (Factors::column).
  std::vector<double> row_norms(int64_t i, const double* row) const;
  std::vector<double> column_norms(const double* column) const;

  // At least the magnitude of whatever is added up to the result of row i.
  double magnitude(int64_t i, const std::vector<double>& row, const std::vector<double>& column) const;

  // Results of whole numbers of this magnitude at most are exact: sums of the filter are held in halves for
  // each axis.
  double most_exact() const;

  // Roundings of one result beside those of its sum over `channels`: of the transforms, one after another.
  int64_t channels() const { return view_.window->channels; }
  int64_t roundings() const { return 5 * axes_; }

 private:
  // Whether the position of row i is the second of its tile, along each axis.
  std::array<bool, 3> second(int64_t i) const;

  const GemmView& view_;
  std::array<int64_t, 3> taps_{};
  int64_t axes_ = 0;  // of three taps
};

}  // namespace tessera
