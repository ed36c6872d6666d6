#include "core/lines_shape.h"

#include <gtest/gtest.h>

#include <map>

#include "tessera/problem.h"

namespace tessera {
namespace {

LinesShape shape(const char* problem) {
  return lines_shape(*strided_parts(lower(Problem::parse(problem)))[0].view.window, 2, 32);
}

TEST(LinesShape, LinesShareTheZerosBetweenThem) {
  const LinesShape s = shape("conv_fwd n=1 c=32 k=1 in=7x7 filter=3x3 pad=1x1 dtype=bf16");
  EXPECT_EQ(s.width, 8);
  EXPECT_EQ(s.walked, 8);
  EXPECT_EQ(s.lines_read(7), 9);
  EXPECT_EQ(s.tiles_of(7), 4);  // 55 rows
  EXPECT_EQ(s.runs, 3);
  EXPECT_EQ(s.whole, 3);
  EXPECT_EQ(s.tail, 0);
}

TEST(LinesShape, NeighbouringTapsAreOneRun) {
  const LinesShape s = shape("conv_fwd n=1 c=3 k=1 in=224x224 filter=7x7 stride=2x2 pad=3x3 dtype=bf16");
  EXPECT_EQ(s.pixel, 4);
  EXPECT_EQ(s.run, 7);
  EXPECT_EQ(s.steps(), 7);
  EXPECT_EQ(s.tail, 28);
  EXPECT_EQ(s.walked * 2, s.width);
  EXPECT_GE(s.walked, s.x.positions);
}

// A run of an even number of elements is whole words without filling up its pixels.
TEST(LinesShape, PixelsAreFilledUpWhereARunIsNoWholeWords) {
  EXPECT_EQ(shape("conv_fwd n=1 c=1 k=4 in=30x30 filter=5x20 dtype=bf16").pixel, 1);
  EXPECT_EQ(shape("conv_fwd n=1 c=1 k=4 in=30x30 filter=5x19 dtype=bf16").pixel, 2);
  EXPECT_EQ(shape("conv_fwd n=1 c=1 k=4 in=30x30 filter=5x4 dilation=1x2 dtype=bf16").pixel, 2);
}

TEST(LinesShape, OnlyMixedStepsNeedRegistersForTails) {
  auto tails = [](const char* problem) { return lines_have_tails(lower(Problem::parse(problem)), 2, 32); };
  EXPECT_TRUE(tails("conv_fwd n=1 c=16 k=16 in=9x9 filter=3x3 dtype=bf16"));
  EXPECT_FALSE(tails("conv_fwd n=1 c=8 k=16 in=9x9 filter=3x3 dtype=bf16"));
  EXPECT_FALSE(tails("conv_fwd n=1 c=32 k=16 in=9x9 filter=3x3 dtype=bf16"));
  // Parts of two taps and of one: a whole step, or a shorter one.
  EXPECT_FALSE(tails("conv_bwd_data n=1 c=16 k=16 in=9x9 filter=3x3 stride=2x2 dtype=bf16"));
}

TEST(LinesShape, ColumnsThatNoTapMeetsAreLeftOut) {
  const LinesShape s = shape("conv_fwd n=1 c=32 k=1 in=9x9 filter=1x1 stride=2x2 dtype=bf16");
  EXPECT_EQ(s.x.every, 2);
  EXPECT_EQ(s.width, 5);
  EXPECT_EQ(s.lines_read(5), 5);
}

// One position reads a line for each tap, a second one those that no tap of the first has met.
TEST(LinesShape, LinesReadAreThoseThatTapsMeet) {
  for (int step = 1; step <= 6; ++step) {
    for (int taps = 1; taps <= 5; ++taps) {
      for (int spread = 1; spread <= 4; ++spread) {
        LinesShape s{};
        s.y.step = step;
        s.y.taps = taps;
        s.y.spread = spread;
        for (int lines = 1; lines <= 3; ++lines) {
          // Of each remainder by the step a run of lines, from its first to its last.
          std::map<int, std::pair<int, int>> runs;
          for (int t = 0; t < taps; ++t) {
            const int first = t * spread / step, last = first + lines - 1;
            const auto [run, fresh] = runs.try_emplace(t * spread % step, 0, last);
            if (!fresh) run->second.second = std::max(run->second.second, last);
          }
          int64_t sum = 0;
          for (const auto& [remainder, run] : runs) sum += run.second - run.first + 1;
          EXPECT_EQ(s.lines_read(lines), sum) << step << ' ' << taps << ' ' << spread << ' ' << lines;
        }
      }
    }
  }
  LinesShape far{};
  far.y.step = int64_t{1} << 50;
  far.y.taps = 3;
  far.y.spread = 1;
  EXPECT_EQ(far.lines_read(2), 6);
}

TEST(LinesShape, DilatedTapsStandAlone) {
  const LinesShape s = shape("conv_fwd n=1 c=16 k=1 in=1x50 filter=1x2 dilation=1x8 dtype=bf16");
  EXPECT_EQ(s.run, 1);
  EXPECT_EQ(s.runs, 2);
  EXPECT_EQ(s.whole, 0);
  EXPECT_EQ(s.tail, 16);
}

TEST(LinesShape, AGradientOfTheInputComesToItsTapsBackwards) {
  const LinesShape s = shape("conv_bwd_data n=1 c=1 k=16 in=9x9 filter=3x3 pad=1x1 dtype=bf16");
  EXPECT_TRUE(s.x.reversed);
  EXPECT_EQ(s.x.first, -1);
  EXPECT_EQ(s.run, 3);
}

// Lines as short as their results and far apart each begin a tile of their own.
TEST(LinesShape, LinesAloneWhereThatTakesFewerTiles) {
  const LinesShape s = shape("conv_fwd n=1 c=16 k=1 in=30x31 filter=1x16 dtype=bf16");
  EXPECT_EQ(s.x.positions, 16);
  EXPECT_FALSE(s.as_one(30));
  EXPECT_EQ(s.tiles_of(30), 30);
}

}  // namespace
}  // namespace tessera
