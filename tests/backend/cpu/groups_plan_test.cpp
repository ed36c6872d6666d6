#include "backend/cpu/groups_plan.h"

#include <gtest/gtest.h>

#include "backend/cpu/kernels.h"
#include "core/cache_line.h"

namespace tessera {
namespace {

// 32 KiB of L1, 1 MiB of L2 and 32 MiB behind it.
ArchSpec arch(bool slow = false) {
  ArchSpec a = find_arch("x86_avx512");
  a.l1.bytes = 32768;
  a.l2.bytes = 1 << 20;
  a.l3.bytes = 32 << 20;
  a.l3.bytes_per_cycle = slow ? 2 : a.l2.bytes_per_cycle;
  return a;
}

GroupsPlan plan(const std::string& problem, const ArchSpec& a, int threads = 1) {
  const GemmView v = lower(Problem::parse(problem));
  const KernelConfig c = testing_cpu::config("cpu_groups tile=4x32 inst=1x16x1");
  return groups_plan(v, c, groups_shape(v, c), a, threads);
}

TEST(GroupsPlan, OperandsBeyondTheCachesAreAskedForAhead) {
  const std::string small = "conv_fwd n=1 g=64 c=1 k=1 in=28x28 filter=3x3 pad=1x1 dtype=f32",
                    large = "conv_fwd n=16 g=64 c=1 k=1 in=112x112 filter=3x3 pad=1x1 dtype=f32",
                    middle = "conv_fwd n=2 g=64 c=1 k=1 in=56x56 filter=3x3 pad=1x1 dtype=f32";
  EXPECT_FALSE(plan(small, arch()).fetch);
  EXPECT_TRUE(plan(large, arch()).fetch);
  EXPECT_FALSE(plan(middle, arch()).fetch) << "a fast last level holds them";
  EXPECT_TRUE(plan(middle, arch(true)).fetch) << "a slow one does not serve";
  EXPECT_EQ(plan(large, arch()).line_block, 4) << "blocks of a quarter of L2";
  EXPECT_EQ(plan(large, arch()).tile_block, 112);
}

TEST(GroupsPlan, ACoreAsksAheadFromItsShareOn) {
  const std::string problem = "conv_fwd n=4 g=64 c=1 k=1 in=56x56 filter=3x3 pad=1x1 dtype=f32";  // 6.4 MB
  ArchSpec a = arch();
  EXPECT_FALSE(plan(problem, a).fetch);
  a.l3.bytes_per_core = 4 << 20;
  EXPECT_TRUE(plan(problem, a).fetch);
  a.l3.bytes_per_core = 8 << 20;
  EXPECT_FALSE(plan(problem, a).fetch);
}

TEST(GroupsPlan, GradientsOfShortLinesTakeMoreOfThem) {
  const std::string rest = " g=2304 c=1 k=1 in=7x7 filter=3x3 pad=1x1 dtype=f32";
  EXPECT_EQ(plan("conv_bwd_weight n=2" + rest, arch()).line_block, 8) << "of two tiles each";
  EXPECT_EQ(plan("conv_bwd_weight n=1" + rest, arch()).line_block, 7) << "there are no more";
  EXPECT_EQ(plan("conv_bwd_weight n=2" + rest, arch(true)).line_block, 2) << "each takes long to come";
  EXPECT_EQ(plan("conv_fwd n=2" + rest, arch()).line_block, 2);
}

TEST(GroupsPlan, StoresThatWouldCollideDoNotPassTheCaches) {
  const auto streams = [](int channels, const char* tile) {
    const std::string problem =
        "conv_fwd n=16 g=" + std::to_string(channels) + " c=1 k=1 in=56x56 filter=3x3 pad=1x1 dtype=f32";
    return groups_stream(lower(Problem::parse(problem)),
                         testing_cpu::config(std::string("cpu_groups ") + tile), find_arch("x86_zen3"));
  };
  EXPECT_TRUE(streams(480, "tile=4x16 inst=1x8x1"));
  EXPECT_FALSE(streams(512, "tile=4x16 inst=1x8x1"));
  EXPECT_TRUE(streams(512, "tile=2x32 inst=1x8x1"));
  EXPECT_FALSE(streams(1024, "tile=2x32 inst=1x8x1"));
}

TEST(GroupsPlan, StridesTakeFewColumnsAtATime) {
  const GroupsPlan p =
      plan("conv_fwd n=16 g=64 c=1 k=1 in=112x112 filter=3x3 stride=2x2 pad=1x1 dtype=f32", arch());
  EXPECT_EQ(p.tile_block, 1);
  EXPECT_LE(p.line_block, 4);
}

TEST(GroupsPlan, BandsOfPlanesHaveOneHeight) {
  for (int height : {20, 56, 57, 112}) {
    const GroupsPlan p = plan("conv_bwd_weight n=1 g=32 c=1 k=1 in=16x" + std::to_string(height) +
                                  "x56 filter=3x3x3 pad=1x1x1 dtype=f32",
                              arch());
    const int64_t bands = (height + p.band_h - 1) / p.band_h;
    EXPECT_LT(bands * p.band_h - height, bands) << height;
  }
  EXPECT_EQ(plan("conv_bwd_weight n=1 g=32 c=1 k=1 in=56x56 filter=3x3 pad=1x1 dtype=f32", arch()).band_h,
            56);
}

TEST(GroupsPlan, ThreadsTakeLinesOrChunks) {
  const std::string gradient = "conv_bwd_weight n=8 g=64 c=1 k=1 in=56x56 filter=3x3 pad=1x1 dtype=f32";
  EXPECT_EQ(plan(gradient, arch()).parts, 1);
  const GroupsPlan many = plan(gradient, arch(), 7);
  EXPECT_EQ(many.parts, many.by_lines ? 7 : 1);
  EXPECT_EQ(many.lines, 8 * 56);
}

// Results beyond all caches whose chunks are no whole lines of memory, of a thread with lines of its own.
TEST(GroupsPlan, ResultsArePutTogetherInL2) {
  const std::string sizes = "conv_fwd n=64 g=3 c=1 k=21 in=108x108 filter=3x3 pad=1x1 dtype=f32";
  const GroupsPlan p = plan(sizes, arch());
  ASSERT_TRUE(p.by_lines);
  EXPECT_GT(p.apart_bytes, 0);
  EXPECT_EQ(p.apart_bytes % kCacheLine, 0);
  EXPECT_LE(2 * p.apart_bytes, arch().l2.bytes);
  EXPECT_EQ(plan("conv_fwd n=1 g=3 c=1 k=21 in=28x28 filter=3x3 pad=1x1 dtype=f32", arch()).apart_bytes, 0);
  EXPECT_EQ(
      plan("conv_bwd_weight n=64 g=3 c=1 k=21 in=108x108 filter=3x3 pad=1x1 dtype=f32", arch()).apart_bytes,
      0);
}

}  // namespace
}  // namespace tessera
