#include "core/gemm_view.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

GemmView view(const std::string& text) { return lower(Problem::parse(text)); }

TEST(GemmView, StridesFollowTheLayout) {
  struct Case {
    const char* layout;
    int64_t a_row, a_col, b_row, b_col;
  };
  for (const Case& c :
       {Case{"rcr", 16, 1, 1, 16}, {"rrr", 16, 1, 32, 1}, {"crr", 1, 64, 32, 1}, {"ccr", 1, 64, 1, 16}}) {
    SCOPED_TRACE(c.layout);
    const GemmView v = view(std::string("gemm m=64 n=32 k=16 dtype=bf16 layout=") + c.layout);
    EXPECT_EQ(v.a.row_stride, c.a_row);
    EXPECT_EQ(v.a.col_stride, c.a_col);
    EXPECT_EQ(v.b.row_stride, c.b_row);
    EXPECT_EQ(v.b.col_stride, c.b_col);
    EXPECT_EQ(v.c.row_stride, 32);
    EXPECT_EQ(v.c.col_stride, 1);
    EXPECT_EQ(v.a.leading(), c.a_col == 1 ? 16 : 64);
    EXPECT_EQ(v.a.contiguous(), c.a_col == 1 ? 16 : 64);
    EXPECT_EQ(v.b.contiguous(), c.b_col == 1 ? 32 : 16);
  }
}

TEST(GemmView, CarriesTypesGroupsAndLeadingDimensions) {
  const GemmView v =
      view("gemm m=3 n=5 k=7 dtype=u8xi8 layout=rrr batch=4 lda=9 stride_b=0 epilogue=bias out=i8 prepack=b");
  EXPECT_EQ(v.groups, 4);
  EXPECT_EQ(v.a.type, DType::u8);
  EXPECT_EQ(v.b.type, DType::i8);
  EXPECT_EQ(v.c.type, DType::i8);
  EXPECT_EQ(v.acc, DType::i32);
  EXPECT_EQ(v.d, DType::f32);
  EXPECT_EQ(v.a.row_stride, 9);
  EXPECT_EQ(v.a.group_stride, 27);
  EXPECT_EQ(v.b.group_stride, 0);
  EXPECT_EQ(v.c.group_stride, 15);
  EXPECT_TRUE(v.b_prepacked);
  EXPECT_EQ(v.epilogue.count, 1);
}

TEST(GemmView, FlopsAndBytes) {
  EXPECT_EQ(view("gemm m=3 n=5 k=7 dtype=f32 batch=2").flops(), 2.0 * 2 * 3 * 5 * 7);
  EXPECT_EQ(view("gemm m=3 n=5 k=7 dtype=f32").bytes(), 4.0 * (21 + 35 + 15));
  EXPECT_EQ(view("gemm m=3 n=5 k=7 dtype=i8").bytes(), 21 + 35 + 4.0 * 15);
  // A shared B and vectors are read once, full D tensors once a batch.
  EXPECT_EQ(view("gemm m=3 n=5 k=7 dtype=f32 batch=2 stride_b=0 epilogue=bias,add,mul_col").bytes(),
            4.0 * (2 * 21 + 35 + 2 * 15 + 5 + 2 * 15 + 3));
  EXPECT_EQ(view("gemm m=3 n=5 k=0 dtype=f32").flops(), 0);
}

// Pixels that strides pass over are not met; taps may meet them.
TEST(GemmView, BytesMet) {
  const auto passed = [](const char* problem) { return view(problem).bytes() - view(problem).bytes_met(); };
  EXPECT_EQ(passed("conv_fwd n=2 c=4 k=3 in=8x8 filter=1x1 stride=2x2 dtype=f32"), 4.0 * 2 * 4 * (64 - 16));
  EXPECT_EQ(passed("conv_fwd n=2 c=4 k=3 in=8x8 filter=3x1 pad=1x0 stride=2x2 dtype=f32"),
            4.0 * 2 * 4 * (64 - 32));
  EXPECT_EQ(passed("conv_bwd_data n=2 c=4 k=3 in=8x8 filter=1x1 stride=2x2 dtype=f32"), 0);
  EXPECT_EQ(passed("conv_bwd_weight n=2 c=4 k=3 in=8x8 filter=1x1 stride=2x2 dtype=f32"),
            4.0 * 2 * 4 * (64 - 16));
  EXPECT_EQ(passed("gemm m=3 n=5 k=7 dtype=f32"), 0);
}

}  // namespace
}  // namespace tessera
