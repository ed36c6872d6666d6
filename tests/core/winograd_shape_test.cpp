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
  return winograd_shares(winograd_shape(lower(Problem::parse(problem)), c), c, find_arch("x86_spr"), threads,
                         false);
}

TEST(WinogradShape, ThreadsShareAFilterThatIsLargeBesideTheImages) {
  EXPECT_EQ(shares("conv_fwd n=1 c=512 k=512 in=7x7 filter=3x3 pad=1x1 dtype=f32", 2), 2);
  EXPECT_EQ(shares("conv_fwd n=1 c=512 k=512 in=7x7 filter=3x3 pad=1x1 dtype=f32", 16), 16);
  EXPECT_EQ(shares("conv_fwd n=32 c=64 k=64 in=56x56 filter=3x3 pad=1x1 dtype=f32", 16), 1);
  EXPECT_EQ(shares("conv_fwd n=1 c=512 k=512 in=7x7 filter=3x3 pad=1x1 dtype=f32", 1), 1);
  EXPECT_EQ(shares("conv_fwd n=1 c=64 k=32 in=7x7 filter=3x3 pad=1x1 dtype=f32", 16), 1) << "one panel";
}

WinogradWeightTurns turns(const std::string& problem, int threads) {
  const GemmView v = lower(Problem::parse("conv_bwd_weight filter=3x3 pad=1x1 dtype=f32 " + problem));
  return winograd_weight_turns(v, config("cpu_winograd_weight"), find_arch("x86_spr"), threads);
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
