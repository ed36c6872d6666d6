#include "model/amd_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "model/analytic.h"
#include "model/learned.h"
#include "space/space.h"

namespace tessera {
namespace {

double us(const char* problem, const char* config, const char* arch) {
  const Problem p = Problem::parse(problem);
  const GemmView v = lower(p);
  std::string why;
  const auto c = KernelConfig::parse(config, &why);
  EXPECT_TRUE(c) << why;
  return AnalyticTerms(v, find_arch(arch)).us(*c);
}

constexpr const char* kLarge = "gemm m=8192 n=8192 k=8192 dtype=bf16";

TEST(AmdBlocks, LargeProductsComeNearThePeakWithLargeBlocks) {
  const char* large =
      "mfma block=256x256x32 wave=2x2x1 inst=32x32x8 pipeline=compv3 scheduler=intrawave store=cshuffle "
      "vec=8x8x8 "
      "pad=0x0x0";
  const char* small =
      "mfma block=32x64x32 wave=2x2x1 inst=16x16x16 pipeline=compv3 scheduler=intrawave store=cshuffle "
      "vec=8x8x8 "
      "pad=0x0x0";
  const double peak_us = 2.0 * 8192 * 8192 * 8192 / (304 * 2048 * 2.1e3);
  EXPECT_GT(us(kLarge, large, "gfx942"), peak_us);
  EXPECT_LT(us(kLarge, large, "gfx942"), 1.5 * peak_us);
  EXPECT_GT(us(kLarge, small, "gfx942"), 1.5 * us(kLarge, large, "gfx942"));
}

TEST(AmdBlocks, FewBlocksLeaveUnitsIdle) {
  const char* few =
      "mfma block=256x256x32 wave=2x2x1 inst=32x32x8 pipeline=compv3 scheduler=intrawave vec=8x8x8 pad=0x0x0";
  const char* more =
      "mfma block=64x64x32 wave=2x2x1 inst=32x32x8 pipeline=compv3 scheduler=intrawave vec=8x8x8 pad=0x0x0";
  const char* small = "gemm m=512 n=512 k=4096 dtype=bf16";
  EXPECT_LT(us(small, more, "gfx942"), us(small, few, "gfx942"));
}

// Pipelines, stores and schedulers are told apart.
TEST(AmdBlocks, EveryKnobCounts) {
  const std::string head = "mfma block=128x128x64 wave=2x2x1 inst=32x32x8 vec=8x8x8 pad=0x0x0 ";
  std::set<double> all;
  for (const char* rest :
       {"pipeline=mem scheduler=intrawave store=cshuffle",
        "pipeline=compv3 scheduler=intrawave store=cshuffle",
        "pipeline=compv4 scheduler=intrawave store=cshuffle double_buffer=1",
        "pipeline=mem scheduler=interwave store=cshuffle", "pipeline=mem scheduler=intrawave store=direct"})
    all.insert(us("gemm m=1024 n=1024 k=1024 dtype=bf16", (head + rest).c_str(), "gfx942"));
  EXPECT_EQ(all.size(), 5u);
}

TEST(AmdBlocks, NarrowLoadsCost) {
  const char* wide =
      "mfma block=128x128x32 wave=2x2x1 inst=32x32x8 pipeline=mem scheduler=intrawave vec=8x8x8 pad=0x0x0";
  const char* narrow =
      "mfma block=128x128x32 wave=2x2x1 inst=32x32x8 pipeline=mem scheduler=intrawave vec=1x1x8 pad=0x0x0";
  EXPECT_LT(us(kLarge, wide, "gfx90a"), us(kLarge, narrow, "gfx90a"));
}

// Of everything legal, what is predicted best is not one of many alike.
TEST(AmdBlocks, TheBestAreFew) {
  for (const char* arch : {"gfx908", "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1200"}) {
    for (const char* problem : {"gemm m=4096 n=4096 k=4096 dtype=f16", "gemm m=16 n=4096 k=4096 dtype=f16"}) {
      const Problem p = Problem::parse(problem);
      const auto legal = legal_configs(lower(p), find_arch(arch));
      ASSERT_FALSE(legal.empty());
      std::vector<double> us(legal.size());
      model_for("analytic", find_arch(arch), p).predict(lower(p), find_arch(arch), legal, us);
      const double best = *std::min_element(us.begin(), us.end());
      EXPECT_GT(best, 0);
      EXPECT_LE(static_cast<size_t>(std::count(us.begin(), us.end(), best)), 8 + legal.size() / 200)
          << arch << ' ' << problem;
    }
  }
}

// A cost that no model reads would be a slip.
TEST(ArchCosts, EachIsReadByAModel) {
  std::set<std::string_view> known;
  for (const CostRow& row : cost_rows()) known.insert(row.name);
#define TESSERA_NAME(name, doc) known.insert(#name);
  TESSERA_TMA_COSTS(TESSERA_NAME)
  TESSERA_BLOCK_COSTS(TESSERA_NAME)
  TESSERA_AMD_COSTS(TESSERA_NAME)
#undef TESSERA_NAME
  for (const ArchSpec& a : all_archs()) {
    for (const auto& [name, value] : a.costs) EXPECT_TRUE(known.count(name)) << a.name << ": " << name;
  }
}

}  // namespace
}  // namespace tessera
