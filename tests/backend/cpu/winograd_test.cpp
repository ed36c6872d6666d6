// cpu_winograd against the reference: exact on integer-valued data whatever the threads, inputs and outputs
// against guard pages.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "backend/cpu/filtering.h"

namespace tessera {
namespace {

class WinogradTest : public testing_cpu::FilteringTest {
 protected:
  std::unique_ptr<Kernel> kernel(const std::string& problem, const std::string& tile = GetParam().wide,
                                 int threads = 1, int block = 24) const {
    const std::string rest = problem.find("prepack=b") == problem.npos ? "" : " preshuffle=1";
    return make(make_winograd_kernel, "cpu_winograd", problem, tile, threads, block, rest);
  }

  // Both directions, one thread and more of them than there are blocks.
  void everywhere(const std::string& rest, const char* tile = GetParam().wide,
                  const std::string& type = "f32") const {
    for (const char* op : {"conv_fwd ", "conv_bwd_data "}) {
      for (const int threads : {1, 3, 64}) {
        SCOPED_TRACE(op + rest + " threads " + std::to_string(threads));
        testing_cpu::expect_right(*kernel(op + rest + " dtype=" + type, tile, threads));
      }
    }
  }
};

TEST_P(WinogradTest, EveryAxisOfThreeTaps) {
  everywhere("n=2 c=20 k=37 in=11x13 filter=3x3 pad=1x1");
  everywhere("n=2 c=20 k=37 in=11x13 filter=1x3");
  everywhere("n=2 c=20 k=37 in=11x13 filter=3x1 pad=1x0");
  everywhere("n=3 c=20 k=18 in=31 filter=3 pad=1");
  everywhere("n=1 c=20 k=18 in=5x6x7 filter=1x3x3 pad=0x1x1");
  everywhere("n=1 c=20 k=18 in=5x6x7 filter=3x1x1 pad=1x0x0");
  everywhere("n=1 c=20 k=18 in=5x6x7 filter=3x1x3 pad=1x0x1");
  everywhere("n=1 c=20 k=18 in=5x6x7 filter=3x3x3 pad=1x1x1");
}

TEST_P(WinogradTest, PaddingOfAnySize) {
  everywhere("n=1 c=16 k=16 in=7x8 filter=3x3 pad=0:2x3:0");
  everywhere("n=1 c=16 k=16 in=2x1 filter=3x3 pad=5:4x4:7");
  everywhere("n=1 c=9 k=33 in=3x3 filter=3x3");
  everywhere("n=2 c=16 k=16 in=4x4 filter=1x3 pad=2:1x1");
}

// Groups whose channels fill no vector take turns together, up to four of them.
TEST_P(WinogradTest, Groups) {
  for (const char* tile : {GetParam().wide, GetParam().narrow}) {
    everywhere("n=1 g=6 c=24 k=8 in=6x7 filter=3x3 pad=1x1", tile);
    everywhere("n=1 g=5 c=24 k=11 in=6x7 filter=3x3 pad=1x1", tile);
    everywhere("n=2 g=4 c=9 k=12 in=6x7 filter=3x3 pad=1x1", tile);
  }
}

TEST_P(WinogradTest, ManyColumnsAndBlocks) {
  everywhere("n=3 c=70 k=150 in=9x10 filter=3x3 pad=1x1");
  for (const int block : {1, 7, 192})
    testing_cpu::expect_right(
        *kernel("conv_fwd n=2 c=16 k=80 in=17x15 filter=3x3 pad=1x1 dtype=f32", GetParam().wide, 1, block));
}

TEST_P(WinogradTest, EpiloguesAndTypesOfTheResult) {
  for (const char* rest : {" alpha=2 beta=1", " epilogue=bias,relu", " epilogue=add,mul_row,add_col",
                           " out=bf16 epilogue=bias,gelu", " alpha=0 beta=1 epilogue=bias"}) {
    everywhere(std::string("n=1 g=2 c=24 k=20 in=7x9 filter=3x3 pad=1x1") + rest, GetParam().narrow);
  }
}

// They become floats as they are read: lines of images and of the filter that end in any lane.
TEST_P(WinogradTest, OperandsOf16Bits) {
  for (const char* type : {"bf16", "f16"}) {
    everywhere("n=2 c=20 k=37 in=5x7 filter=3x3 pad=1x1", GetParam().wide, type);
    everywhere("n=1 c=33 k=16 in=5x6x7 filter=3x1x3 pad=1x0x1", GetParam().wide, type);
    everywhere("n=1 g=4 c=9 k=12 in=6x7 filter=3x3 pad=1x1 out=f32 beta=1", GetParam().narrow, type);
    everywhere("n=1 c=33 k=70 in=9x8 filter=3x3 pad=1x1 prepack=b epilogue=bias,relu", GetParam().wide, type);
  }
  const auto k = kernel("conv_fwd n=1 c=200 k=40 in=9x9 filter=3x3 pad=1x1 out=f32 dtype=bf16");
  testing_cpu::expect_right(*k, FillKind::uniform);
}

TEST_P(WinogradTest, PrepackedFilter) {
  for (const char* op : {"conv_fwd ", "conv_bwd_data "}) {
    for (const char* rest : {"n=1 g=4 c=24 k=12 in=9x8 filter=3x3 pad=1x1 dtype=f32",
                             "n=1 c=33 k=70 in=9x8 filter=3x3 pad=1x1 dtype=f32"}) {
      const std::string shape = std::string(op) + rest;
      testing_cpu::expect_right(*kernel(shape + " prepack=b"));
      EXPECT_EQ(testing_cpu::result(*kernel(shape + " prepack=b")), testing_cpu::result(*kernel(shape)));
    }
  }
}

TEST_P(WinogradTest, ThreadsChangeNoBit) {
  const std::string shape = "conv_fwd n=3 c=40 k=50 in=13x11 filter=3x3 pad=1x1 dtype=f32";
  const auto alone = testing_cpu::result(*kernel(shape));
  for (const int threads : {2, 5}) {
    EXPECT_EQ(testing_cpu::result(*kernel(shape, GetParam().wide, threads)), alone);
  }
}

TEST_P(WinogradTest, RandomDataWithinTheBound) {
  for (const char* rest : {"n=1 c=200 k=40 in=9x9 filter=3x3 pad=1x1", "n=1 c=64 k=16 in=6x6x6 filter=3x3x3",
                           "n=1 c=64 k=16 in=20 filter=3"}) {
    for (const char* op : {"conv_fwd ", "conv_bwd_data "})
      testing_cpu::expect_right(*kernel(op + std::string(rest) + " dtype=f32"), FillKind::uniform);
  }
}

// A filter so large that it is transformed a part at a time: the workspace keeps its bound.
TEST_P(WinogradTest, LargeFiltersInParts) {
  const auto k = kernel("conv_fwd n=1 c=1100 k=1000 in=4x3 filter=3x3 pad=1x1 dtype=f32");
  EXPECT_LE(k->workspace_bytes(), size_t{64} << 20);
  testing_cpu::expect_right(*k);
}

// Values that cancel leave rounding errors of their own size behind, but never in a result that reads none
// of them; what is not a number spreads no further either.
TEST_P(WinogradTest, ErrorsStayInTheResultsThatReadTheValues) {
  const auto k = kernel("conv_fwd n=1 c=16 k=16 in=12x12 filter=3x3 dtype=f32");
  for (const float value : {1e20f, std::numeric_limits<float>::infinity(), NAN}) {
    std::vector<float> x(12 * 12 * 16, 1.0f), w(16 * 9 * 16, 1.0f), y(10 * 10 * 16, -1.0f);
    x[(5 * 12 + 6) * 16 + 3] = value;
    for (size_t o = 0; o < 16; ++o) w[(o * 9 + 4) * 16 + 3] = 0;  // the middle tap does not see it
    k->run({.a = x.data(), .b = w.data(), .c = y.data()});
    for (int h = 0; h < 10; ++h) {
      for (int q = 0; q < 10; ++q) {
        const bool reads = h >= 3 && h <= 5 && q >= 4 && q <= 6;
        const float got = y[static_cast<size_t>((h * 10 + q) * 16)];
        EXPECT_EQ(got != 9 * 16 - 1, reads) << value << ' ' << h << ' ' << q << ' ' << got;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Archs, WinogradTest, testing_cpu::kFilteringArchs, testing_cpu::name_of);

}  // namespace
}  // namespace tessera
