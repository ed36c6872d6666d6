// cpu_amx over copied lines of images against the reference: exact on integer-valued data, inputs and outputs
// against guard pages.
#include "backend/cpu/amx_lines.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "backend/cpu/amx.h"
#include "backend/cpu/kernels.h"

namespace tessera {
namespace {

using testing_cpu::result;

std::unique_ptr<Kernel> kernel_for(const std::string& problem, const std::string& tile, int threads = 1) {
  return testing_cpu::make_kernel(make_amx_kernel, "x86_amx", problem, "cpu_amx tile=" + tile, threads);
}

class AmxLines : public testing::Test {
 protected:
  void SetUp() override {
    if (!testing_cpu::runs_here("x86_amx")) GTEST_SKIP() << "this processor has no AMX";
  }

  static void expect_right(const std::string& problem, int threads = 1) {
    for (const char* tile : {"32x32", "16x64", "64x16"}) {
      SCOPED_TRACE(problem + " | " + tile);
      const std::string inst = problem.find("i8") == std::string::npos ? " inst=16x16x32" : " inst=16x16x64";
      const std::string prepacked = problem.find("prepack=b") == std::string::npos ? "" : " preshuffle=1";
      testing_cpu::expect_right(*kernel_for(problem, tile + inst + prepacked, threads), FillKind::integers);
    }
  }
};

// Whole steps, a whole and a shorter one, only a shorter one, channels that are no whole words.
TEST_F(AmxLines, ChannelsAndTapsOfAStep) {
  for (const char* channels :
       {"c=32 k=32", "c=64 k=40", "c=16 k=16", "c=24 k=20", "c=3 k=33", "c=37 k=5", "c=1 k=1"}) {
    for (const char* filter :
         {"filter=3x3 pad=1x1", "filter=1x2", "filter=2x12 pad=0x5", "filter=5x4 dilation=1x3 pad=2x3"}) {
      for (const char* op : {"conv_fwd", "conv_bwd_data"})
        expect_right(std::string(op) + " n=2 g=2 " + channels + " in=11x13 " + filter + " dtype=bf16");
    }
  }
}

TEST_F(AmxLines, StridesAndWhatTheyLeaveOut) {
  for (const char* window : {"stride=2x2 pad=1x1 filter=3x3", "stride=3x2 filter=5x4 dilation=2x3 pad=1x2",
                             "stride=2x3 filter=1x1", "stride=1x2 filter=2x7 pad=0:1x3:0",
                             "stride=4x1 filter=7x1 pad=3x0", "stride=2x2 filter=3x3 dilation=2x2"}) {
    for (const char* op : {"conv_fwd", "conv_bwd_data"}) {
      for (const char* channels : {"c=16 k=24", "c=5 k=7"})
        expect_right(std::string(op) + " n=2 g=2 " + channels + " in=15x17 " + window + " dtype=bf16");
    }
  }
}

TEST_F(AmxLines, PlanesLinesAndImagesOfABlock) {
  for (const char* op : {"conv_fwd", "conv_bwd_data"}) {
    const std::string conv(op);
    expect_right(conv + " n=2 c=16 k=16 in=5x6x7 filter=3x3x3 pad=1x1x1 dtype=bf16");
    expect_right(conv + " n=2 g=3 c=8 k=16 in=9x8x7 filter=3x3x3 stride=2x1x2 pad=1x1x1 dtype=bf16");
    expect_right(conv + " n=40 c=32 k=32 in=5x5 filter=3x3 pad=1x1 dtype=bf16");
    expect_right(conv + " n=1 c=32 k=16 in=150x130 filter=3x3 pad=1x1 dtype=bf16");
    expect_right(conv + " n=3 c=32 k=16 in=40x90 filter=5x3 pad=2x1 stride=2x1 dtype=bf16");
    expect_right(conv + " n=2 c=32 k=16 in=700 filter=2 dilation=8 dtype=bf16");
    expect_right(conv + " n=1 c=32 k=32 in=20011 filter=3 dilation=8 pad=8 dtype=bf16");
    expect_right(conv + " n=1 g=2 c=37 k=40 in=9001 filter=5 stride=3 pad=2:3 dtype=bf16");
  }
  expect_right("conv_fwd n=1 c=17 k=16 in=3x5 filter=7x11 pad=4x8 dtype=bf16");
  expect_right("conv_bwd_data n=1 c=6 k=6 in=12x12 filter=2x2 stride=3x3 dtype=bf16");
}

TEST_F(AmxLines, EightBitsAndOtherResults) {
  expect_right("conv_fwd n=2 g=2 c=20 k=24 in=9x10 filter=3x3 pad=1x1 dtype=i8");
  expect_right("conv_fwd n=2 c=3 k=24 in=19x10 filter=5x5 stride=2x2 pad=1x1 dtype=u8xi8");
  expect_right("conv_fwd n=2 g=2 c=16 k=24 in=9x10 filter=3x3 pad=1x1 dtype=bf16 out=f32");
  expect_right("conv_fwd n=2 g=2 c=16 k=24 in=9x10 filter=3x3 pad=1x1 dtype=bf16 alpha=2 beta=1");
  expect_right("conv_fwd n=2 g=2 c=16 k=24 in=9x10 filter=3x3 pad=1x1 dtype=bf16 epilogue=bias,relu,add");
  expect_right("conv_bwd_data n=2 g=2 c=16 k=24 in=9x10 filter=3x3 stride=2x2 pad=1x1 dtype=bf16 beta=1");
}

TEST_F(AmxLines, PackedFilters) {
  for (const char* op : {"conv_fwd", "conv_bwd_data"}) {
    for (const char* channels : {"c=16 k=24", "c=5 k=7", "c=40 k=40"})
      expect_right(std::string(op) + " n=2 g=2 " + channels +
                   " in=9x11 filter=3x3 stride=2x1 pad=1x1 dtype=bf16 prepack=b");
  }
}

TEST_F(AmxLines, ThreadsChangeNoBit) {
  for (const char* problem :
       {"conv_fwd n=5 g=3 c=16 k=24 in=30x31 filter=3x3 pad=1x1 dtype=bf16",
        "conv_fwd n=1 g=7 c=48 k=24 in=9x9 filter=3x3 pad=1x1 dtype=bf16",
        "conv_fwd n=1 c=48 k=250 in=9x9 filter=3x3 pad=1x1 dtype=bf16",
        "conv_fwd n=1 c=16 k=40 in=1x3000 filter=1x3 dtype=bf16",
        "conv_bwd_data n=2 c=64 k=72 in=20x21 filter=3x3 stride=2x2 pad=1x1 dtype=bf16"}) {
    const std::string tile = "32x32 inst=16x16x32";
    const auto one = result(*kernel_for(problem, tile));
    for (int threads : {2, 3, 8})
      EXPECT_EQ(one, result(*kernel_for(problem, tile, threads))) << problem << threads;
  }
}

// What lies beside a run of taps is not multiplied, not even by zero.
TEST_F(AmxLines, NanStaysInItsWindow) {
  for (const int64_t c : {8, 16, 24, 32}) {
    const int64_t w = 20, k = 16;
    auto kernel =
        kernel_for("conv_fwd n=1 c=" + std::to_string(c) + " k=16 in=1x20 filter=1x3 pad=0x1 dtype=bf16",
                   "32x32 inst=16x16x32");
    std::vector<uint16_t> a(static_cast<size_t>(w * c), 0x3f80), b(static_cast<size_t>(k * 3 * c), 0x3f80),
        out(static_cast<size_t>(w * k));
    a[static_cast<size_t>(9 * c)] = 0x7fc0;
    kernel->run({.a = a.data(), .b = b.data(), .c = out.data()});
    for (int64_t i = 0; i < w; ++i) {
      const bool met = i >= 8 && i <= 10, nan = (out[static_cast<size_t>(i * k)] & 0x7fff) > 0x7f80;
      EXPECT_EQ(nan, met) << "c=" << c << " column " << i;
    }
  }
}

TEST_F(AmxLines, ZeroAlphaHidesBothOperands) {
  auto kernel = kernel_for("conv_fwd n=1 c=16 k=16 in=4x4 filter=3x3 pad=1x1 dtype=bf16 out=f32",
                           "32x32 inst=16x16x32");
  std::vector<uint16_t> a(16 * 16, 0x7fc0), b(16 * 16 * 9, 0x7fc0);
  std::vector<float> c(16 * 16, 3.0f);
  kernel->run({.a = a.data(), .b = b.data(), .c = c.data(), .alpha = 0.0, .beta = 2.0});
  EXPECT_EQ(c, std::vector<float>(16 * 16, 6.0f));
}

}  // namespace
}  // namespace tessera
