// cpu_amx against the reference: exact on integer-valued data, inputs and outputs against guard pages.
#include "backend/cpu/amx.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "backend/cpu/kernels.h"

namespace tessera {
namespace {

using testing_cpu::result;

bool runs_here() { return testing_cpu::runs_here("x86_amx"); }

std::unique_ptr<Kernel> kernel_for(const std::string& problem, const std::string& config, int threads = 1) {
  return testing_cpu::make_kernel(make_amx_kernel, "x86_amx", problem, "cpu_amx " + config, threads);
}

void expect_right(const std::string& config, const std::string& problem, int threads = 1,
                  FillKind kind = FillKind::integers) {
  SCOPED_TRACE(problem + " | " + config);
  testing_cpu::expect_right(*kernel_for(problem, config, threads), kind);
}

constexpr const char* kLayouts[] = {"rcr", "rrr", "crr", "ccr"};

// Whether the left operand can be read where it lies.
bool in_place(std::string_view layout, bool swap, std::string_view dtype) {
  const bool k_contiguous = swap ? layout[1] == 'c' : layout[0] == 'r';
  return k_contiguous && dtype.substr(0, 2) != "f8";
}

struct Case {
  const char* dtype;
  const char* inst;
};

class AmxTest : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (!runs_here()) GTEST_SKIP() << "this processor has no AMX";
  }

  // Both roles of the operands, the left one in place where it can be and packed.
  void everywhere(const char* tile, const std::string& more, const std::string& sizes,
                  const std::string& rest = "", bool swaps = true, int threads = 1) const {
    const std::string dtype = GetParam().dtype;
    for (const char* layout : kLayouts) {
      for (const bool swap : {false, true}) {
        if (swap && !swaps) continue;
        for (const bool packed : {false, true}) {
          if (!packed && !in_place(layout, swap, dtype)) continue;
          expect_right(std::string("tile=") + tile + " inst=" + GetParam().inst + ' ' + more +
                           (packed ? " pack_a=1" : "") + (swap ? " swap_ab=1" : ""),
                       "gemm " + sizes + " dtype=" + dtype + " layout=" + layout + ' ' + rest, threads);
        }
      }
    }
  }
};

TEST_P(AmxTest, EdgesOfTilesInEveryLayout) {
  for (const char* sizes : {"m=1 n=1 k=1", "m=15 n=17 k=31", "m=16 n=16 k=64", "m=33 n=31 k=65",
                            "m=32 n=64 k=128", "m=47 n=65 k=130", "m=5 n=100 k=63"}) {
    everywhere("32x32", "", sizes);
  }
}

TEST_P(AmxTest, EveryTileShape) {
  for (const char* tile : {"64x16", "16x64", "16x96"}) { everywhere(tile, "", "m=83 n=105 k=70"); }
}

TEST_P(AmxTest, BlocksOfBothOperandsAndOfK) {
  for (const char* more : {"block=32x0x0", "block=0x32x0", "block=32x0x128", "block=0x64x64"}) {
    everywhere("32x32", more, "m=50 n=71 k=200");
    everywhere("32x32", std::string(more) + " preshuffle=1", "m=50 n=71 k=200", "prepack=b", false);
  }
}

// Deep enough for several chunks, and more than a quarter of L2 to stream.
TEST_P(AmxTest, ChunksOfKAndPrefetchedRows) {
  const std::string dtype = GetParam().dtype;
  const std::string config =
      std::string("tile=32x32 inst=") + GetParam().inst + (in_place("rcr", false, dtype) ? "" : " pack_a=1");
  expect_right(config, "gemm m=345 n=103 k=1610 layout=rcr dtype=" + dtype);
  expect_right(config + " swap_ab=1", "gemm m=103 n=345 k=1610 layout=rcr dtype=" + dtype);
}

// Rows a multiple of pages apart: the first of several panels leaves their tiles to the others. Tails of k,
// rows that fill no tile, and a last panel of fewer columns among them.
TEST_P(AmxTest, TilesOfCrowdedRowsAreLeftToTheOtherPanels) {
  const std::string dtype = GetParam().dtype;
  const std::string config =
      std::string("tile=32x32 inst=") + GetParam().inst + (in_place("rcr", false, dtype) ? "" : " pack_a=1");
  for (const char* sizes : {"m=75 n=200 k=4096 lda=4096 ldb=4096", "m=70 n=141 k=1000 lda=8192 ldb=8192",
                            "m=9 n=130 k=37 lda=4096 ldb=4096", "m=64 n=128 k=256 lda=4096 ldb=4096"}) {
    expect_right(config, std::string("gemm ") + sizes + " layout=rcr dtype=" + dtype);
  }
  expect_right(config + " swap_ab=1", "gemm m=200 n=75 k=4096 lda=4096 ldb=4096 layout=rcr dtype=" + dtype);
}

