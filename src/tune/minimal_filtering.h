// How far the results of minimal filtering F(2,3), and F(3,2) for the gradient of a filter, may lie from the
// exact ones. What is added up are not products of the operands but products of their sums, which may be
// larger than the result they cancel to.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "core/gemm_view.h"

namespace tessera {

// Of three taps x and weights g along an axis, the first of two neighbouring results is computed as
//   (x0 - x2) g0 + (x1 + x2) (g0 + g1 + g2) / 2 + (x2 - x1) (g0 - g1 + g2) / 2,
// the second as its mirror image; several axes are nested. With absolute values in place of all numbers that
// is two terms for each axis, an outer and an inner one. This bounds their sum over channels by the Euclidean
// norms of the factors.
//
// Of two gradients y of results and four inputs x, the first of three neighbouring weights' is the sum over
// all tiles of
//   y0 (x0 - x2) + (y0 + y1) (x1 + x2) / 2 + (y0 - y1) (x2 - x1) / 2,
// the last its mirror image, the middle one the difference of the two halves: at most an outer term of one
// side and an inner one. Norms are over tiles then.
class MinimalFiltering {
 public:
  // winograd_window() or winograd_weight_window() holds; the view is kept.
  explicit MinimalFiltering(const GemmView& view);

  using Column = std::function<void(int64_t j, double* out)>;  // as Factors::column

  // Norms of the factors of row i (Factors::row) and of column j, beside which `other` gives those it needs.
  std::vector<double> row_norms(int64_t i, const double* row) const;
  std::vector<double> column_norms(int64_t j, const double* column, const Column& other) const;

  // At least the magnitude of whatever is added up to the result of row i and column j.
  double magnitude(int64_t i, int64_t j, const std::vector<double>& row,
                   const std::vector<double>& column) const;

  // Results of whole numbers of this magnitude at most are exact: sums of the filter are held in halves for
  // each axis.
  double most_exact() const;

  // What is added up to a result, and its roundings beside those of the sum: of the transforms, one after
  // another.
  int64_t terms() const { return gradient_ ? tiles_ : view_.window->channels; }
  int64_t roundings() const { return 5 * axes_; }

 private:
  using Places = std::array<int64_t, 3>;

  // Whether the position of row i is the second of its tile, along each axis.
  std::array<bool, 3> second(int64_t i) const;

  // Norms over tiles of sums of magnitude(image, tile, place), over every combination of the axes' sets of
  // places, each as bits.
  template <class Magnitude>
  std::vector<double> tile_norms(const std::vector<unsigned>& sets, const Magnitude& magnitude) const;
  // The number of a tile's position, `offset` from its first along each axis; -1 where there is none.
  int64_t position(int64_t image, const Places& tile, const Places& offset) const;
  double magnitude_of_weight(int64_t tap, const std::vector<double>& row,
                             const std::vector<double>& column) const;

  const GemmView& view_;
  bool gradient_;
  Places taps_{}, axis_tiles_{};
  int64_t tiles_ = 1;  // of all images
  int64_t axes_ = 0;   // of three taps
};

}  // namespace tessera
