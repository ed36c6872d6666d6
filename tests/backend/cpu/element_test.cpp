#include "backend/cpu/element.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace tessera {
namespace {

uint16_t written(DType t, float v) {
  uint16_t bits = 0;
  write_float(reinterpret_cast<char*>(&bits), t, v);
  return bits;
}
float value(DType t, uint16_t bits) { return read_float(reinterpret_cast<const char*>(&bits), t); }

TEST(Element, EveryHalfIsReadAndWrittenBack) {
  for (DType t : {DType::f16, DType::bf16}) {
    for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
      const float v = value(t, static_cast<uint16_t>(bits));
      const uint16_t back = written(t, v);
      if (std::isnan(v)) {
        EXPECT_TRUE(std::isnan(value(t, back))) << bits;
      } else {
        ASSERT_EQ(back, bits);
      }
    }
  }
}

// What lies between neighbours goes to the nearer one, from the middle to the even one.
TEST(Element, RoundsToNearest) {
  for (DType t : {DType::f16, DType::bf16}) {
    const uint32_t largest = t == DType::f16 ? 0x7bff : 0x7f7f;
    for (uint32_t bits = 0; bits < largest; ++bits) {
      const auto low = static_cast<uint16_t>(bits), high = static_cast<uint16_t>(bits + 1);
      const double from = value(t, low), to = value(t, high);
      const auto middle = static_cast<float>((from + to) / 2);
      ASSERT_EQ(written(t, middle), bits % 2 ? high : low) << bits;
      ASSERT_EQ(written(t, std::nextafter(middle, -INFINITY)), low) << bits;
      ASSERT_EQ(written(t, -std::nextafter(middle, INFINITY)), high | 0x8000) << bits;
    }
  }
}

TEST(Element, OverflowIsInfinite) {
  EXPECT_EQ(written(DType::f16, 65519.996f), 0x7bff);
  EXPECT_EQ(written(DType::f16, 65520.0f), 0x7c00);
  EXPECT_EQ(written(DType::f16, -1e30f), 0xfc00);
  EXPECT_EQ(written(DType::bf16, std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(written(DType::bf16, -std::numeric_limits<float>::infinity()), 0xff80);
}

}  // namespace
}  // namespace tessera
