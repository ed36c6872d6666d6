#include "core/groups_shape.h"

#include <gtest/gtest.h>

#include "tessera/problem.h"

namespace tessera {
namespace {

bool takes_lines(const char* problem, const char* config, int threads) {
  const GemmView view = lower(Problem::parse(problem));
  const GroupsShape s = groups_shape(view, *KernelConfig::parse(config, nullptr));
  const int64_t lines = view.window->images * s.axes[0].positions * s.axes[1].positions;
  return s.takes_lines(lines, threads, view.bytes());
}

TEST(GroupsShape, ThreadsTakeLinesOrChunks) {
  const char* config = "cpu_groups tile=4x32 inst=1x16x1";
  // 28 lines for three threads; 7 lines or 16 chunks for sixteen; one line.
  EXPECT_TRUE(takes_lines("conv_fwd n=1 g=512 c=1 k=1 in=28x28 filter=3x3 pad=1x1 dtype=f32", config, 3));
  EXPECT_FALSE(takes_lines("conv_fwd n=1 g=512 c=1 k=1 in=7x7 filter=3x3 pad=1x1 dtype=f32", config, 16));
  EXPECT_FALSE(takes_lines("conv_fwd n=1 g=512 c=1 k=1 in=1x999 filter=1x3 dtype=f32", config, 2));
  // Gradients, where panels of sums are small, and where they are as large as the images.
  EXPECT_TRUE(
      takes_lines("conv_bwd_weight n=8 g=512 c=1 k=1 in=28x28 filter=3x3 pad=1x1 dtype=f32", config, 8));
  EXPECT_FALSE(
      takes_lines("conv_bwd_weight n=1 g=512 c=1 k=1 in=8x8 filter=7x7 pad=3x3 dtype=f32", config, 8));
  EXPECT_FALSE(takes_lines("conv_bwd_weight n=1 c=1 k=512 in=1x9999 filter=1x9 dtype=f32", config, 16));
}

}  // namespace
}  // namespace tessera
