#include "tune/minimal_filtering.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tessera/problem.h"
#include "tune/reference.h"

namespace tessera {
namespace {

GemmView view(const std::string& text) { return lower(Problem::parse(text)); }

// One axis, one channel: the terms as they are written down.
TEST(MinimalFiltering, OneAxis) {
  const GemmView v = view("conv_fwd n=1 c=1 k=1 in=9 filter=3 dtype=f32");
  const MinimalFiltering f(v);
  const double x[] = {1, -20, 300}, g[] = {-5, 7, 11};
  const double all = 5 + 7 + 11;
  EXPECT_DOUBLE_EQ(f.magnitude(0, f.row_norms(0, x), f.column_norms(g)), 301 * 5 + 320 * all);
  EXPECT_DOUBLE_EQ(f.magnitude(3, f.row_norms(3, x), f.column_norms(g)), 21 * all + 301 * 11);
  EXPECT_EQ(f.roundings(), 5);
  EXPECT_EQ(f.most_exact(), 0x1p23);
}

// A gradient of the input walks the taps backwards: the last of the filter meets the first coordinate.
TEST(MinimalFiltering, BackwardsTheTapsAreTurned) {
  const GemmView v = view("conv_bwd_data n=1 c=1 k=1 in=9 filter=3 dtype=f32");
  const MinimalFiltering f(v);
  const double x[] = {300, -20, 1}, g[] = {11, 7, -5};
  EXPECT_DOUBLE_EQ(f.magnitude(0, f.row_norms(0, x), f.column_norms(g)), 301 * 5 + 320 * 23.0);
}

// Of separable data the nested bound is the product of the axes' own, of several channels their norm.
TEST(MinimalFiltering, AxesAreNested) {
  const GemmView line = view("conv_fwd n=1 c=2 k=1 in=9 filter=3 dtype=f32"),
                 plane = view("conv_fwd n=1 c=2 k=1 in=9x9 filter=3x3 dtype=f32");
  const MinimalFiltering one(line), two(plane);
  const double x[] = {1, -20, 300}, g[] = {-5, 7, 11};
  std::vector<double> x1, g1, x2, g2;
  for (size_t t = 0; t < 3; ++t)
    for (double c : {3.0, 4.0}) x1.push_back(c * x[t]), g1.push_back(g[t]);
  for (size_t t = 0; t < 9; ++t)
    for (double c : {3.0, 4.0}) x2.push_back(c * x[t / 3] * x[t % 3]), g2.push_back(g[t / 3] * g[t % 3]);
  const auto of = [](const MinimalFiltering& f, int64_t i, const auto& row, const auto& column) {
    return f.magnitude(i, f.row_norms(i, row.data()), f.column_norms(column.data()));
  };
  const double scale = 5 * std::sqrt(2.0);
  const double even = of(one, 0, x1, g1) / scale, odd = of(one, 1, x1, g1) / scale;
  EXPECT_NEAR(of(two, 0, x2, g2), scale * even * even, 1e-6 * even * even);
  EXPECT_NEAR(of(two, 1, x2, g2), scale * even * odd, 1e-6 * even * odd);
  EXPECT_NEAR(of(two, 7, x2, g2), scale * odd * even, 1e-6 * odd * even);
  EXPECT_NEAR(of(two, 8, x2, g2), scale * odd * odd, 1e-6 * odd * odd);
}

// The bound of random data is a few times that of a plain sum, no licence for anything; whole numbers of
// moderate size stay exact.
TEST(MinimalFiltering, BoundsAreTight) {
  const Problem p = Problem::parse("conv_fwd n=1 c=64 k=4 in=6x6 filter=3x3 dtype=f32");
  const Operands uniform(p, FillKind::uniform), integers(p, FillKind::integers);
  const Sample all = sample_of(uniform.view());
  const auto plain = reference(uniform, all), filtered = reference(uniform, all, {.minimal_filtering = true});
  for (size_t i = 0; i < plain.size(); ++i) {
    EXPECT_EQ(filtered[i].value, plain[i].value);
    EXPECT_LT(filtered[i].error, 16 * plain[i].error);
  }
  for (const Expected& e : reference(integers, all, {.minimal_filtering = true})) EXPECT_EQ(e.error, 0);
}

}  // namespace
}  // namespace tessera
