#include "tune/element.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace tessera {
namespace {

const double kInf = std::numeric_limits<double>::infinity();

TEST(Element, SmallFloatsRoundTripEveryBitPattern) {
  for (DType t : {DType::f16, DType::bf16, DType::f8e4m3, DType::f8e5m2}) {
    const int bytes = bytes_of(t);
    for (uint32_t bits = 0; bits < (1u << (8 * bytes)); ++bits) {
      const double v = load_element(t, &bits, 0);
      if (std::isnan(v)) continue;
      uint32_t again = 0;
      store_element(t, &again, 0, v);
      if (std::isinf(v) && t == DType::f8e5m2) continue;  // saturates
      ASSERT_EQ(again, bits) << to_string(t);
      ASSERT_EQ(round_to(t, v), v) << to_string(t);
    }
  }
}

TEST(Element, RoundingGoesHalfTheWayToANeighbourAtMost) {
  for (DType t : {DType::f32, DType::f16, DType::bf16, DType::f8e4m3, DType::f8e5m2, DType::i8, DType::i32}) {
    double most = 0;
    for (int i = 1; i < 4000; ++i) {
      const double v = 0.013 * i * (i % 2 ? 1 : -1);
      const double share = std::fabs(round_to(t, v) - v) / half_spacing(t, v);
      ASSERT_LE(share, 1) << to_string(t) << ' ' << v;
      most = std::max(most, share);
    }
    EXPECT_GT(most, 0.98) << to_string(t);
  }
  EXPECT_EQ(half_spacing(DType::f16, 1), 0x1p-11);
  EXPECT_EQ(half_spacing(DType::f32, 1), 0x1p-24);
  EXPECT_EQ(half_spacing(DType::f16, 0x1p-24), 0x1p-25);  // a denormal number
}

TEST(Element, KnownValues) {
  const struct {
    DType t;
    uint32_t bits;
    double v;
  } rows[] = {{DType::f16, 0x3c00, 1},      {DType::f16, 0x0001, 0x1p-24},    {DType::f16, 0x7bff, 65504},
              {DType::bf16, 0x3f80, 1},     {DType::bf16, 0xc049, -3.140625}, {DType::f8e4m3, 0x38, 1},
              {DType::f8e4m3, 0x7e, 448},   {DType::f8e4m3, 0x01, 0x1p-9},    {DType::f8e5m2, 0x3c, 1},
              {DType::f8e5m2, 0x7b, 57344}, {DType::f8e5m2, 0x01, 0x1p-16}};
  for (const auto& row : rows) EXPECT_EQ(load_element(row.t, &row.bits, 0), row.v) << to_string(row.t);
}

TEST(Element, TiesGoToEven) {
  EXPECT_EQ(round_to(DType::bf16, 1 + 0x1p-8), 1);
  EXPECT_EQ(round_to(DType::bf16, 1 + 3 * 0x1p-8), 1 + 0x1p-6);
  EXPECT_EQ(round_to(DType::f16, 2049), 2048);
  EXPECT_EQ(round_to(DType::f16, 2051), 2052);
  EXPECT_EQ(round_to(DType::f8e4m3, 17), 16);
  EXPECT_EQ(round_to(DType::f8e4m3, 19), 20);
  EXPECT_EQ(round_to(DType::f8e5m2, 0x1p-17), 0);
  EXPECT_EQ(round_to(DType::i8, 2.5), 2);
  EXPECT_EQ(round_to(DType::i8, -3.5), -4);
}

TEST(Element, OverflowIsInfiniteOrSaturates) {
  EXPECT_EQ(round_to(DType::f16, 65519), 65504);
  EXPECT_EQ(round_to(DType::f16, 65520), kInf);
  EXPECT_EQ(round_to(DType::bf16, -1e39), -kInf);
  EXPECT_EQ(round_to(DType::f8e4m3, 1e9), 448);
  EXPECT_EQ(round_to(DType::f8e4m3, -kInf), -448);
  EXPECT_EQ(round_to(DType::f8e5m2, 1e9), 57344);
  EXPECT_EQ(round_to(DType::i8, 200), 127);
  EXPECT_EQ(round_to(DType::u8, -5), 0);
  EXPECT_EQ(round_to(DType::i32, 1e12), 2147483647);
  EXPECT_EQ(round_to(DType::i32, NAN), 0);
}

#ifdef __FLT16_MAX__
TEST(Element, F16RoundsAsTheCompilerDoes) {
  for (int i = -200000; i < 200000; ++i) {
    const float v = static_cast<float>(i) * 0.37f;
    ASSERT_EQ(round_to(DType::f16, v), static_cast<double>(static_cast<_Float16>(v))) << v;
  }
}
#endif

TEST(Element, LoadsWithSteps) {
  const int8_t data[] = {1, -2, 3, -4, 5};
  double out[2];
  load_elements(DType::i8, data, 1, 2, 2, out);
  EXPECT_EQ(out[0], -2);
  EXPECT_EQ(out[1], -4);
}

}  // namespace
}  // namespace tessera