// Few steps and many, one panel and several, rows and columns that fill no tile: the sums of one block
// wait for the next, which may be smaller, or there is none.
TEST_P(AmxTest, SumsWaitForTheNextBlock) {
  const int step = std::string(GetParam().inst) == "16x16x64" ? 64 : 32;
  for (const char* tile : {"32x32", "64x16", "16x64"}) {
    for (const int steps : {1, 2, 3, 4, 7, 40}) {
      for (const char* mn : {"m=64 n=96", "m=49 n=80", "m=33 n=70", "m=100 n=40", "m=16 n=200", "m=96 n=9"}) {
        const std::string sizes =
            std::string(mn) + " k=" + std::to_string(steps * step - (steps > 3 ? 5 : 0));
        for (const char* rest : {"", "epilogue=bias,relu", "alpha=2 beta=-1", "out=f32 epilogue=bias"}) {
          expect_right(std::string("tile=") + tile + " inst=" + GetParam().inst +
                           (in_place("rcr", false, GetParam().dtype) ? "" : " pack_a=1"),
                       "gemm " + sizes + " layout=rcr dtype=" + GetParam().dtype + ' ' + rest);
        }
      }
    }
  }
}

// Rows that fill all but the last tile of a block: with a tail of k and without, in one block of k, in chunks
// of it and in blocks, as the only block and behind others; C is read too.
TEST_P(AmxTest, TheLastTileOfABlockEndsWithTheRows) {
  for (const char* tile : {"32x32", "64x16"}) {
    const int block = tile[0] == '6' ? 64 : 32;
    for (const int rows : {block - 15, block - 8, block - 1, 3 * block - 3}) {
      const std::string sizes = "m=" + std::to_string(rows) + " n=" + std::to_string(rows);
      for (const char* k : {" k=64", " k=71"}) everywhere(tile, "", sizes + k, "alpha=2 beta=-1");
      everywhere(tile, "block=0x0x64", sizes + " k=200", "epilogue=bias");
    }
    everywhere(tile, "", "m=150 n=150 k=3000");
  }
}

TEST_P(AmxTest, BatchesStridesAlphaBeta) {
  everywhere("32x32", "", "m=35 n=40 k=69",
             "batch=3 lda=80 ldb=81 ldc=47 stride_a=6000 stride_c=2000 beta=1");
  everywhere("32x32", "", "m=35 n=40 k=69", "batch=2 stride_b=0 alpha=2 beta=-1", true, 2);
}

TEST_P(AmxTest, NothingToMultiplyLeavesBetaC) {
  everywhere("32x32", "", "m=20 n=50 k=0", "beta=2");
  everywhere("32x32", "", "m=20 n=50 k=0", "batch=2 epilogue=bias");
}

INSTANTIATE_TEST_SUITE_P(Types, AmxTest,
                         testing::Values(Case{"bf16", "16x16x32"}, Case{"i8", "16x16x64"},
                                         Case{"u8xi8", "16x16x64"}, Case{"f8e4m3", "16x16x32"}),
                         [](const auto& one) { return std::string(one.param.dtype); });

class Amx : public testing::Test {
 protected:
  void SetUp() override {
    if (!runs_here()) GTEST_SKIP() << "this processor has no AMX";
  }
  const std::string tile = "tile=32x32 inst=16x16x32 ";
};

TEST_F(Amx, EveryEpilogueStepInBothRoles) {
  for (int i = 0; i < kEpilogueKindCount; ++i) {
    const std::string step(info(static_cast<EpilogueKind>(i)).name);
    for (const char* swap : {"", "swap_ab=1"}) {
      expect_right(tile + swap, "gemm m=45 n=70 k=40 dtype=bf16 layout=rcr out=f32 epilogue=" + step, 1,
                   FillKind::uniform);
    }
  }
  for (const char* swap : {"", "swap_ab=1"}) {
    expect_right(tile + swap,
                 "gemm m=45 n=70 k=40 batch=2 dtype=bf16 layout=rcr d=f32 beta=0.5 alpha=0.25 "
                 "epilogue=bias,add,mul_col,gelu,clamp:-1:1",
                 1, FillKind::uniform);
    expect_right("tile=32x32 inst=16x16x64 " + std::string(swap),
                 "gemm m=45 n=70 k=200 dtype=u8xi8 layout=rcr out=i8 epilogue=bias,scale:0.01,quant:1:3");
  }
}

