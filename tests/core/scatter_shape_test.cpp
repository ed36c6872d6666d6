#include "core/scatter_shape.h"

#include <gtest/gtest.h>

#include "tessera/problem.h"

namespace tessera {
namespace {

ScatterShape shape(const char* problem) { return scatter_shape(lower(Problem::parse(problem))); }

TEST(ScatterShape, PartsOfAnImageAreManyPlanesEach) {
  EXPECT_EQ(shape("conv_bwd_data n=1 c=4 k=8 in=64x64 filter=3x3 pad=1x1 dtype=f32").most_parts(), 5);
  EXPECT_EQ(shape("conv_bwd_data n=1 c=4 k=8 in=9x64 filter=3x3 pad=1x1 dtype=f32").most_parts(), 1);
  EXPECT_EQ(
      shape("conv_bwd_data n=1 c=4 k=8 in=56x9x9 filter=7x1x1 stride=4x1x1 pad=3x0x0 dtype=f32").most_parts(),
      2);
}

}  // namespace
}  // namespace tessera
