#include "tune/minimal_filtering.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tessera/problem.h"
#include "tune/reference.h"

namespace tessera {
namespace {

GemmView view(const std::string& text) { return lower(Problem::parse(text)); }

// The only column.
std::vector<double> norms_of(const MinimalFiltering& f, const std::vector<double>& column) {
  return f.column_norms(0, column.data(), nullptr);
}

// One axis, one channel: the terms as they are written down.
TEST(MinimalFiltering, OneAxis) {
  const GemmView v = view("conv_fwd n=1 c=1 k=1 in=9 filter=3 dtype=f32");
  const MinimalFiltering f(v);
  const double x[] = {1, -20, 300};
  const std::vector<double> g{-5, 7, 11};
  const double all = 5 + 7 + 11;
  EXPECT_DOUBLE_EQ(f.magnitude(0, 0, f.row_norms(0, x), norms_of(f, g)), 301 * 5 + 320 * all);
  EXPECT_DOUBLE_EQ(f.magnitude(3, 0, f.row_norms(3, x), norms_of(f, g)), 21 * all + 301 * 11);
  EXPECT_EQ(f.roundings(), 5);
  EXPECT_EQ(f.most_exact(), 0x1p23);
}

// A gradient of the input walks the taps backwards: the last of the filter meets the first coordinate.
TEST(MinimalFiltering, BackwardsTheTapsAreTurned) {
  const GemmView v = view("conv_bwd_data n=1 c=1 k=1 in=9 filter=3 dtype=f32");
  const MinimalFiltering f(v);
  const double x[] = {300, -20, 1};
  const std::vector<double> g{11, 7, -5};
  EXPECT_DOUBLE_EQ(f.magnitude(0, 0, f.row_norms(0, x), norms_of(f, g)), 301 * 5 + 320 * 23.0);
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
    return f.magnitude(i, 0, f.row_norms(i, row.data()), norms_of(f, column));
  };
  const double scale = 5 * std::sqrt(2.0);
  const double even = of(one, 0, x1, g1) / scale, odd = of(one, 1, x1, g1) / scale;
  EXPECT_NEAR(of(two, 0, x2, g2), scale * even * even, 1e-6 * even * even);
  EXPECT_NEAR(of(two, 1, x2, g2), scale * even * odd, 1e-6 * even * odd);
  EXPECT_NEAR(of(two, 7, x2, g2), scale * odd * even, 1e-6 * odd * even);
  EXPECT_NEAR(of(two, 8, x2, g2), scale * odd * odd, 1e-6 * odd * odd);
}

// A gradient of the filter: two tiles, the second of one position.
TEST(MinimalFiltering, Gradient) {
  const GemmView v = view("conv_bwd_weight n=1 c=1 k=1 in=5 filter=3 dtype=f32");
  const MinimalFiltering f(v);
  const double y[] = {2, -3, 5}, x[] = {1, -20, 300, 4000, -50000};
  const auto rows = f.row_norms(0, y);
  const auto columns =
      f.column_norms(1, x + 1, [&](int64_t tap, double* out) { std::copy_n(x + tap, 3, out); });
  const auto norm = [](double a, double b) { return std::sqrt(a * a + b * b); };
  const double inner = norm(5, 5) * norm(320, 54000);
  EXPECT_DOUBLE_EQ(f.magnitude(0, 0, rows, columns), norm(2, 5) * norm(301, 50300) + inner);
  EXPECT_DOUBLE_EQ(f.magnitude(0, 1, rows, columns), inner);
  EXPECT_DOUBLE_EQ(f.magnitude(0, 2, rows, columns), inner + norm(3, 0) * norm(4020, 4000));
  EXPECT_EQ(f.terms(), 2);
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

TEST(MinimalFiltering, BoundsOfGradientsAreTight) {
  for (const char* shape :
       {"in=9x8 filter=3x3 pad=1x1", "in=5x6x7 filter=3x1x3", "in=4x5x6 filter=3x3x3 pad=1x1x1"}) {
    const Problem p = Problem::parse("conv_bwd_weight n=3 c=4 k=4 dtype=f32 " + std::string(shape));
    const Operands uniform(p, FillKind::uniform), integers(p, FillKind::integers);
    const Sample all = sample_of(uniform.view());
    const auto plain = reference(uniform, all),
               filtered = reference(uniform, all, {.minimal_filtering = true});
    for (size_t i = 0; i < plain.size(); ++i) {
      EXPECT_EQ(filtered[i].value, plain[i].value);
      EXPECT_LT(filtered[i].error, 64 * plain[i].error);
    }
    for (const Expected& e : reference(integers, all, {.minimal_filtering = true})) EXPECT_EQ(e.error, 0);
  }
}

}  // namespace
}  // namespace tessera
