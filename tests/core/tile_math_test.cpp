#include "core/tile_math.h"

#include <gtest/gtest.h>

#include <limits>

namespace tessera {
namespace {

TEST(TileMath, RoundingAndFill) {
  EXPECT_EQ(ceil_div(0, 8), 0);
  EXPECT_EQ(ceil_div(1, 8), 1);
  EXPECT_EQ(ceil_div(8, 8), 1);
  EXPECT_EQ(round_up(9, 8), 16);
  EXPECT_DOUBLE_EQ(fill(129, 128), 129.0 / 256);
  EXPECT_DOUBLE_EQ(fill(128, 128), 1);
  EXPECT_DOUBLE_EQ(fill(0, 128), 1);
}

TEST(TileMath, ProductsSaturate) {
  const int64_t largest = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(saturated_product({}), 1);
  EXPECT_EQ(saturated_product({3, 5, 7}), 105);
  EXPECT_EQ(saturated_product({largest, 2}), largest);
  EXPECT_EQ(saturated_product({1 << 30, 1 << 30, 1 << 30}), largest);
  EXPECT_EQ(saturated_product({largest, 0}), 0);
}

TEST(TileMath, StagedBytes) {
  const GemmView v = lower(Problem::parse("gemm m=512 n=512 k=512 dtype=bf16"));
  KernelConfig c;
  c.block_m = 128;
  c.block_n = 256;
  c.block_k = 64;
  EXPECT_EQ(staged_bytes(v, c), (128 + 256) * 64 * 2);
  c.stages = 3;
  EXPECT_EQ(staged_bytes(v, c), 3 * (128 + 256) * 64 * 2);
  c.block_m = c.block_n = c.block_k = c.stages = std::numeric_limits<int>::max();
  EXPECT_EQ(staged_bytes(v, c), std::numeric_limits<int64_t>::max());
}

TEST(TileMath, SwapExchangesRowsAndColumns) {
  const GemmView v = lower(Problem::parse("gemm m=3 n=5 k=7 dtype=f32"));
  KernelConfig c;
  EXPECT_EQ(rows_of(v, c), 3);
  EXPECT_EQ(cols_of(v, c), 5);
  c.swap_ab = 1;
  EXPECT_EQ(rows_of(v, c), 5);
  EXPECT_EQ(cols_of(v, c), 3);
}

TEST(TileMath, ComputeTypes) {
  const Instruction fma{"fma", DType::bf16, DType::bf16, DType::f32, 1, 16, 1};
  EXPECT_EQ(compute_type(DType::bf16, fma), DType::f32);
  EXPECT_EQ(compute_type(DType::f8e4m3, fma), DType::f32);
  const Instruction dot{"dpbf16", DType::bf16, DType::bf16, DType::f32, 1, 16, 2};
  EXPECT_EQ(compute_type(DType::bf16, dot), DType::bf16);
  EXPECT_EQ(compute_type(DType::f8e5m2, dot), DType::bf16);
  const Instruction mfma{"mfma", DType::f8e4m3, DType::f8e4m3, DType::f32, 16, 16, 32};
  EXPECT_EQ(compute_type(DType::f8e4m3, mfma), DType::f8e4m3);
  EXPECT_EQ(k_group(DType::f32), 1);
  EXPECT_EQ(k_group(DType::bf16), 2);
  EXPECT_EQ(k_group(DType::i8), 4);
}

TEST(TileMath, PiecesThatKeepWorkersBusy) {
  EXPECT_EQ(balanced_pieces(1, 16), 16);
  EXPECT_EQ(balanced_pieces(4, 16), 4);
  EXPECT_EQ(balanced_pieces(6, 16), 5) << "30 of 32 places, where 3 of each take 18";
  EXPECT_EQ(balanced_pieces(17, 16), 6) << "102 of 112 places, where 1 of each takes 17 of 32";
  EXPECT_EQ(balanced_pieces(160, 16), 1);
  EXPECT_EQ(balanced_pieces(3, 1), 1);
  EXPECT_EQ(balanced_pieces(5, 2), 2);
}

}  // namespace
}  // namespace tessera
