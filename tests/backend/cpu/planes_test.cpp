// cpu_planes against the reference: exact on integer-valued data whatever the threads, inputs and outputs
// against guard pages.
#include "backend/cpu/planes.h"

#include <gtest/gtest.h>

#include "backend/cpu/kernels.h"

namespace tessera {
namespace {

struct Case {
  const char *arch, *dtype, *inst, *tile;
  bool pairs;  // of channels, in results
};

constexpr const char* kOperations[] = {"conv_fwd", "conv_bwd_data", "conv_bwd_weight"};

class PlanesTest : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (!testing_cpu::runs_here(GetParam().arch)) GTEST_SKIP() << "not this processor";
  }

  std::unique_ptr<Kernel> kernel(const std::string& problem, int threads = 1) const {
    const std::string rest = problem.find("prepack=b") == problem.npos ? "" : " preshuffle=1";
    return testing_cpu::make_kernel(
        make_planes_kernel, GetParam().arch, problem + " dtype=" + GetParam().dtype,
        std::string("cpu_planes tile=") + GetParam().tile + " inst=" + GetParam().inst + rest, threads);
  }

  void everywhere(const std::string& problem) const {
    for (const int threads : {1, 3, 64}) {
      SCOPED_TRACE(problem + " threads " + std::to_string(threads));
      testing_cpu::expect_right(*kernel(problem, threads));
    }
  }
  // Channels in pairs.
  void all_operations(const std::string& shape) const {
    for (const char* op : kOperations) everywhere(op + (" " + shape));
  }
};

TEST_P(PlanesTest, EveryDimension) {
  all_operations("n=2 c=2 k=4 in=41 filter=7 stride=2 pad=3");
  all_operations("n=2 c=4 k=2 in=23x37 filter=7x7 stride=2x2 pad=3x3");
  all_operations("n=1 c=2 k=6 in=90x31 filter=5x4 stride=2x3");
  all_operations("n=1 c=2 k=4 in=9x10x11 filter=3x3x3 pad=1x1x1");
  all_operations("n=2 c=6 k=4 in=24x9x7 filter=7x1x1 stride=4x1x1 pad=3x0x0");
  all_operations("n=1 c=2 k=4 in=1x10x11 filter=1x3x3 pad=1x1x1");
}

TEST_P(PlanesTest, StridesBeyondTheFilterAndDilation) {
  all_operations("n=2 c=2 k=6 in=19x23 filter=2x1 stride=3x4");
  all_operations("n=2 c=2 k=6 in=19x23 filter=3x3 dilation=2x3");
  all_operations("n=2 c=4 k=6 in=40x23 filter=3x3 stride=2x2 dilation=3x1 pad=2x1");
  all_operations("n=2 c=8 k=6 in=19x23 filter=1x1 stride=2x2");
  all_operations("n=1 c=2 k=2 in=50x61 filter=2x3 stride=16x13");
}

TEST_P(PlanesTest, PaddingOfAnySize) {
  all_operations("n=1 c=2 k=6 in=9x12 filter=4x5 pad=0:3x4:0");
  all_operations("n=2 c=2 k=6 in=2x1 filter=3x3 pad=5:4x4:7");
  all_operations("n=2 c=2 k=4 in=3x2 filter=3x3 stride=2x2 pad=6:4x4:7");
  all_operations("n=3 c=4 k=6 in=5x5 filter=5x5 pad=1x1");
}

// As many elements of a line's neighbours as vectors are made of in different ways, and more.
TEST_P(PlanesTest, ChannelsOfAnyNumber) {
  for (const int c : {2, 4, 6, 8, 10, 16, 18, 32, 50})
    all_operations("n=1 c=" + std::to_string(c) + " k=2 in=5x21 filter=3x2 stride=1x2 pad=1x1");
  for (const int k : {2, 4, 6, 8, 10, 16, 18, 32, 50})
    all_operations("n=1 c=2 k=" + std::to_string(k) + " in=5x35 filter=3x2 pad=1x1");
}

TEST_P(PlanesTest, OddChannels) {
  for (const char* channels : {"c=1 k=1", "c=3 k=1", "c=1 k=3", "c=5 k=7", "c=3 k=17"}) {
    for (const char* op : kOperations) {
      if (GetParam().pairs && op != kOperations[2]) continue;
      everywhere(op + (" n=2 " + std::string(channels)) + " in=13x18 filter=3x3 stride=2x1 pad=1x1");
    }
  }
}

