// cpu_winograd_weight against the reference: exact on integer-valued data whatever the threads, inputs and
// outputs against guard pages.
#include <gtest/gtest.h>

#include "backend/cpu/filtering.h"

namespace tessera {
namespace {

class WinogradWeightTest : public testing_cpu::FilteringTest {
 protected:
  std::unique_ptr<Kernel> kernel(const std::string& rest, const std::string& tile = GetParam().wide,
                                 int threads = 1, int block = 24) const {
    const std::string type = rest.find("dtype=") == rest.npos ? " dtype=f32" : "";
    return make(make_winograd_weight_kernel, "cpu_winograd_weight", "conv_bwd_weight " + rest + type, tile,
                threads, block);
  }

  // One thread, some, and more of them than there are blocks or rows.
  void everywhere(const std::string& rest, const char* tile = GetParam().wide, int block = 24) const {
    for (const int threads : {1, 3, 64}) {
      SCOPED_TRACE(rest + " threads " + std::to_string(threads));
      testing_cpu::expect_right(*kernel(rest, tile, threads, block));
    }
  }
};

TEST_P(WinogradWeightTest, EveryAxisOfThreeTaps) {
  everywhere("n=2 c=20 k=37 in=11x13 filter=3x3 pad=1x1");
  everywhere("n=2 c=20 k=37 in=11x13 filter=1x3");
  everywhere("n=2 c=20 k=37 in=11x13 filter=3x1 pad=1x0");
  everywhere("n=3 c=20 k=18 in=31 filter=3 pad=1");
  everywhere("n=1 c=20 k=18 in=5x6x7 filter=1x3x3 pad=0x1x1");
  everywhere("n=1 c=20 k=18 in=5x6x7 filter=3x1x1 pad=1x0x0");
  everywhere("n=1 c=20 k=18 in=5x6x7 filter=3x1x3 pad=1x0x1");
  everywhere("n=1 c=20 k=18 in=5x6x7 filter=3x3x3 pad=1x1x1");
}

TEST_P(WinogradWeightTest, PaddingOfAnySize) {
  everywhere("n=1 c=16 k=16 in=7x8 filter=3x3 pad=0:2x3:0");
  everywhere("n=1 c=16 k=16 in=2x1 filter=3x3 pad=5:4x4:7");
  everywhere("n=1 c=9 k=33 in=3x3 filter=3x3");
  everywhere("n=2 c=16 k=16 in=4x4 filter=1x3 pad=2:1x1");
}

// Groups whose channels fill no vector take turns together; threads share a turn or take their own.
TEST_P(WinogradWeightTest, Groups) {
  for (const char* tile : {GetParam().wide, GetParam().narrow}) {
    everywhere("n=1 g=6 c=24 k=8 in=6x7 filter=3x3 pad=1x1", tile);
    everywhere("n=1 g=5 c=24 k=11 in=6x7 filter=3x3 pad=1x1", tile);
    everywhere("n=2 g=4 c=9 k=12 in=6x7 filter=3x3 pad=1x1", tile);
    everywhere("n=2 g=3 c=70 k=12 in=16x17 filter=3x3 pad=1x1", tile);
  }
}

TEST_P(WinogradWeightTest, OperandsOf16Bits) {
  for (const char* type : {" dtype=bf16", " dtype=f16"}) {
    everywhere(std::string("n=2 c=20 k=37 in=5x7 filter=3x3 pad=1x1") + type);
    everywhere(std::string("n=1 c=33 k=16 in=5x6x7 filter=3x1x3 pad=1x0x1 out=f32 beta=1") + type);
    everywhere(std::string("n=1 g=4 c=9 k=12 in=6x7 filter=3x3 pad=1x1") + type, GetParam().narrow);
  }
}

TEST_P(WinogradWeightTest, ManyChannelsAndBlocks) {
  everywhere("n=3 c=150 k=70 in=9x10 filter=3x3 pad=1x1");
  for (const int block : {1, 7, 192})
    everywhere("n=2 c=80 k=16 in=17x15 filter=3x3 pad=1x1", GetParam().wide, block);
}

TEST_P(WinogradWeightTest, AlphaBetaAndTypesOfTheResult) {
  for (const char* rest : {" alpha=2 beta=1", " out=bf16", " alpha=0 beta=1", " alpha=0"})
    everywhere(std::string("n=1 g=2 c=24 k=20 in=7x9 filter=3x3 pad=1x1") + rest, GetParam().narrow);
}

TEST_P(WinogradWeightTest, RunsOnSoManyThreadsAgree) {
  for (const char* shape :
       {"n=3 c=40 k=50 in=13x11 filter=3x3 pad=1x1", "n=3 g=3 c=16 k=16 in=13x11 filter=3x3"}) {
    for (const int threads : {1, 2, 5}) {
      const auto once = testing_cpu::result(*kernel(shape, GetParam().wide, threads));
      for (int i = 0; i < 3; ++i)
        EXPECT_EQ(testing_cpu::result(*kernel(shape, GetParam().wide, threads)), once);
    }
  }
}

// Threads that share the blocks, where sums are too large for parts of their own, and those with groups of
// their own add up what one thread does.
TEST_P(WinogradWeightTest, ThreadsWithoutPartsChangeNoBit) {
  for (const char* shape :
       {"n=1 c=230 k=200 in=9x10 filter=3x3 pad=1x1", "n=3 g=8 c=16 k=16 in=13x11 filter=3x3"}) {
    const auto alone = testing_cpu::result(*kernel(shape));
    for (const int threads : {2, 5})
      EXPECT_EQ(testing_cpu::result(*kernel(shape, GetParam().wide, threads)), alone);
  }
}

TEST_P(WinogradWeightTest, RandomDataWithinTheBound) {
  for (const char* rest : {"n=2 c=40 k=40 in=19x19 filter=3x3 pad=1x1", "n=1 c=16 k=16 in=6x6x6 filter=3x3x3",
                           "n=64 c=16 k=9 in=200 filter=3"})
    testing_cpu::expect_right(*kernel(rest, GetParam().wide, 1, 96), FillKind::uniform);
}

// The largest sums that the family's rule lets through, on many threads: the workspace keeps its bound.
TEST_P(WinogradWeightTest, WorkspaceIsBounded) {
  for (const char* rest :
       {"n=8 c=512 k=960 in=30x30 filter=3x3 pad=1x1", "n=8 g=64 c=64 k=64 in=30x30 filter=3x3"}) {
    for (const int threads : {1, 8, 64})
      EXPECT_LE(kernel(rest, GetParam().wide, threads, 192)->workspace_bytes(), size_t{64} << 20)
          << rest << threads;
  }
}

INSTANTIATE_TEST_SUITE_P(Archs, WinogradWeightTest, testing_cpu::kFilteringArchs, testing_cpu::name_of);

}  // namespace
}  // namespace tessera
