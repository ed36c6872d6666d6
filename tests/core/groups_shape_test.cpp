#include "core/groups_shape.h"

#include <gtest/gtest.h>

#include "tessera/problem.h"

namespace tessera {
namespace {

bool takes_lines(const char* problem, int threads, const char* arch = "x86_spr",
                 const char* config = "cpu_groups tile=4x32 inst=1x16x1") {
  const GemmView view = lower(Problem::parse(problem));
  return groups_shape(view, *KernelConfig::parse(config, nullptr))
      .takes_lines(view, find_arch(arch), threads);
}

TEST(GroupsShape, ThreadsTakeLinesOrChunks) {
  // 28 lines for three threads; 7 lines or 16 chunks for sixteen; one line.
  EXPECT_TRUE(takes_lines("conv_fwd n=1 g=512 c=1 k=1 in=28x28 filter=3x3 pad=1x1 dtype=f32", 3));
  EXPECT_FALSE(takes_lines("conv_fwd n=1 g=512 c=1 k=1 in=7x7 filter=3x3 pad=1x1 dtype=f32", 16));
  EXPECT_FALSE(takes_lines("conv_fwd n=1 g=512 c=1 k=1 in=1x999 filter=1x3 dtype=f32", 2));
}

// For few pixels what threads read of panels that others have written takes longer than to compute.
TEST(GroupsShape, ThreadsKeepToTheirPanels) {
  const char* few = "conv_fwd n=2 g=32 c=16 k=16 in=2x7x7 filter=3x3x3 pad=1x1x1 dtype=f32";
  EXPECT_FALSE(takes_lines(few, 16));
  EXPECT_TRUE(takes_lines(few, 2, "x86_zen4")) << "a cache that cores share well";
  EXPECT_TRUE(takes_lines("conv_fwd n=32 g=32 c=16 k=16 in=14x14 filter=3x3 pad=1x1 dtype=f32", 16));
  EXPECT_FALSE(takes_lines("conv_fwd n=1 g=32 c=32 k=32 in=7x7 filter=3x3 pad=1x1 dtype=f32", 2));
}

// Panels of sums that are small, and as large as the images; pieces of pixels that are but a few lines of
// memory.
TEST(GroupsShape, ThreadsAddUpGradients) {
  EXPECT_TRUE(takes_lines("conv_bwd_weight n=8 g=512 c=1 k=1 in=28x28 filter=3x3 pad=1x1 dtype=f32", 8));
  EXPECT_FALSE(takes_lines("conv_bwd_weight n=1 g=512 c=1 k=1 in=8x8 filter=7x7 pad=3x3 dtype=f32", 8));
  EXPECT_FALSE(takes_lines("conv_bwd_weight n=1 c=1 k=512 in=1x9999 filter=1x9 dtype=f32", 16));
  EXPECT_TRUE(
      takes_lines("conv_bwd_weight n=4 g=32 c=16 k=16 in=28x28 filter=3x3 stride=2x2 pad=1x1 dtype=f32", 16,
                  "x86_spr", "cpu_groups tile=3x16 inst=1x16x1"));
}

}  // namespace
}  // namespace tessera
