#include "core/lower_conv.h"

#include <gtest/gtest.h>

#include <set>

namespace tessera {
namespace {

GemmView view(const std::string& text) { return lower(Problem::parse(text)); }

TEST(LowerConv, SizesOfTheThreeDirections) {
  const std::string sizes = " n=2 g=3 c=4 k=5 in=9x8 filter=3x2 stride=2x1 pad=1x0 dtype=f32";
  const GemmView fwd = view("conv_fwd" + sizes), data = view("conv_bwd_data" + sizes),
                 weight = view("conv_bwd_weight" + sizes);
  const int64_t outputs = 2 * 5 * 7, inputs = 2 * 9 * 8, taps = 6;
  EXPECT_EQ(fwd.m, outputs);
  EXPECT_EQ(fwd.n, 5);
  EXPECT_EQ(fwd.k, taps * 4);
  EXPECT_EQ(data.m, inputs);
  EXPECT_EQ(data.n, 4);
  EXPECT_EQ(data.k, taps * 5);
  EXPECT_EQ(data.depth(), taps * 5 / 2.0);
  EXPECT_EQ(weight.m, 5);
  EXPECT_EQ(weight.n, taps * 4);
  EXPECT_EQ(weight.k, outputs);
  for (const GemmView& v : {fwd, data, weight}) {
    EXPECT_EQ(v.groups, 3);
    EXPECT_EQ(v.flops(), 2.0 * outputs * 3 * 5 * 4 * taps);
    EXPECT_FALSE(v.plain());
    EXPECT_LE(v.bytes(), 4.0 * 3 * (inputs * 4 + outputs * 5 + taps * 20));
  }
  EXPECT_EQ(fwd.a.extent, inputs * 3 * 4);
  EXPECT_EQ(data.a.extent, outputs * 3 * 5);
  EXPECT_EQ(fwd.d_strides.row, 15);
  EXPECT_EQ(fwd.d_strides.row_group, 5);
}

// A stride past the padded input gives one output: loops over strides end where the input does.
TEST(LowerConv, StridesEndWithTheInput) {
  for (const char* op : {"conv_fwd", "conv_bwd_data", "conv_bwd_weight"}) {
    const std::string rest = " c=8 k=8 in=9x9 filter=3x3 pad=1x1 dtype=f32 stride=2x";
    const GemmView far = lower(Problem::parse(op + rest + "9223372036854775807")),
                   near = lower(Problem::parse(op + rest + "11"));
    EXPECT_EQ(far.m, near.m);
    ASSERT_TRUE(far.window);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(far.window->axes[i].step, near.window->axes[i].step) << op;
      EXPECT_EQ(far.window->axes[i].divide, near.window->axes[i].divide) << op;
    }
  }
}

TEST(LowerConv, PointwiseIsAPlainProductOfEveryGroup) {
  for (const char* op : {"conv_fwd", "conv_bwd_data", "conv_bwd_weight"}) {
    const GemmView v = view(std::string(op) + " n=2 g=3 c=4 k=5 in=9x8 filter=1x1 dtype=f32");
    EXPECT_TRUE(v.plain()) << op;
    EXPECT_EQ(v.groups, 3);
  }
  EXPECT_FALSE(view("conv_fwd c=4 k=5 in=9x8 filter=1x1 stride=2x1 dtype=f32").plain());
  EXPECT_FALSE(view("conv_fwd c=4 k=5 in=9x8 filter=1x1 pad=0:1x0 dtype=f32").plain());
  EXPECT_EQ(view("conv_fwd c=4 k=5 in=9 filter=1 dtype=f32").layout, Layout::rcr);
  EXPECT_EQ(view("conv_bwd_data c=4 k=5 in=9 filter=1 dtype=f32").layout, Layout::rrr);
  EXPECT_EQ(view("conv_bwd_weight c=4 k=5 in=9 filter=1 dtype=f32").layout, Layout::crr);
}

TEST(LowerConv, StridedPartsCoverEveryRowOnceAndMultiplyNoInsertedZero) {
  for (const char* sizes :
       {"in=9x8 filter=3x3 stride=2x3 pad=1x1", "in=7x5 filter=2x2 stride=3x3",
        "in=8x8 filter=3x3 stride=2x2 dilation=2x3 pad=2x2", "in=1x9 filter=1x3 stride=4x2"}) {
    SCOPED_TRACE(sizes);
    const GemmView whole = view(std::string("conv_bwd_data n=2 c=3 k=5 dtype=f32 ") + sizes);
    std::set<int64_t> rows;
    std::multiset<int64_t> taps;
    double products = 0;
    for (const StridedPart& part : strided_parts(whole)) {
      const GemmView& v = part.view;
      ASSERT_TRUE(v.c_rows);
      EXPECT_EQ(v.window->divisor(), 1);
      EXPECT_EQ(v.k, static_cast<int64_t>(part.taps.size()) * 5);
      for (int64_t i = 0; i < v.m; ++i) {
        const int64_t row = v.c_rows->row(i);
        EXPECT_TRUE(row >= 0 && row < whole.m);
        EXPECT_TRUE(rows.insert(row).second) << row;
      }
      taps.insert(part.taps.begin(), part.taps.end());
      products += static_cast<double>(v.m) * v.k;
    }
    EXPECT_EQ(static_cast<int64_t>(rows.size()), whole.m);
    EXPECT_LE(products, static_cast<double>(whole.m) * whole.k);
    for (int64_t tap : taps) EXPECT_LT(tap, whole.window->taps());
  }
}

TEST(LowerConv, AnUndividedViewIsItsOwnPart) {
  const auto parts = strided_parts(view("conv_bwd_data c=4 k=5 in=9 filter=3 dtype=f32"));
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_FALSE(parts[0].view.c_rows);
  EXPECT_TRUE(parts[0].taps.empty());
}

}  // namespace
}  // namespace tessera