TEST_F(Amx, ZeroAlphaHidesAAndB) {
  for (const char* more : {"", "swap_ab=1", "pack_a=1"}) {
    auto kernel = kernel_for("gemm m=7 n=70 k=40 dtype=bf16 layout=rcr out=f32", tile + more);
    std::vector<uint16_t> a(7 * 40, 0x7fc0), b(70 * 40, 0x7fc0);  // NaN
    std::vector<float> c(7 * 70, 3.0f);
    kernel->run({.a = a.data(), .b = b.data(), .c = c.data(), .alpha = 0.0, .beta = 2.0});
    EXPECT_EQ(c, std::vector<float>(7 * 70, 6.0f));

    a.assign(a.size(), 0x3f80);  // 1
    b.assign(b.size(), 0x3f80);
    c.assign(c.size(), std::numeric_limits<float>::quiet_NaN());
    kernel->run({.a = a.data(), .b = b.data(), .c = c.data(), .alpha = 2.0, .beta = 0.0});
    EXPECT_EQ(c, std::vector<float>(7 * 70, 80.0f));
  }
}

TEST_F(Amx, NanStaysInItsRow) {
  auto kernel = kernel_for("gemm m=20 n=70 k=33 dtype=bf16 layout=rcr", tile);
  std::vector<uint16_t> a(20 * 33, 0x3f80), b(70 * 33, 0x3f80), c(20 * 70);
  a[17 * 33 + 32] = 0x7fc0;
  kernel->run({.a = a.data(), .b = b.data(), .c = c.data()});
  for (size_t i = 0; i < 20; ++i) {
    for (size_t j = 0; j < 70; ++j) {
      const uint16_t value = c[i * 70 + j];
      if (i == 17) {
        EXPECT_GT(value & 0x7fff, 0x7f80) << i << ' ' << j;
      } else {
        EXPECT_EQ(value, 0x4204) << i << ' ' << j;  // 33
      }
    }
  }
}

TEST_F(Amx, ThreadsChangeNoBit) {
  for (const char* problem :
       {"gemm m=131 n=257 k=700 dtype=bf16 layout=rcr", "gemm m=300 n=40 k=77 dtype=bf16 layout=rcr out=f32",
        "gemm m=20 n=1030 k=300 dtype=bf16 layout=rcr",
        "gemm m=20 n=30 k=100 batch=5 dtype=bf16 layout=rcr"}) {
    for (const char* more : {"", "swap_ab=1", "pack_a=1", "block=0x0x64"}) {
      const auto one = result(*kernel_for(problem, tile + more));
      for (int threads : {2, 3, 8}) {
        EXPECT_EQ(one, result(*kernel_for(problem, tile + more, threads))) << problem << more << threads;
      }
    }
  }
}

TEST_F(Amx, PackedBOfALargerMatrix) {
  for (const char* layout : {"rcr", "rrr"}) {
    auto kernel = kernel_for(std::string("gemm m=9 n=70 k=33 batch=2 dtype=bf16 prepack=b layout=") + layout,
                             tile + "preshuffle=1");
    testing_cpu::expect_packed_alike<uint16_t>(*kernel, 99);
  }
}

TEST_F(Amx, RefusesBadBuffersAndWritesNothing) {
  auto kernel = kernel_for("gemm m=8 n=16 k=4 dtype=bf16 layout=rcr out=f32", tile);
  std::vector<uint16_t> a(32, 0x3f80), b(64, 0x3f80);
  std::vector<float> c(128, 7.0f);
  const Buffers good{.a = a.data(), .b = b.data(), .c = c.data()};
  const auto refuse = [&](Buffers bad, const char* what) {
    try {
      kernel->run(bad);
      ADD_FAILURE() << what << " was accepted";
    } catch (const Error& e) { EXPECT_EQ(e.code(), ErrorCode::bad_input) << what; }
    EXPECT_EQ(c, std::vector<float>(128, 7.0f)) << what;
  };
  Buffers bad = good;
  bad.b = nullptr;
  refuse(bad, "null B");
  bad = good;
  bad.a = reinterpret_cast<const char*>(a.data()) + 1;
  refuse(bad, "misaligned A");
  bad = good;
  bad.b = c.data();
  refuse(bad, "B at C");
  bad = good;
  bad.workspace = reinterpret_cast<char*>(a.data()) + 2;
  refuse(bad, "misaligned workspace");
  kernel->run(good);
  EXPECT_EQ(c, std::vector<float>(128, 4.0f));
}

}  // namespace
}  // namespace tessera
