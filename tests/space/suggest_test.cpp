#include <gtest/gtest.h>

#include "space/rules.h"
#include "space/space.h"
#include "space_test_problems.h"

namespace tessera {
namespace {

std::string nearest(const std::string& arch, const std::string& problem, const std::string& text) {
  const Suggestion s = suggest(view(problem), config(text), find_arch(arch));
  return s.config.empty() ? "none" : to_string(s.config[0]);
}

void check(const GemmView& v, const KernelConfig& c, const ArchSpec& a) {
  const Suggestion s = suggest(v, c, a);
  const bool legal = !rejected_by(v, c, a);
  if (s.config.empty()) {
    // Only a family that has nothing legal at all for this view goes without a suggestion.
    for (const KernelConfig& other : legal_configs(v, a))
      ASSERT_NE(other.family, c.family) << a.name << ": " << to_string(c);
    ASSERT_FALSE(legal);
    return;
  }
  ASSERT_EQ(s.config.size(), 1u);
  ASSERT_EQ(rejected_by(v, s.config[0], a), nullptr) << to_string(s.config[0]);
  ASSERT_EQ(s.config[0].family, c.family);
  int differences = 0;
  for (const ConfigField& f : config_fields()) differences += c.*f.member != s.config[0].*f.member;
  ASSERT_EQ(s.changes.size(), static_cast<size_t>(differences));
  ASSERT_EQ(legal, s.changes.empty());
}

TEST(Suggest, LegalConfigsStayAsTheyAre) {
  const std::string text = "cpu_packed tile=11x32 inst=1x16x1";
  EXPECT_EQ(nearest("x86_avx512", "gemm m=512 n=512 k=512 dtype=f32", text), text);
}

TEST(Suggest, ChangesOnlyWhatItMust) {
  const std::string p = "gemm m=512 n=512 k=512 dtype=f32";
  const Suggestion s =
      suggest(view(p), config("cpu_packed tile=6x60 inst=1x16x1 block=333x0x0"), find_arch("x86_avx512"));
  ASSERT_EQ(s.config.size(), 1u);
  EXPECT_EQ(to_string(s.config[0]), "cpu_packed block=333x0x0 tile=6x64 inst=1x16x1");
  ASSERT_EQ(s.changes.size(), 1u);
  EXPECT_EQ(s.changes[0],
            "tile_n: 60 -> 64 (tile_vectors): tile_n is not a whole number of vectors (inst_n)");
  EXPECT_EQ(nearest("x86_avx512", p, "cpu_packed tile=6x64 inst=1x16x1 stages=3"),
            "cpu_packed tile=6x64 inst=1x16x1");
  EXPECT_EQ(nearest("x86_avx512", p + " prepack=b", "cpu_packed tile=6x64 inst=1x16x1"),
            "cpu_packed tile=6x64 inst=1x16x1 preshuffle=1");
}

TEST(Suggest, MendsAmdConfigs) {
  const std::string p = "gemm m=1024 n=1024 k=1024 dtype=f16";
  const std::string tail = " vec=8x8x8 pad=0x0x0";
  EXPECT_EQ(
      nearest("gfx942", p,
              "mfma block=128x128x64 wave=2x2x1 inst=32x32x16 pipeline=compv3 scheduler=interwave" + tail),
      "mfma block=128x128x64 wave=2x2x1 inst=32x32x16 pipeline=compv3 scheduler=intrawave" + tail);
  EXPECT_EQ(
      nearest("gfx942", p,
              "mfma block=128x128x64 wave=2x2x1 inst=32x32x16 pipeline=compv4 scheduler=intrawave" + tail),
      "mfma block=128x128x64 wave=2x2x1 inst=32x32x16 pipeline=compv4 scheduler=intrawave" + tail +
          " double_buffer=1");
}

TEST(Suggest, SaysNothingWhereTheFamilyCannot) {
  const std::string p = "gemm m=64 n=64 k=64 dtype=f32";
  EXPECT_EQ(nearest("x86_avx512", p, "mfma block=64x64x64"), "none");
  EXPECT_EQ(nearest("x86_amx", p, "cpu_amx tile=32x32 inst=16x16x32"), "none");
  EXPECT_EQ(nearest("x86_amx", p + " layout=rrr", "cpu_dot tile=2x2 inst=1x16x1"), "none");
  KernelConfig unknown;
  unknown.family = 77;
  EXPECT_TRUE(suggest(view(p), unknown, find_arch("x86_amx")).config.empty());
  unknown.family = -1;
  EXPECT_TRUE(suggest(view(p), unknown, find_arch("x86_amx")).config.empty());
}

TEST(Suggest, GarbageOnCpu) {
  std::mt19937 random(6);
  for (const ArchSpec& a : all_archs()) {
    if (a.backend != BackendKind::cpu) continue;
    for (const std::string& type : {std::string("f32"), std::string("u8xi8"), std::string("f8e4m3")}) {
      const GemmView v =
          view("gemm m=96 n=160 k=200 dtype=" + type + (random() % 2 ? " prepack=b" : " layout=rrr"));
      const auto legal = legal_configs(v, a);
      for (int i = 0; i < 500; ++i) {
        KernelConfig c = i % 2 ? garbage(random) : disturbed(legal[random() % legal.size()], random);
        if (i % 2 && random() % 2) c.family = static_cast<int>(random() % 4);
        ASSERT_NO_FATAL_FAILURE(check(v, c, a));
      }
    }
  }
}

TEST(Suggest, GarbageOnGpu) {
  std::mt19937 random(7);
  for (const ArchSpec& a : all_archs()) {
    if (a.backend == BackendKind::cpu) continue;
    const GemmView v = view("gemm m=512 n=384 k=256 dtype=" + dtypes_of(a)[random() % dtypes_of(a).size()]);
    const auto legal = legal_configs(v, a);
    for (int i = 0; i < 40; ++i) {
      KernelConfig c = i % 2 ? garbage(random) : disturbed(legal[random() % legal.size()], random);
      if (i % 2) c.family = static_cast<int>(a.families[random() % a.families.size()]);
      ASSERT_NO_FATAL_FAILURE(check(v, c, a));
    }
  }
}

}  // namespace
}  // namespace tessera