TEST_P(PlanesTest, GroupsTogetherAndApart) {
  all_operations("n=2 g=2 c=2 k=2 in=13x18 filter=3x3 pad=1x1");
  all_operations("n=2 g=3 c=6 k=4 in=13x18 filter=3x3 stride=2x2 pad=1x1");
  all_operations("n=1 g=5 c=16 k=8 in=9x18 filter=3x3 pad=1x1");
  all_operations("n=1 g=13 c=8 k=2 in=9x18 filter=3x1 stride=1x3");
}

// Images whose planes are beyond the second-level cache.
TEST_P(PlanesTest, BandsOfLargeImages) {
  all_operations("n=1 c=2 k=8 in=150x301 filter=5x3 stride=1x1 pad=2x1");
  all_operations("n=1 c=8 k=2 in=301x150 filter=5x3 stride=2x3 pad=2x1");
  all_operations("n=1 c=4 k=4 in=40x50x40 filter=3x3x3 stride=2x1x2 pad=1x1x1");
}

TEST_P(PlanesTest, EpiloguesAndTypesOfTheResult) {
  for (const char* rest :
       {" alpha=2 beta=1", " epilogue=bias,relu", " epilogue=add,mul_row,add_col", " epilogue=relu",
        " out=f32 epilogue=bias,gelu", " alpha=0 beta=1 epilogue=bias"}) {
    for (const char* channels : {"c=2 k=6", "g=3 c=8 k=2", "c=8 k=2"}) {
      everywhere("conv_fwd n=2 " +
                 (channels + (" in=15x21 filter=3x3 stride=2x2 pad=1x1" + std::string(rest))));
      everywhere("conv_bwd_data n=2 " +
                 (channels + (" in=15x21 filter=3x3 stride=2x2 pad=1x1" + std::string(rest))));
    }
  }
  for (const char* rest : {" alpha=2 beta=1", " alpha=0 beta=1", " out=f32"})
    everywhere("conv_bwd_weight n=2 g=3 c=2 k=5 in=15x21 filter=3x3 stride=2x2" + std::string(rest));
}

TEST_P(PlanesTest, PrepackedFilter) {
  for (const char* op : {"conv_fwd", "conv_bwd_data"}) {
    const std::string shape = op + std::string(" n=2 g=2 c=4 k=8 in=15x21 filter=5x3 stride=2x2 pad=1x1");
    testing_cpu::expect_right(*kernel(shape + " prepack=b"));
    EXPECT_EQ(testing_cpu::result(*kernel(shape + " prepack=b", 3)), testing_cpu::result(*kernel(shape)));
  }
}

TEST_P(PlanesTest, ThreadsChangeNoBitOfAResult) {
  for (const char* op : {"conv_fwd", "conv_bwd_data"}) {
    const std::string shape = op + std::string(" n=5 c=4 k=8 in=150x31 filter=5x5 stride=2x2 pad=2x2");
    const auto alone = testing_cpu::result(*kernel(shape));
    for (const int threads : {2, 5, 33}) EXPECT_EQ(testing_cpu::result(*kernel(shape, threads)), alone);
  }
}

TEST_P(PlanesTest, RandomDataWithinTheBound) {
  for (const char* op : kOperations)
    testing_cpu::expect_right(
        *kernel(op + std::string(" n=2 c=4 k=16 in=60x60 filter=7x7 stride=2x2 pad=3x3")), FillKind::uniform);
}

TEST_P(PlanesTest, WorkspaceKeepsItsBound) {
  for (const char* op : kOperations) {
    const auto k =
        kernel(op + std::string(" n=64 c=8 k=16 in=32x64x64 filter=7x1x1 stride=4x1x1 pad=3x0x0"), 64);
    EXPECT_LE(k->workspace_bytes(), size_t{64} << 20);
  }
}

INSTANTIATE_TEST_SUITE_P(Archs, PlanesTest,
                         testing::Values(Case{"x86_avx2", "f32", "1x8x1", "3x32", false},
                                         Case{"x86_avx512", "f32", "1x16x1", "8x48", false},
                                         Case{"x86_avx512", "f16", "1x16x1", "1x64", false},
                                         Case{"x86_avx512_bf16", "bf16", "1x16x2", "2x144", true}),
                         [](const auto& one) { return std::string(one.param.arch) + '_' + one.param.dtype; });

}  // namespace
}  // namespace tessera
