#include "tune/minimal_filtering.h"

#include <cmath>

namespace tessera {
namespace {

// Sums of taps along an axis, each a set of them as bits. Of weights those that either result needs.
using Sums = std::vector<unsigned>;
constexpr unsigned kFirst = 1, kMiddle = 2, kLast = 4, kAll = 7;

// Norms over channels of sums of taps, one sum of each axis in every combination, the last axis fastest.
// values: [tap][channel], taps as the filter has them, walked backwards where `turned`.
std::vector<double> norms(const std::array<Sums, 3>& sums, const std::array<int64_t, 3>& taps,
                          const std::array<bool, 3>& turned, int64_t channels, const double* values) {
  std::vector<double> out;
  const auto meets = [&](size_t axis, unsigned set, int64_t tap) {
    return (set >> (turned[axis] ? taps[axis] - 1 - tap : tap) & 1) != 0;
  };
  for (unsigned d : sums[0]) {
    for (unsigned h : sums[1]) {
      for (unsigned w : sums[2]) {
        double squares = 0;
        for (int64_t c = 0; c < channels; ++c) {
          double sum = 0;
          for (int64_t t = 0; t < taps[0] * taps[1] * taps[2]; ++t) {
            if (meets(0, d, t / (taps[1] * taps[2])) && meets(1, h, t / taps[2] % taps[1]) &&
                meets(2, w, t % taps[2]))
              sum += std::fabs(values[t * channels + c]);
          }
          squares += sum * sum;
        }
        out.push_back(std::sqrt(squares));
      }
    }
  }
  return out;
}

std::array<bool, 3> turned(const Window& w) {
  return {w.axes[0].spread < 0, w.axes[1].spread < 0, w.axes[2].spread < 0};
}

}  // namespace

MinimalFiltering::MinimalFiltering(const GemmView& view) : view_(view) {
  for (size_t i = 0; i < taps_.size(); ++i) {
    taps_[i] = view.window->axes[i].taps;
    axes_ += taps_[i] > 1;
  }
}

std::array<bool, 3> MinimalFiltering::second(int64_t i) const {
  std::array<bool, 3> out{};
  for (size_t axis = taps_.size(); axis-- > 0;) {
    const int64_t positions = view_.window->axes[axis].positions;
    out[axis] = i % positions % 2 != 0;
    i /= positions;
  }
  return out;
}

std::vector<double> MinimalFiltering::row_norms(int64_t i, const double* row) const {
  const auto at = second(i);
  std::array<Sums, 3> sums;
  for (size_t axis = 0; axis < taps_.size(); ++axis) {
    if (taps_[axis] == 1) {
      sums[axis] = {kFirst};
    } else {
      sums[axis] = {kFirst | kLast, at[axis] ? kFirst | kMiddle : kMiddle | kLast};
    }
  }
  return norms(sums, taps_, turned(*view_.window), channels(), row);
}

std::vector<double> MinimalFiltering::column_norms(const double* column) const {
  std::array<Sums, 3> sums;
  for (size_t axis = 0; axis < taps_.size(); ++axis)
    sums[axis] = taps_[axis] == 1 ? Sums{kFirst} : Sums{kFirst, kAll, kLast};
  return norms(sums, taps_, turned(*view_.window), channels(), column);
}

double MinimalFiltering::magnitude(int64_t i, const std::vector<double>& row,
                                   const std::vector<double>& column) const {
  const auto at = second(i);
  double sum = 0;
  for (size_t term = 0; term < row.size(); ++term) {
    // Term and weight of each axis, the last axis fastest in both.
    size_t rest = term, weight = 0, apart = 1;
    for (size_t axis = taps_.size(); axis-- > 0;) {
      if (taps_[axis] == 1) continue;
      const bool inner = rest % 2 != 0;
      rest /= 2;
      weight += apart * (inner ? 1 : at[axis] ? 2 : 0);
      apart *= 3;
    }
    sum += row[term] * column[weight];
  }
  return sum;
}

double MinimalFiltering::most_exact() const { return std::ldexp(1.0, 24 - static_cast<int>(axes_)); }

}  // namespace tessera
