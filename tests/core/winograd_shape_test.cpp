// How threads share what cpu_winograd and cpu_winograd_weight compute.
#include "core/winograd_shape.h"

#include <gtest/gtest.h>

#include "tessera/problem.h"

namespace tessera {
namespace {

KernelConfig config(const std::string& family) {
  return *KernelConfig::parse(family + " block=48x0x0 tile=8x32 inst=1x16x1", nullptr);
}

int64_t shares(const char* problem, int threads) {
  const KernelConfig c = config("cpu_winograd");
  const GemmView v = lower(Problem::parse(problem));
  return winograd_shares(v, winograd_shape(v, c), c, find_arch("x86_spr"), threads);
}

TEST(WinogradShape, ThreadsShareAFilterThatIsLargeBesideTheImages) {
  EXPECT_EQ(shares("conv_fwd n=1 c=512 k=512 in=7x7 filter=3x3 pad=1x1 dtype=f32", 2), 2);
  EXPECT_EQ(shares("conv_fwd n=1 c=512 k=512 in=7x7 filter=3x3 pad=1x1 dtype=f32", 16), 16);
  EXPECT_EQ(shares("conv_fwd n=32 c=64 k=64 in=56x56 filter=3x3 pad=1x1 dtype=f32", 16), 1);
  EXPECT_EQ(shares("conv_fwd n=1 c=512 k=512 in=7x7 filter=3x3 pad=1x1 dtype=f32", 1), 1);
  EXPECT_EQ(shares("conv_fwd n=1 c=64 k=32 in=7x7 filter=3x3 pad=1x1 dtype=f32", 16), 1) << "one panel";
  const std::string large = "conv_fwd n=1 c=1024 k=1024 in=7x7 filter=3x3 pad=1x1 dtype=f32";
  EXPECT_EQ(shares(large.c_str(), 2), 1) << "64 MiB of panels are not kept";
  EXPECT_EQ(shares((large + " prepack=b").c_str(), 2), 2);
  EXPECT_EQ(shares("conv_fwd n=1 g=2 c=512 k=512 in=7x7 filter=3x3 pad=1x1 dtype=f32", 2), 1) << "two turns";
}

WinogradWeightTurns turns(const std::string& problem, int threads) {
  const GemmView v = lower(Problem::parse("conv_bwd_weight filter=3x3 pad=1x1 dtype=f32 " + problem));
  const KernelConfig c = config("cpu_winograd_weight");
  return winograd_weight_turns(v, winograd_weight_shape(v, c), c, find_arch("x86_spr"), threads);
}

TEST(WinogradShape, ThreadsKeepSumsOfTheirOwnWhereThoseAreSmall) {
  EXPECT_EQ(turns("n=8 c=64 k=64 in=56x56", 16).parts, 16);
  EXPECT_FALSE(turns("n=8 c=64 k=64 in=56x56", 16).shared);
  EXPECT_EQ(turns("n=8 g=6 c=64 k=64 in=56x56", 16).parts, 5) << "30 parts for 16 threads";
  EXPECT_TRUE(turns("n=8 c=512 k=512 in=14x14", 16).shared) << "16 MiB of sums";
  EXPECT_TRUE(turns("n=1 c=64 k=64 in=14x14", 16).shared) << "sums as large as the images";
}

TEST(WinogradShape, ThreadsTakeTurnsOfTheirOwnWhereThereAreAsMany) {
  const WinogradWeightTurns many = turns("n=1 g=32 c=64 k=64 in=14x14", 16),
                            one = turns("n=1 c=512 k=512 in=14x14", 1);
  EXPECT_EQ(many.parts, 1);
  EXPECT_FALSE(many.shared);
  EXPECT_EQ(one.parts, 1);
  EXPECT_FALSE(one.shared);
}

}  // namespace
}  // namespace tessera
