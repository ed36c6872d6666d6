// cpu_scatter against the reference: exact on integer-valued data whatever the threads, inputs and outputs
// against guard pages.
#include "backend/cpu/scatter.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "backend/cpu/kernels.h"

namespace tessera {
namespace {

struct Case {
  const char *arch, *dtype, *inst, *tile;
};

class ScatterTest : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (!testing_cpu::runs_here(GetParam().arch)) GTEST_SKIP() << "not this processor";
  }

  std::unique_ptr<Kernel> kernel(const std::string& problem, int threads = 1, int block = 48) const {
    const std::string rest = problem.find("prepack=b") == problem.npos ? "" : " preshuffle=1";
    return testing_cpu::make_kernel(make_scatter_kernel, GetParam().arch,
                                    "conv_bwd_data " + problem + " dtype=" + GetParam().dtype,
                                    "cpu_scatter block=" + std::to_string(block) +
                                        "x0x0 tile=" + GetParam().tile + " inst=" + GetParam().inst + rest,
                                    threads);
  }

  // One thread, and more of them than there are images.
  void everywhere(const std::string& problem) const {
    for (const int threads : {1, 3, 64}) {
      SCOPED_TRACE(problem + " threads " + std::to_string(threads));
      testing_cpu::expect_right(*kernel(problem, threads));
    }
  }
};

TEST_P(ScatterTest, EveryDimension) {
  everywhere("n=2 c=3 k=10 in=41 filter=7 stride=2 pad=3");
  everywhere("n=2 c=3 k=10 in=23x37 filter=7x7 stride=2x2 pad=3x3");
  everywhere("n=2 c=1 k=6 in=90x31 filter=5x4 stride=2x3");
  everywhere("n=1 c=2 k=4 in=9x10x11 filter=3x3x3 pad=1x1x1");
  everywhere("n=2 c=5 k=4 in=24x9x7 filter=7x1x1 stride=4x1x1 pad=3x0x0");
  everywhere("n=1 c=2 k=4 in=1x10x11 filter=1x3x3 pad=1x1x1");
}

TEST_P(ScatterTest, StridesBeyondTheFilterAndDilation) {
  everywhere("n=2 c=3 k=6 in=19x23 filter=2x1 stride=3x4");
  everywhere("n=2 c=3 k=6 in=19x23 filter=3x3 dilation=2x3");
  everywhere("n=2 c=3 k=6 in=40x23 filter=3x3 stride=2x2 dilation=3x1 pad=2x1");
  everywhere("n=2 c=7 k=6 in=19x23 filter=1x1 stride=2x2");
}

TEST_P(ScatterTest, PaddingOfAnySize) {
  everywhere("n=1 c=3 k=6 in=9x12 filter=4x5 pad=0:3x4:0");
  everywhere("n=2 c=3 k=6 in=2x1 filter=3x3 pad=5:4x4:7");
  everywhere("n=3 c=4 k=6 in=5x5 filter=5x5 pad=1x1");
}

TEST_P(ScatterTest, RunsOfWholeVectorsAndMore) {
  everywhere("n=1 c=4 k=8 in=12x33 filter=3x4 pad=1x1");
  everywhere("n=1 c=7 k=8 in=12x33 filter=3x11 pad=1x5");
  everywhere("n=1 c=1 k=40 in=70x70 filter=9x9 stride=1x2");
}

TEST_P(ScatterTest, BlocksOfAnySize) {
  for (const int block : {1, 7, 50, 1000})
    testing_cpu::expect_right(*kernel("n=2 c=3 k=8 in=17x31 filter=3x5 stride=1x2 pad=1x2", 1, block));
}

TEST_P(ScatterTest, EpiloguesAndTypesOfTheResult) {
  for (const char* rest : {" alpha=2 beta=1", " epilogue=bias,relu", " epilogue=add,mul_row,add_col",
                           " epilogue=relu", " out=f32 epilogue=bias,gelu", " alpha=0 beta=1 epilogue=bias"})
    everywhere(std::string("n=2 c=3 k=8 in=15x21 filter=3x3 stride=2x2 pad=1x1") + rest);
}

TEST_P(ScatterTest, PrepackedFilter) {
  const std::string shape = "n=2 c=3 k=8 in=15x21 filter=5x3 stride=2x2 pad=1x1";
  testing_cpu::expect_right(*kernel(shape + " prepack=b"));
  EXPECT_EQ(testing_cpu::result(*kernel(shape + " prepack=b")), testing_cpu::result(*kernel(shape)));
}

// Parts of an image add up in the order of the whole.
TEST_P(ScatterTest, ThreadsChangeNoBit) {
  const std::string shape = "n=1 c=3 k=8 in=150x31 filter=5x5 stride=2x2 pad=2x2";
  const auto alone = testing_cpu::result(*kernel(shape));
  for (const int threads : {2, 5, 33}) EXPECT_EQ(testing_cpu::result(*kernel(shape, threads)), alone);
}

TEST_P(ScatterTest, RandomDataWithinTheBound) {
  testing_cpu::expect_right(*kernel("n=1 c=3 k=64 in=60x60 filter=7x7 stride=2x2 pad=3x3"),
                            FillKind::uniform);
}

TEST_P(ScatterTest, WorkspaceKeepsItsBound) {
  const auto k = kernel("n=64 c=8 k=16 in=32x64x64 filter=7x1x1 stride=4x1x1 pad=3x0x0", 64);
  EXPECT_LE(k->workspace_bytes(), size_t{64} << 20);
  const auto wide = kernel("n=1 c=3 k=8 in=300x300 filter=11x11 pad=5x5", 1, 60000);
  EXPECT_LE(wide->workspace_bytes(), size_t{64} << 20);
}

INSTANTIATE_TEST_SUITE_P(Archs, ScatterTest,
                         testing::Values(Case{"x86_avx2", "f32", "1x8x1", "6x16"},
                                         Case{"x86_avx512", "f32", "1x16x1", "8x32"},
                                         Case{"x86_avx512_bf16", "bf16", "1x16x2", "6x64"}),
                         [](const auto& one) { return std::string(one.param.arch); });

}  // namespace
}  // namespace tessera
