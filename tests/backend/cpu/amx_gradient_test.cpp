// cpu_amx, gradients from copies of images' lines, against the reference: exact on integer-valued data,
// inputs and outputs against guard pages.
#include <gtest/gtest.h>

#include "backend/cpu/kernels.h"

namespace tessera {
namespace {

class AmxGradient : public testing::Test {
 protected:
  void SetUp() override {
    if (!testing_cpu::runs_here("x86_amx")) GTEST_SKIP() << "this processor has no AMX";
  }

  static void expect_right(const std::string& problem, int threads = 1) {
    for (const char* tile : {"32x32", "16x64", "64x16"}) {
      SCOPED_TRACE(problem + " | " + tile);
      const std::string config = std::string("cpu_amx pack_a=1 pack_b=0 inst=16x16x32 tile=") + tile;
      const auto kernel = testing_cpu::make_kernel("conv_bwd_weight dtype=bf16 " + problem, config, threads);
      testing_cpu::expect_right(*kernel, FillKind::integers);
    }
  }
};

// Taps at even and odd distances, whole and partial tiles of channels and of outputs.
TEST_F(AmxGradient, ChannelsAndTaps) {
  for (const char* channels : {"c=32 k=32", "c=48 k=40", "c=16 k=16", "c=24 k=20", "c=3 k=33", "c=37 k=5",
                               "c=1 k=1", "c=17 k=100"}) {
    for (const char* filter : {"filter=3x3 pad=1x1", "filter=1x2", "filter=1x7 pad=0x3",
                               "filter=2x12 pad=0x5", "filter=5x4 dilation=1x3 pad=2x3"})
      expect_right(std::string("n=2 g=2 in=11x13 ") + channels + ' ' + filter);
  }
}

TEST_F(AmxGradient, Strides) {
  for (const char* window :
       {"stride=2x2 pad=1x1 filter=3x3", "stride=3x2 filter=5x4 dilation=2x3 pad=1x2",
        "stride=2x3 filter=1x1", "stride=1x2 filter=2x7 pad=0:1x3:0", "stride=4x1 filter=7x1 pad=3x0",
        "stride=2x2 filter=3x3 dilation=2x2", "stride=1x5 filter=1x10", "stride=5x5 filter=3x3 pad=2x2"}) {
    for (const char* channels : {"c=16 k=24", "c=5 k=7"})
      expect_right(std::string("n=2 g=2 in=15x17 ") + channels + ' ' + window);
  }
}

// Blocks of lines, of whole planes and of pieces of a line; sums cut by rows and by channels.
TEST_F(AmxGradient, BlocksAndPieces) {
  expect_right("n=2 c=16 k=16 in=5x6x7 filter=3x3x3 pad=1x1x1");
  expect_right("n=2 g=3 c=8 k=16 in=9x8x7 filter=3x3x3 stride=2x1x2 pad=1x1x1");
  expect_right("n=40 c=32 k=32 in=5x5 filter=3x3 pad=1x1");
  expect_right("n=1 c=32 k=16 in=150x130 filter=3x3 pad=1x1");
  expect_right("n=3 c=32 k=16 in=40x90 filter=5x3 pad=2x1 stride=2x1");
  expect_right("n=2 c=32 k=16 in=20011 filter=2 dilation=8");
  expect_right("n=1 c=3 k=200 in=9000 filter=7 stride=3 pad=2:4");
  expect_right("n=1 c=272 k=528 in=6x5 filter=2x2 pad=1x1");
  expect_right("n=1 c=528 k=144 in=6x5 filter=3x3 pad=1x1");
}

// Infinities of one channel of X stay in its own weights: no step reads into other channels or groups, whose
// lines lie behind.
TEST_F(AmxGradient, ChannelsKeepTheirInfinities) {
  constexpr uint16_t kOne = 0x3f80, kInfinity = 0x7f80;
  struct Case {
    int n, g, c, h, w, threads;
    const char* window;
  };
  for (const Case& s :
       {Case{1, 2, 16, 57, 97, 1, "filter=3x3 pad=1x1"}, Case{1, 1, 32, 8, 8, 1, "filter=3x3 pad=1x1"},
        Case{2, 32, 16, 57, 57, 1, "filter=3x3 pad=1x1"},
        Case{2, 4, 32, 57, 33, 2, "filter=3x3 pad=1x1 stride=2x2"},
        Case{1, 2, 40, 19, 150, 1, "filter=2x5 pad=0x2"},
        Case{3, 1, 48, 7, 7, 1, "filter=3x3 dilation=2x2 pad=2x2"}}) {
    const std::string text = "conv_bwd_weight dtype=bf16 k=16 n=" + std::to_string(s.n) +
                             " g=" + std::to_string(s.g) + " c=" + std::to_string(s.c) +
                             " in=" + std::to_string(s.h) + 'x' + std::to_string(s.w) + ' ' + s.window;
    const Problem p = Problem::parse(text);
    const auto kernel =
        testing_cpu::make_kernel(text, "cpu_amx pack_a=1 pack_b=0 inst=16x16x32 tile=16x32", s.threads);
    const int channels = s.g * s.c, taps = static_cast<int>(p.conv.filter[1] * p.conv.filter[2]);
    const auto out = static_cast<size_t>(s.n * p.conv.out(1) * p.conv.out(2)) * s.g * 16;
    std::vector<uint16_t> dy(out, kOne), x(static_cast<size_t>(s.n * s.h * s.w * channels)),
        dw(static_cast<size_t>(s.g) * 16 * taps * s.c);
    for (const int poisoned : {0, channels - 1, std::min(16, channels - 1)}) {
      for (size_t i = 0; i < x.size(); ++i)
        x[i] = static_cast<int>(i) % channels == poisoned ? kInfinity : kOne;
      kernel->run({.a = dy.data(), .b = x.data(), .c = dw.data()});
      for (size_t i = 0; i < dw.size(); ++i) {
        const int group = static_cast<int>(i) / (16 * taps * s.c),
                  channel = group * s.c + static_cast<int>(i) % s.c;
        if (channel == poisoned) continue;
        ASSERT_LT(dw[i] & 0x7fff, kInfinity)
            << text << ": infinities of " << poisoned << " in a weight of " << channel;
      }
    }
  }
}

// Groups that are summed at once: all, or some of them.
TEST_F(AmxGradient, Groups) {
  expect_right("n=5 g=16 c=16 k=16 in=14x14 filter=3x3 pad=1x1");
  expect_right("n=3 g=3 c=16 k=8 in=40x40 filter=3x3 pad=1x1 stride=2x2");
  expect_right("n=2 g=45 c=8 k=16 in=7x7 filter=7x7 pad=3x3");
  expect_right("n=2 g=12 c=32 k=32 in=7x7 filter=5x5 pad=2x2");
}

TEST_F(AmxGradient, Threads) {
  for (const int threads : {2, 3, 7}) {
    expect_right("n=3 g=16 c=16 k=16 in=14x14 filter=3x3 pad=1x1", threads);
    expect_right("n=3 c=80 k=48 in=30x28 filter=3x3 pad=1x1", threads);
    expect_right("n=3 c=16 k=16 in=90x98 filter=1x1 stride=2x2", threads);
    // Threads share a task's pixels: planes, lines, pieces of lines.
    expect_right("n=20 g=2 c=16 k=16 in=20x20 filter=3x3 pad=1x1", threads);
    expect_right("n=1 c=16 k=16 in=90x98 filter=3x3 pad=1x1", threads);
    expect_right("n=1 c=16 k=16 in=1x9001 filter=1x3", threads);
    expect_right("n=1 c=16 k=16 in=90x98 filter=3x3 alpha=0 beta=1", threads);
  }
}

TEST_F(AmxGradient, ScaledAndAdded) {
  expect_right("n=2 g=2 c=16 k=24 in=9x10 filter=3x3 pad=1x1 alpha=2 beta=1");
  expect_right("n=2 g=2 c=16 k=24 in=9x10 filter=3x3 pad=1x1 alpha=0 beta=1");
  expect_right("n=2 g=2 c=20 k=24 in=9x10 filter=3x3 pad=1x1 out=f32");
}

}  // namespace
}  // namespace tessera
