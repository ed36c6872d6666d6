#include "tune/minimal_filtering.h"

#include <cmath>

#include "core/winograd_shape.h"

namespace tessera {
namespace {

// Sums of taps along an axis, each a set of them as bits. Of weights those that either result needs.
using Sums = std::vector<unsigned>;
constexpr unsigned kFirst = 1, kMiddle = 2, kLast = 4, kAll = 7, kFourth = 8;

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

MinimalFiltering::MinimalFiltering(const GemmView& view)
    : view_(view),
      gradient_(view.b.patches),
      axis_tiles_(winograd_tiles(*view.window)),
      tiles_(view.window->images) {
  for (size_t i = 0; i < taps_.size(); ++i) {
    taps_[i] = view.window->axes[i].taps;
    tiles_ *= axis_tiles_[i];
    axes_ += taps_[i] > 1;
  }
}

int64_t MinimalFiltering::position(int64_t image, const Places& tile, const Places& offset) const {
  int64_t at = image;
  for (size_t axis = 0; axis < taps_.size(); ++axis) {
    const int64_t here = tile[axis] * winograd_results(taps_[axis]) + offset[axis];
    if (here >= view_.window->axes[axis].positions) return -1;
    at = at * view_.window->axes[axis].positions + here;
  }
  return at;
}

template <class Magnitude>
std::vector<double> MinimalFiltering::tile_norms(const Sums& sets, const Magnitude& magnitude) const {
  std::vector<double> out;
  const auto kinds = [&](size_t axis) { return taps_[axis] > 1 ? sets : Sums{kFirst}; };
  for (unsigned d : kinds(0)) {
    for (unsigned h : kinds(1)) {
      for (unsigned w : kinds(2)) {
        std::vector<Places> places;
        for (int64_t x = 0; x < 64; ++x) {
          const Places place{x / 16, x / 4 % 4, x % 4};
          if (d >> place[0] & h >> place[1] & w >> place[2] & 1) places.push_back(place);
        }
        double squares = 0;
        for (int64_t t = 0; t < tiles_; ++t) {
          const Places tile{t / axis_tiles_[2] / axis_tiles_[1] % axis_tiles_[0],
                            t / axis_tiles_[2] % axis_tiles_[1], t % axis_tiles_[2]};
          const int64_t image = t / axis_tiles_[2] / axis_tiles_[1] / axis_tiles_[0];
          double sum = 0;
          for (const Places& place : places) sum += magnitude(image, tile, place);
          squares += sum * sum;
        }
        out.push_back(std::sqrt(squares));
      }
    }
  }
  return out;
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
  if (gradient_) {
    return tile_norms({kFirst, kFirst | kMiddle, kMiddle},
                      [&](int64_t image, const Places& tile, const Places& offset) {
                        const int64_t at = position(image, tile, offset);
                        return at < 0 ? 0 : std::fabs(row[at]);
                      });
  }
  const auto at = second(i);
  std::array<Sums, 3> sums;
  for (size_t axis = 0; axis < taps_.size(); ++axis) {
    if (taps_[axis] == 1) {
      sums[axis] = {kFirst};
    } else {
      sums[axis] = {kFirst | kLast, at[axis] ? kFirst | kMiddle : kMiddle | kLast};
    }
  }
  return norms(sums, taps_, turned(*view_.window), view_.window->channels, row);
}

std::vector<double> MinimalFiltering::column_norms(int64_t j, const double* column,
                                                   const Column& other) const {
  const int64_t channels = view_.window->channels;
  if (gradient_) {
    // Coordinates of a tile, four along an axis, as the columns of its channel hold them: the last is what
    // the second position meets under the last tap.
    std::vector<double> others(static_cast<size_t>(view_.window->taps() * view_.k));
    std::vector<const double*> values;
    for (int64_t tap = 0; tap < view_.window->taps(); ++tap) {
      double* const to = others.data() + tap * view_.k;
      const int64_t here = tap * channels + j % channels;
      if (here != j) other(here, to);
      values.push_back(here == j ? column : to);
    }
    return tile_norms({kFirst | kLast, kMiddle | kLast, kMiddle | kFourth},
                      [&](int64_t image, const Places& tile, const Places& coordinate) {
                        Places offset;
                        int64_t tap = 0;
                        for (size_t axis = 0; axis < offset.size(); ++axis) {
                          offset[axis] = coordinate[axis] == 3;
                          tap = tap * taps_[axis] + coordinate[axis] - offset[axis];
                        }
                        const int64_t at = position(image, tile, offset);
                        return at < 0 ? 0 : std::fabs(values[static_cast<size_t>(tap)][at]);
                      });
  }
  std::array<Sums, 3> sums;
  for (size_t axis = 0; axis < taps_.size(); ++axis)
    sums[axis] = taps_[axis] == 1 ? Sums{kFirst} : Sums{kFirst, kAll, kLast};
  return norms(sums, taps_, turned(*view_.window), channels, column);
}

double MinimalFiltering::magnitude(int64_t i, int64_t j, const std::vector<double>& row,
                                   const std::vector<double>& column) const {
  if (gradient_) return magnitude_of_weight(j / view_.window->channels, row, column);
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

double MinimalFiltering::magnitude_of_weight(int64_t tap, const std::vector<double>& row,
                                             const std::vector<double>& column) const {
  double sum = 0;
  for (size_t term = 0; term < row.size(); ++term) {
    // Of each axis, the last one fastest: the outer term of the first tap, the inner one, that of the last.
    bool meets = true;
    size_t rest = term;
    int64_t taps = tap;
    for (size_t axis = taps_.size(); axis-- > 0;) {
      if (taps_[axis] == 1) continue;
      const auto kind = static_cast<int64_t>(rest % 3);
      meets &= kind == 1 || kind == taps % 3;
      rest /= 3;
      taps /= 3;
    }
    if (meets) sum += row[term] * column[term];
  }
  return sum;
}

double MinimalFiltering::most_exact() const { return std::ldexp(1.0, 24 - static_cast<int>(axes_)); }

}  // namespace tessera
