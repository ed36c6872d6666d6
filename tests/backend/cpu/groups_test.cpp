// cpu_groups against the reference: exact on integer-valued data whatever the threads, inputs and outputs
// against guard pages.
#include "backend/cpu/groups.h"

#include <gtest/gtest.h>

#include "backend/cpu/kernels.h"
#include "core/groups_shape.h"
#include "cpu/groups_lanes.h"

namespace tessera {
namespace {

struct Arch {
  const char *name, *widest, *wide, *narrow;  // and tiles
};

class GroupsTest : public testing::TestWithParam<Arch> {
 protected:
  void SetUp() override {
    if (!testing_cpu::runs_here(GetParam().name)) GTEST_SKIP() << "not this processor";
  }

  std::unique_ptr<Kernel> kernel(const std::string& problem, const std::string& tile, int threads = 1) const {
    const std::string inst = find_arch(GetParam().name).vector_bits == 512 ? "1x16x1" : "1x8x1";
    const std::string rest = problem.find("prepack=b") == problem.npos ? "" : " preshuffle=1";
    return testing_cpu::make_kernel(make_groups_kernel, GetParam().name, problem,
                                    "cpu_groups tile=" + tile + " inst=" + inst + rest, threads);
  }

  // Every direction, one thread and more of them than there are chunks or lines.
  void everywhere(const std::string& rest, const char* tile = GetParam().wide) const {
    for (const char* op : {"conv_fwd ", "conv_bwd_data ", "conv_bwd_weight "}) {
      for (const int threads : {1, 2, 7}) {
        SCOPED_TRACE(op + rest + " threads " + std::to_string(threads));
        testing_cpu::expect_right(*kernel(op + rest, tile, threads));
      }
    }
  }
};

TEST_P(GroupsTest, OneChannelPerGroup) {
  everywhere("n=3 g=70 c=1 k=1 in=31x29 filter=3x3 pad=1x1 dtype=f32");
  everywhere("n=2 g=53 c=1 k=1 in=7x23x20 filter=3x3x3 stride=2x2x2 pad=1x1x1 dtype=bf16");
}

TEST_P(GroupsTest, SeveralChannelsPerGroup) {
  everywhere("n=2 g=24 c=4 k=4 in=23x22 filter=3x3 stride=2x2 pad=1x1 dtype=f32");
  everywhere("n=2 g=37 c=1 k=3 in=23x22 filter=5x3 pad=2x0 dtype=bf16");
}

// Lanes choose from two to eight elements of a pixel, floats or words; the last chunk begins within a vector.
TEST_P(GroupsTest, LanesThatChooseFromFew) {
  for (const char* shape :
       {"g=11 c=2 k=2 dtype=f32", "g=7 c=4 k=4 dtype=f32", "g=13 c=1 k=2 dtype=f32", "g=5 c=1 k=9 dtype=f32",
        "g=7 c=2 k=4 dtype=bf16", "g=7 c=4 k=4 dtype=bf16", "g=7 c=4 k=4 dtype=f16"})
    everywhere(std::string("n=1 in=6x9 filter=2x3 pad=0x1 ") + shape);
}

TEST_P(GroupsTest, PrepackedFilter) {
  for (const char* op : {"conv_fwd ", "conv_bwd_data "}) {
    const std::string shape = std::string(op) + "n=1 g=12 c=4 k=5 in=9x8 filter=3x3 pad=1x1 dtype=bf16";
    EXPECT_EQ(testing_cpu::result(*kernel(shape + " prepack=b", GetParam().wide)),
              testing_cpu::result(*kernel(shape, GetParam().wide)));
  }
}

// Vectors that begin beyond the last channel reach further than one line behind a pixel.
TEST_P(GroupsTest, FewerChannelsThanAChunk) {
  everywhere("n=1 c=6 k=6 in=12x12 filter=3x3 stride=2x2 dilation=2x2 pad=2x2 dtype=f32");
  everywhere("n=1 g=3 c=1 k=1 in=9x13 filter=3x3 pad=1x1 dtype=f32", GetParam().widest);
  everywhere("n=1 g=2 c=3 k=1 in=9x7 filter=3x2 pad=1x1 dtype=bf16", GetParam().widest);
}

// Lines of whole vectors of pixels, whose channels alone would leave lanes empty.
TEST_P(GroupsTest, PixelsSideBySide) {
  const std::string shape = "n=2 c=4 k=8 in=5x3x16 filter=3x1x1 stride=2x1x1 pad=1x0x0 dtype=f32";
  const ArchSpec& arch = find_arch(GetParam().name);
  KernelConfig c;
  c.inst_n = c.tile_n = arch.vector_bits / 32;
  c.inst_k = c.tile_m = 1;
  const GroupsShape s = groups_shape(lower(Problem::parse("conv_bwd_data " + shape)), c);
  EXPECT_EQ(s.joined * s.outer, s.lanes * s.folds);
  EXPECT_EQ(s.lanes * s.folds, c.inst_n);
  everywhere(shape);
  everywhere("n=1 c=2 k=2 in=5x16 filter=2x1 pad=1x0 dtype=f32 alpha=2 beta=1");
}

// Groups of half a vector of channels: each takes two steps of what is read at once. Numbers of groups that
// fill no chunk, a vector that stays half empty, steps to memory that are not whole vectors.
TEST_P(GroupsTest, TwoStepsOfAGroupInAVector) {
  const int half = find_arch(GetParam().name).vector_bits / 64;
  const std::string outer = std::to_string(half);
  KernelConfig c;
  c.inst_n = 2 * half;
  c.tile_n = 4 * half;
  c.inst_k = c.tile_m = 1;
  for (const char* inner : {"2", "6"}) {
    const std::string forward = std::string("c=") + inner + " k=" + outer + ' ',
                      backward = "c=" + outer + " k=" + inner + ' ';
    const std::string rest = "in=9x11 filter=3x3 stride=2x1 pad=1x2 dilation=1x2 dtype=f32";
    EXPECT_EQ(groups_shape(lower(Problem::parse("conv_fwd n=2 g=5 " + forward + rest)), c).folds, 2);
    EXPECT_EQ(groups_shape(lower(Problem::parse("conv_bwd_data n=2 g=5 " + backward + rest)), c).folds, 2);
    for (const char* op : {"conv_fwd ", "conv_bwd_data "}) {
      const std::string& channels = op[5] == 'f' ? forward : backward;
      const auto right = [&](const std::string& problem, const char* tile) {
        SCOPED_TRACE(op + problem);
        for (const int threads : {1, 3}) testing_cpu::expect_right(*kernel(op + problem, tile, threads));
      };
      right("n=2 g=5 " + channels + rest, GetParam().wide);
      right("n=1 g=4 " + channels + "in=12x17 filter=3x3 pad=1x1 dtype=f32", GetParam().narrow);
      right("n=2 g=3 " + channels + "in=5x6x7 filter=3x2x3 stride=2x1x2 pad=1x0x1 dtype=f32 alpha=2 beta=1",
            GetParam().widest);
      right("n=1 g=6 " + channels + "in=7x9 filter=3x3 pad=1x1 dtype=f32 epilogue=bias,relu",
            GetParam().wide);
    }
  }
}

// Vectors of one group each, the last one of a group not full, where lanes that choose would cost more: all
// groups of a chunk there and not, results that are stored in parts.
TEST_P(GroupsTest, VectorsOfOneGroupThatAreNotFull) {
  const int lanes = find_arch(GetParam().name).vector_bits / 32;
  const std::string one = std::to_string(lanes * 3 / 4), two = std::to_string(lanes * 3 / 2);
  KernelConfig c;
  c.inst_n = lanes;
  c.tile_n = 2 * lanes;
  c.inst_k = c.tile_m = 1;
  for (const char* inner : {"2", "5"}) {
    for (const std::string& outer : {one, two}) {
      const std::string forward = std::string("c=") + inner + " k=" + outer + ' ',
                        backward = "c=" + outer + " k=" + inner + ' ';
      const std::string rest = "in=7x9 filter=3x2 stride=2x1 pad=1x2 dtype=";
      const GroupsShape s =
          groups_shape(lower(Problem::parse("conv_fwd n=2 g=5 " + forward + rest + "f32")), c);
      EXPECT_EQ(s.apart, outer == one ? 1 : 2);
      EXPECT_EQ(s.chunk, outer == one ? 2 * s.outer : s.outer);
      for (const std::string& problem :
           {"conv_fwd n=2 g=5 " + forward + rest + "f32", "conv_bwd_data n=2 g=5 " + backward + rest + "f32",
            "conv_fwd n=1 g=3 " + forward + rest + "bf16 epilogue=bias,relu",
            "conv_bwd_data n=1 g=3 " + backward + rest + "f16 alpha=2 beta=1"}) {
        for (const char* tile : {GetParam().wide, GetParam().widest}) {
          SCOPED_TRACE(problem + " tile=" + tile);
          for (const int threads : {1, 3}) testing_cpu::expect_right(*kernel(problem, tile, threads));
        }
      }
    }
  }
}

// The first line of the result meets the last one of the image, those behind it do not.
TEST_P(GroupsTest, TapsThatLieApart) {
  everywhere("n=1 g=17 c=1 k=1 in=5x9 filter=2x3 dilation=4x1 pad=0:2x1 dtype=f32");
  everywhere("n=1 g=9 c=1 k=1 in=5x11 filter=2x3 dilation=4x1 pad=0:2x1 dtype=f32");
}

// Lines of three planes that exceed the second-level cache: planes take turns, band by band.
TEST_P(GroupsTest, PlanesTakeTurns) {
  everywhere("n=2 g=17 c=1 k=1 in=3x149x31 filter=3x2x1 pad=1x1x0 dtype=f32");
}

// One to four vectors feed one, from which lanes choose 16 bits or 32.
TEST_P(GroupsTest, ChannelsFromSeveralVectors) {
  for (const char* rest : {"n=1 g=7 c=1 k=9 in=13x12 filter=3x3 stride=2x2 dtype=f32",
                           "n=1 g=7 c=1 k=9 in=13x12 filter=3x3 stride=2x2 dtype=bf16",
                           "n=2 g=23 c=3 k=1 in=7x9 filter=3x3 pad=1x1 dtype=f32",
                           "n=1 g=9 c=7 k=5 in=6x9 filter=2x3 dilation=1x2 pad=1x2 dtype=bf16",
                           "n=1 g=5 c=10 k=1 in=6x7 filter=3x3 stride=2x1 pad=1x1 dtype=f16"}) {
    everywhere(rest, GetParam().narrow);
  }
}

// All lanes of a vector belong to one group. Chunks of two groups, of a part of one and of parts of two; sums
// of some of the channels in registers, or of all.
TEST_P(GroupsTest, OneGroupInAVector) {
  everywhere("n=2 g=3 c=16 k=16 in=11x13 filter=3x3 stride=2x2 pad=1x1 dtype=f32");
  everywhere("n=1 g=3 c=8 k=48 in=7x9 filter=2x3 dilation=1x2 pad=1x2 dtype=bf16", GetParam().narrow);
  everywhere("n=2 g=2 c=3 k=16 in=9x21 filter=7x7 stride=2x2 pad=3x3 dtype=f16");
}

// The only group, whose channels leave lanes of the last vector empty or whole vectors of the last chunk;
// more of them are read than vectors could choose from.
TEST_P(GroupsTest, OneGroupOfLanesThatAreNotFull) {
  for (const char* problem : {"conv_fwd n=2 c=3 k=24 in=9x11 filter=3x3 stride=2x1 pad=1x1 dtype=f32",
                              "conv_fwd n=1 c=6 k=41 in=5x12 filter=2x3 dilation=1x2 pad=1x2 dtype=bf16",
                              "conv_fwd n=1 c=90 k=24 in=5x6 filter=3x3 pad=1x1 dtype=f32 epilogue=bias,relu",
                              "conv_bwd_data n=2 c=24 k=3 in=9x11 filter=3x3 stride=2x1 pad=1x1 dtype=f32",
                              "conv_bwd_data n=1 c=70 k=19 in=3x4x5 filter=1x3x2 pad=0x1x1 dtype=f16"}) {
    SCOPED_TRACE(problem);
    for (const char* tile : {GetParam().wide, GetParam().widest}) {
      for (const int threads : {1, 3}) testing_cpu::expect_right(*kernel(problem, tile, threads));
    }
  }
  KernelConfig c;
  c.inst_n = 16;
  c.tile_n = 32;
  c.inst_k = c.tile_m = 1;
  const auto shape = [&](const char* channels) {
    return groups_shape(
        lower(Problem::parse(std::string("conv_fwd n=1 in=9x9 filter=3x3 dtype=f32 ") + channels)), c);
  };
  EXPECT_TRUE(shape("c=90 k=24").spread);
  EXPECT_EQ(shape("c=90 k=24").chunks, 1);
  EXPECT_FALSE(shape("g=2 c=3 k=21").spread);
}

// Results of one group with few channels: a block of pixels in each vector.
TEST_P(GroupsTest, BlocksOfFewOutputChannels) {
  for (const char* rest :
       {"n=2 c=3 k=1 in=23x41 filter=3x3 dilation=2x2 dtype=f32",
        "n=1 c=16 k=2 in=9x22 filter=3x3 pad=1x1 dtype=bf16",
        "n=2 c=5 k=3 in=4x9x11 filter=2x3x5 stride=1x3x2 dilation=2x1x1 pad=1x0x2 dtype=f16 alpha=2 beta=1",
        "n=1 c=40 k=1 in=37 filter=5 stride=2 pad=4:0 dtype=f32 epilogue=add,relu"}) {
    for (const int threads : {1, 3}) {
      SCOPED_TRACE(rest);
      const std::string problem = std::string("conv_fwd ") + rest;
      testing_cpu::expect_right(*kernel(problem, GetParam().narrow, threads));
      if (threads == 1) {
        EXPECT_EQ(testing_cpu::result(*kernel(problem + " prepack=b", GetParam().narrow)),
                  testing_cpu::result(*kernel(problem, GetParam().narrow)));
      }
    }
  }
}

// Few input channels: a block of pixels in each vector. Strides, dilations and padding that blocks begin or
// end outside of; several lines of blocks for each thread.
TEST_P(GroupsTest, BlocksOfPixels) {
  for (const char* rest :
       {"n=2 c=2 k=20 in=23x21 filter=7x7 stride=2x2 pad=3x3 dtype=f32",
        "n=1 c=2 k=9 in=11x13 filter=3x3 pad=1x1 dtype=bf16",
        "n=1 c=1 k=6 in=4x9x11 filter=2x3x5 stride=1x3x2 dilation=1x2x1 pad=1x0x2 dtype=f32",
        "n=2 c=3 k=17 in=37 filter=5 stride=2 pad=4:0 dtype=f16 alpha=2 beta=1"}) {
    for (const int threads : {1, 3}) {
      SCOPED_TRACE(rest);
      testing_cpu::expect_right(*kernel(std::string("conv_bwd_data ") + rest, GetParam().narrow, threads));
    }
  }
}

// Sums of a million products, within the bound of f32 whatever the types of memory.
TEST_P(GroupsTest, LongReductionOfTheFilter) {
  for (const char* dtype : {"f32", "bf16"}) {
    const std::string problem =
        std::string("conv_bwd_weight n=1 g=3 c=1 k=1 in=1010x1000 filter=1x3 pad=0x1 out=f32 dtype=") + dtype;
    testing_cpu::expect_right(*kernel(problem, GetParam().wide), FillKind::uniform);
  }
}

// Lines that are asked for ahead, of images beyond the second-level cache: chunks of whole lines of memory,
// in blocks of several lines and of one at the end.
TEST_P(GroupsTest, LinesAskedForAhead) {
  for (const char* rest : {"n=2 g=64 c=1 k=1 in=41x37 filter=3x3 pad=1x1 dtype=f32",
                           "n=3 g=96 c=1 k=1 in=3x31x29 filter=1x3x3 pad=0x1x1 dtype=bf16",
                           "n=1 g=128 c=1 k=1 in=55x43 filter=2x3 dilation=2x1 pad=1x0 dtype=f32"}) {
    for (const int threads : {1, 3}) {
      SCOPED_TRACE(rest);
      testing_cpu::expect_right(*kernel(std::string("conv_bwd_weight ") + rest, GetParam().wide, threads));
    }
  }
}

TEST_P(GroupsTest, ZeroAlphaHidesTheOperands) {
  const auto k =
      kernel("conv_bwd_weight n=1 g=20 c=1 k=1 in=9x9 filter=3x3 dtype=f32 alpha=0 beta=0", GetParam().wide);
  testing_cpu::expect_right(*k);
}

// Lanes are channels of X, for which those of dY are chosen: of groups that fill vectors, lie across them or
// leave lanes empty, from one vector of dY or two, chunks that end among channels.
TEST_P(GroupsTest, GradientWhoseLanesAreOfTheInput) {
  for (const char* rest :
       {"n=2 g=7 c=4 k=4 in=13x15 filter=3x3 pad=1x1", "n=1 g=5 c=3 k=5 in=9x14 filter=3x3 stride=2x2",
        "n=1 g=9 c=6 k=2 in=6x9 filter=2x3 dilation=1x2 pad=1x2 beta=1 alpha=2",
        "n=2 g=19 c=2 k=2 in=8x21 filter=3x5 stride=1x2 pad=1x2",
        "n=1 g=3 c=7 k=7 in=4x5x9 filter=2x3x3 stride=2x1x1 pad=1x1x1"}) {
    const std::string problem = std::string("conv_bwd_weight ") + rest + " dtype=f32";
    for (const char* tile : {GetParam().widest, GetParam().wide, GetParam().narrow}) {
      if (find_arch(GetParam().name).vector_bits == 512) {
        const KernelConfig c = testing_cpu::config(std::string("cpu_groups inst=1x16x1 tile=") + tile);
        EXPECT_TRUE(groups_shape(lower(Problem::parse(problem)), c).turned) << problem << " tile " << tile;
      }
      for (const int threads : {1, 2, 7}) {
        SCOPED_TRACE(problem + " tile " + tile + " threads " + std::to_string(threads));
        testing_cpu::expect_right(*kernel(problem, tile, threads));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Archs, GroupsTest,
                         testing::Values(Arch{"x86_avx2", "2x32", "4x16", "7x8"},
                                         Arch{"x86_avx512", "4x64", "4x32", "7x16"}),
                         [](const auto& arch) { return std::string(arch.param.name); });

TEST(Groups, LanesThatSomeVectorsFeed) {
  EXPECT_EQ(tsr::groups_lanes(1, 1, 16, false), 16);
  EXPECT_EQ(tsr::groups_lanes(4, 4, 16, false), 16);
  EXPECT_EQ(tsr::groups_lanes(3, 1, 16, false), 16);
  EXPECT_EQ(tsr::groups_lanes(3, 1, 16, true), 10);
  EXPECT_EQ(tsr::groups_lanes(9, 1, 16, false), 7);
  EXPECT_EQ(tsr::groups_lanes(9, 1, 8, false), 1);
  EXPECT_EQ(tsr::groups_lanes(16, 64, 16, false), 16);
  EXPECT_EQ(tsr::groups_lanes(7, 9, 16, false), 16);
  EXPECT_EQ(tsr::groups_lanes(65, 64, 16, false), 16);  // all of one group: each channel is read by itself
  EXPECT_EQ(tsr::groups_lanes(65, 24, 16, false), 0);
}

// Wherever a vector begins, what it reads lies within the reach of its first group.
TEST(Groups, ReachCoversEveryLane) {
  for (int inner = 1; inner <= 16; ++inner) {
    for (int outer = 1; outer <= 40; ++outer) {
      for (const bool dot : {false, true}) {
        const int lanes = tsr::groups_lanes(inner, outer, 16, dot);
        if (lanes == 0 || outer % 16 == 0) continue;
        const int reach = inner == 1 && outer == 1 ? 16 : tsr::groups_reach(inner, outer, lanes);
        for (int first = 0; first < 40 * lanes; first += lanes) {
          const int last = first + lanes - 1;
          ASSERT_LE((last / outer - first / outer + 1) * inner, reach)
              << inner << ' ' << outer << ' ' << first;
        }
        ASSERT_LE(reach, tsr::groups_vectors(16, dot) * 16);
      }
    }
  }
}

}  // namespace
}  // namespace tessera
