// Kernels that cpu_groups has for some instructions alone, and for few registers, against the reference.
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "backend/cpu/groups.h"
#include "backend/cpu/kernels.h"

namespace tessera {
namespace {

// Two channels at once: 32-bit words of neighbouring channels take the place of channels.
TEST(GroupsPairs, EvenChannels) {
  if (!testing_cpu::runs_here("x86_avx512_bf16")) GTEST_SKIP() << "not this processor";
  const struct {
    const char *problem, *tile;
  } cases[] = {
      {"conv_fwd n=2 g=5 c=6 k=10 in=14x13 filter=3x3 stride=2x1 pad=1x1", "7x32"},  // two vectors feed one
      {"conv_fwd n=2 g=37 c=2 k=1 in=9x13 filter=3x3 pad=1x1", "4x64"},              // each word its own lane
      {"conv_fwd n=1 g=2 c=32 k=32 in=7x9 filter=3x3 pad=1x1", "7x32"},              // one vector for both
      {"conv_fwd n=1 g=3 c=24 k=24 in=4x7x9 filter=2x3x3 pad=1x1x1", "14x16"},       // of two groups
      {"conv_bwd_data n=2 g=5 c=10 k=6 in=14x13 filter=3x3 stride=2x1 pad=1x1", "7x32"},
      {"conv_bwd_data n=1 g=19 c=1 k=2 in=9x13 filter=3x2", "2x32"},
      {"conv_fwd n=2 g=5 c=12 k=8 in=14x13 filter=3x3 stride=2x1 pad=1x1", "7x32"},  // two words at once
      {"conv_bwd_data n=1 g=3 c=8 k=20 in=9x13 filter=3x2 pad=1x0", "14x16"},
      {"conv_fwd n=2 c=6 k=1 in=9x43 filter=3x3 pad=1x1", "7x16"},
      {"conv_bwd_data n=1 c=3 k=18 in=23x21 filter=7x7 stride=2x2 pad=3x3", "14x16"},  // blocks of pixels
  };
  for (const auto& c : cases) {
    for (const int threads : {1, 3}) {
      SCOPED_TRACE(c.problem);
      const auto kernel = [&](const std::string& prepack, const std::string& knob) {
        return testing_cpu::make_kernel(make_groups_kernel, "x86_avx512_bf16",
                                        c.problem + (" dtype=bf16" + prepack),
                                        std::string("cpu_groups inst=1x16x2 tile=") + c.tile + knob, threads);
      };
      testing_cpu::expect_right(*kernel("", ""));
      EXPECT_EQ(testing_cpu::result(*kernel(" prepack=b", " preshuffle=1")),
                testing_cpu::result(*kernel("", "")));
    }
  }
}

// Configurations of cpu_groups, each on its problem and three threads; skipped where the processor is
// another.
struct OnProblem {
  const char *problem, *config;
};
void expect_each_right(const char* arch, std::initializer_list<OnProblem> cases) {
  if (!testing_cpu::runs_here(arch)) GTEST_SKIP() << "not this processor";
  for (const OnProblem& c : cases) {
    SCOPED_TRACE(c.problem);
    testing_cpu::expect_right(*testing_cpu::make_kernel(make_groups_kernel, arch, c.problem,
                                                        std::string("cpu_groups ") + c.config, 3));
  }
}

// Half vectors, each the channels of one group.
TEST(GroupsHalves, OneGroupInAVector) {
  expect_each_right(
      "x86_zen4",
      {
          {"conv_fwd n=1 g=3 c=24 k=24 in=7x9 filter=3x3 pad=1x1 dtype=f32", "tile=7x24 inst=1x8x1"},
          {"conv_fwd n=2 g=2 c=64 k=64 in=5x6 filter=3x3 pad=1x1 dtype=bf16", "tile=4x32 inst=1x8x2"},
          {"conv_fwd n=1 g=2 c=7 k=40 in=9x6 filter=3x2 stride=2x2 pad=1x1 dtype=bf16",
           "tile=7x16 inst=1x8x1"},
          {"conv_bwd_data n=1 g=3 c=56 k=18 in=14x13 filter=3x3 stride=2x1 pad=1x1 dtype=bf16",
           "tile=14x8 inst=1x8x2"},
          {"conv_bwd_data n=2 c=8 k=24 in=3x5x9 filter=2x3x3 dilation=1x1x2 pad=1x1x2 dtype=f16",
           "tile=7x8 inst=1x8x1"},
          {"conv_bwd_weight n=2 g=6 c=8 k=8 in=14x13 filter=3x3 stride=2x1 pad=1x1 dtype=f32",
           "tile=4x8 inst=1x8x1"},
          {"conv_bwd_weight n=1 g=2 c=22 k=24 in=7x9 filter=3x3 pad=1x1 dtype=bf16", "tile=2x16 inst=1x8x1"},
      });
}

// Sixteen registers hold the weights of one tap beside the sums, not those of all.
TEST(GroupsFewRegisters, OneTapAtATime) {
  expect_each_right(
      "x86_avx2",
      {
          {"conv_fwd n=2 c=3 k=24 in=7x17 filter=3 stride=2 pad=1 dtype=f32", "tile=3x24 inst=1x8x1"},
          {"conv_fwd n=1 c=2 k=40 in=9x14 filter=3x5 pad=1x2 dtype=f16", "tile=2x32 inst=1x8x1"},
          {"conv_fwd n=1 c=3 k=64 in=13x23 filter=7 stride=2 pad=3 dtype=bf16", "tile=4x16 inst=1x8x1"},
          {"conv_fwd n=1 c=1 k=48 in=5x11x19 filter=2x3x3 dilation=1x2x2 pad=0x2x1 dtype=f32",
           "tile=3x24 inst=1x8x1"},
          {"conv_fwd n=1 g=2 c=3 k=32 in=9x13 filter=3 pad=1 dtype=f32", "tile=2x32 inst=1x8x1"},
          {"conv_fwd n=1 c=2 k=8 in=5x31 filter=1x11 pad=0x5 dtype=f32", "tile=7x8 inst=1x8x1"},
          {"conv_bwd_data n=2 c=24 k=3 in=8x17 filter=3 stride=2 pad=1 dtype=f32", "tile=3x24 inst=1x8x1"},
          {"conv_bwd_data n=1 c=32 k=5 in=9x14 filter=3x5 pad=1x2 dtype=f32", "tile=2x32 inst=1x8x1"},
      });
}

}  // namespace
}  // namespace tessera
