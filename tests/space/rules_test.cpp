#include "space/rules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "space/space.h"
#include "space_test_problems.h"

namespace tessera {
namespace {

KernelConfig config(const std::string& text) {
  std::string why;
  auto c = KernelConfig::parse(text, &why);
  EXPECT_TRUE(c) << text << ": " << why;
  return c.value_or(KernelConfig{});
}

// The name of the rule that refuses; "" when legal.
std::string verdict(const std::string& arch, const std::string& problem, const std::string& text) {
  const Rule* rule = rejected_by(view(problem), config(text), find_arch(arch));
  return rule ? std::string(rule->name) : "";
}

bool refuses(const std::string& rule, const GemmView& v, const KernelConfig& c, const ArchSpec& a) {
  auto row = std::find_if(rules().begin(), rules().end(), [&](const Rule& r) { return r.name == rule; });
  EXPECT_NE(row, rules().end()) << rule;
  return !row->allows(v, c, a);
}

// Whether that one rule refuses, whatever the others say.
bool refuses(const std::string& rule, const std::string& arch, const std::string& problem,
             const std::string& text) {
  return refuses(rule, view(problem), config(text), find_arch(arch));
}

TEST(Rules, NamesAreUniqueAndReasonsSpeak) {
  std::set<std::string_view> names, reasons;
  for (const Rule& r : rules()) {
    EXPECT_TRUE(names.insert(r.name).second) << r.name;
    EXPECT_TRUE(reasons.insert(r.reason).second) << r.name;
    EXPECT_GT(r.reason.size(), 20u) << r.name;
    EXPECT_NE(r.families, 0u) << r.name;
  }
}

// Enumeration applies a rule when the knobs it says it reads are decided: it may not read others.
TEST(Rules, DependOnTheKnobsTheySay) {
  std::mt19937 random(3);
  std::vector<GemmView> views{view("gemm m=512 n=384 k=512 dtype=bf16"),
                              view("gemm m=37 n=3 k=255 dtype=f32 layout=crr"),
                              view("gemm m=512 n=512 k=512 dtype=f8e4m3 prepack=b")};
  const auto fields = config_fields();
  for (const ArchSpec& a : all_archs()) {
    for (const GemmView& v : views) {
      std::vector<KernelConfig> some = legal_configs(v, a);
      std::shuffle(some.begin(), some.end(), random);
      some.resize(std::min<size_t>(some.size(), 20));
      for (int i = 0; i < 20; ++i) some.push_back(garbage(random));
      for (const KernelConfig& c : some) {
        for (const Rule& r : rules()) {
          const bool before = r.allows(v, c, a);
          for (size_t i = 1; i < fields.size(); ++i) {
            if (r.reads >> i & 1) continue;
            KernelConfig other = c;
            other.*fields[i].member = static_cast<int>(random() % 300);
            ASSERT_EQ(r.allows(v, other, a), before) << r.name << " reads " << fields[i].name;
          }
        }
      }
    }
  }
}

TEST(Rules, OrderDoesNotChangeTheAnswer) {
  std::mt19937 random(4);
  std::vector<const Rule*> order;
  for (const Rule& r : rules()) order.push_back(&r);
  for (const ArchSpec& a : all_archs()) {
    const GemmView v = view("gemm m=96 n=160 k=200 dtype=" + dtypes_of(a).back());
    std::vector<KernelConfig> all;
    for_each_candidate(v, a, [&](const KernelConfig& c) { all.push_back(c); });
    for (int i = 0; i < 300; ++i) {
      const KernelConfig c = i % 2 ? garbage(random) : disturbed(all[random() % all.size()], random);
      std::shuffle(order.begin(), order.end(), random);
      const bool legal = std::all_of(order.begin(), order.end(), [&](const Rule* r) {
        return (r->families != ~uint32_t{0} && !r->speaks_of(c.family)) || r->allows(v, c, a);
      });
      ASSERT_EQ(legal, rejected_by(v, c, a) == nullptr) << a.name << ": " << to_string(c);
    }
  }
}

TEST(Rules, GarbageIsRefusedNotFollowed) {
  std::mt19937 random(5);
  for (const ArchSpec& a : all_archs()) {
    const GemmView v = view("gemm m=96 n=160 k=0 dtype=" + dtypes_of(a).front());
    for (int i = 0; i < 3000; ++i) {
      const KernelConfig c = garbage(random);
      rejected_by(v, c, a);
      for (const Rule& r : rules()) r.allows(v, c, a);
    }
    KernelConfig unknown;
    for (int family : {-1, 10, 31, 32, 1000000}) {
      unknown.family = family;
      ASSERT_NE(rejected_by(v, unknown, a), nullptr);
    }
  }
}

TEST(Rules, Common) {
  const std::string p = "gemm m=512 n=512 k=512 dtype=f32 layout=rrr",
                    legal = "cpu_packed tile=6x64 inst=1x16x1";
  EXPECT_EQ(verdict("x86_avx512", p, legal), "");
  EXPECT_EQ(verdict("gfx942", p, legal), "family");
  EXPECT_EQ(verdict("x86_amx", p, "cpu_amx tile=32x32 inst=16x16x32"), "types");
  EXPECT_EQ(verdict("x86_avx512", p, "cpu_packed tile=6x64 inst=1x16x2"), "instruction");
  EXPECT_EQ(verdict("x86_avx2", p, legal), "instruction");
  EXPECT_EQ(verdict("x86_avx512", p, legal + " preshuffle=1"), "prepacked");
  EXPECT_EQ(verdict("x86_avx512", p + " prepack=b", legal), "prepacked");
  EXPECT_EQ(verdict("x86_avx512", p + " prepack=b", legal + " preshuffle=1"), "");
  EXPECT_EQ(verdict("x86_avx512", p + " prepack=b", legal + " preshuffle=1 swap_ab=1"), "swap_prepacked");
  EXPECT_EQ(verdict("x86_avx512", p, legal + " split_k=513"), "split_k");
  EXPECT_EQ(verdict("x86_avx512", p, legal + " split_k=512"), "");
  EXPECT_EQ(verdict("x86_avx512", p, legal + " block=70000x0x0"), "range");
  EXPECT_EQ(verdict("x86_avx512", p, legal + " pack_a=2"), "flags");
  EXPECT_EQ(verdict("x86_avx512", p, legal + " split_k=0"), "counts");
  EXPECT_EQ(verdict("x86_avx512", p, legal + " stages=2"), "own_knobs");
  EXPECT_EQ(verdict("x86_avx512", p, legal + " pipeline=mem"), "own_knobs");
}

TEST(Rules, Cpu) {
  const std::string p = "gemm m=512 n=512 k=512 dtype=f32", f = "cpu_packed inst=1x16x1 tile=";
  EXPECT_EQ(verdict("x86_avx512", p, f + "28x16"), "");
  EXPECT_EQ(verdict("x86_avx512", p, f + "29x16"), "tile_registers");
  EXPECT_EQ(verdict("x86_avx512", p, f + "14x32"), "");
  EXPECT_EQ(verdict("x86_avx512", p, f + "8x64"), "tile_registers");
  EXPECT_EQ(verdict("x86_avx2", p, "cpu_packed inst=1x8x1 tile=14x8"), "");
  EXPECT_EQ(verdict("x86_avx2", p, "cpu_packed inst=1x8x1 tile=15x8"), "tile_registers");
  EXPECT_EQ(verdict("x86_avx512", p, f + "6x24"), "tile_vectors");
  EXPECT_EQ(verdict("x86_avx512", p, f + "0x16"), "tile_empty");
  EXPECT_EQ(verdict("x86_avx512", p, f + "6x64 block=5x0x0"), "block_tile");
  EXPECT_EQ(verdict("x86_avx512", p, f + "6x64 block=6x48x0"), "block_tile");
  EXPECT_EQ(verdict("x86_avx512", p, f + "6x64 block=6x64x8"), "");
  const std::string h = "gemm m=512 n=512 k=512 dtype=bf16";
  EXPECT_EQ(verdict("x86_amx", h, "cpu_packed inst=1x16x2 tile=6x64 block=0x0x255"), "block_depth");
  const std::string amx = "cpu_amx inst=16x16x32 tile=";
  for (const char* tile : {"16x16", "32x32", "16x64", "64x16", "16x96"})
    EXPECT_EQ(verdict("x86_amx", h, amx + tile), "");
  EXPECT_EQ(verdict("x86_amx", h, amx + "32x48"), "amx_tiles");
  EXPECT_EQ(verdict("x86_amx", h, amx + "48x48"), "amx_tiles");
  EXPECT_EQ(verdict("x86_amx", h, amx + "24x32"), "amx_shape");
  EXPECT_EQ(verdict("x86_amx", h, amx + "32x32 block=0x0x48"), "block_depth");
  const std::string dot = "cpu_dot inst=1x16x1 tile=";
  EXPECT_EQ(verdict("x86_avx512", p, dot + "4x4"), "");
  EXPECT_EQ(verdict("x86_avx512", p, dot + "4x8"), "dot_registers");
  EXPECT_EQ(verdict("x86_avx512", p + " layout=rrr", dot + "4x4"), "dot_layout");
  EXPECT_EQ(verdict("x86_avx512", p + " prepack=b", dot + "4x4 preshuffle=1"), "own_knobs");
  EXPECT_TRUE(refuses("unpacked", "x86_avx512", p + " prepack=b", dot + "4x4"));
  const std::string direct = "cpu_direct inst=1x16x1 tile=6x64";
  EXPECT_EQ(verdict("x86_avx512", p + " layout=rrr", direct), "");
  for (const char* layout : {"", " layout=crr", " layout=ccr", " layout=rrr"}) {
    EXPECT_EQ(verdict("x86_avx512", p + layout, direct), "");
    EXPECT_EQ(verdict("x86_avx512", p + layout, direct + " swap_ab=1"), "");
  }
  EXPECT_EQ(verdict("x86_avx512", "gemm m=3 n=50 k=64 dtype=f32", dot + "4x4"), "dot_tile");
  EXPECT_EQ(verdict("x86_avx512", "gemm m=3 n=50 k=64 dtype=f32", dot + "3x4"), "");
  EXPECT_EQ(verdict("x86_avx512", "gemm m=50 n=3 k=64 dtype=f32", dot + "3x4 swap_ab=1"), "");
  EXPECT_EQ(verdict("x86_amx", "gemm m=50 n=50 k=64 dtype=bf16", dot + "4x6"), "dot_registers");
  EXPECT_EQ(verdict("x86_amx", "gemm m=50 n=50 k=64 dtype=bf16", "cpu_dot inst=1x16x2 tile=4x6"), "");
  EXPECT_EQ(verdict("x86_amx", "gemm m=50 n=50 k=64 dtype=f8e4m3", "cpu_dot inst=1x16x2 tile=4x6"),
            "unpacked_pairs");
}

const std::string kHalf = "gemm m=1024 n=1024 k=1024 dtype=f16";
const std::string kLegal = " pad=0x0x0 vec=8x8x8";
const std::string kCompv3 = "mfma pipeline=compv3 scheduler=intrawave" + kLegal;

TEST(Rules, AmdCoverAndMembership) {
  const std::string base = kCompv3 + " inst=32x32x16 wave=2x2x1 block=";
  EXPECT_EQ(verdict("gfx942", kHalf, base + "128x128x64"), "");
  EXPECT_EQ(verdict("gfx942", kHalf, base + "96x128x64"), "cover_m");
  EXPECT_EQ(verdict("gfx942", kHalf, base + "32x128x64"), "cover_m");
  EXPECT_EQ(verdict("gfx942", kHalf, base + "128x96x64"), "cover_n");
  EXPECT_EQ(verdict("gfx942", kHalf, base + "128x128x8"), "cover_k");
  EXPECT_EQ(verdict("gfx942", kHalf, kCompv3 + " inst=16x16x16 wave=4x4x1 block=128x128x64"), "wave_grid");
  EXPECT_EQ(verdict("gfx950", kHalf, kCompv3 + " inst=16x16x16 wave=4x4x1 block=128x128x64"), "");
  EXPECT_EQ(verdict("gfx90a", kHalf, kCompv3 + " inst=16x16x16 wave=2x1x1 block=128x128x64"), "wave_grid");
  EXPECT_EQ(verdict("gfx942", kHalf, kCompv3 + " inst=16x16x16 wave=2x1x1 block=128x128x32"), "");
  EXPECT_EQ(verdict("gfx942", kHalf, kCompv3 + " inst=32x32x32 wave=2x2x1 block=128x128x64"), "instruction");
  EXPECT_EQ(verdict("gfx908", kHalf, kCompv3 + " inst=4x64x16 wave=2x2x1 block=128x128x64"), "instruction");
  EXPECT_TRUE(refuses("min_tile", "gfx942", kHalf, "mfma block=8x64x64"));
  EXPECT_FALSE(refuses("min_tile", "gfx942", kHalf, "mfma block=64x64x64 preshuffle=1"));
  EXPECT_TRUE(refuses("min_tile", "gfx942", kHalf, "mfma block=32x64x64 preshuffle=1"));
  EXPECT_TRUE(refuses("tile_align", "gfx942", kHalf, "mfma block=24x64x64"));
  EXPECT_TRUE(refuses("tile_align", "gfx942", kHalf, "mfma block=80x64x64 preshuffle=1"));
}

TEST(Rules, AmdSharedMemory) {
  auto smem = [](const std::string& arch, const std::string& type, const std::string& text) {
    return refuses("smem", arch, "gemm m=1024 n=1024 k=1024 dtype=" + type, "mfma " + text);
  };
  // 256 x 256 x 64 of f16: 64 KiB in all.
  EXPECT_FALSE(smem("gfx942", "f16", "block=256x256x64 pipeline=compv3"));
  EXPECT_TRUE(smem("gfx942", "f16", "block=256x256x128 pipeline=compv3"));
  EXPECT_TRUE(smem("gfx942", "f16", "block=256x256x64 pipeline=compv3 double_buffer=1"));
  EXPECT_TRUE(smem("gfx942", "f16", "block=256x256x64 pipeline=mem double_buffer=1"));
  EXPECT_TRUE(smem("gfx942", "f16", "block=256x256x64 pipeline=compv4 double_buffer=1"));
  EXPECT_FALSE(smem("gfx942", "f16", "block=128x128x64 pipeline=compv4 double_buffer=1"));
  EXPECT_TRUE(smem("gfx942", "f16", "block=256x128x64 pipeline=compv6"));
  EXPECT_TRUE(smem("gfx942", "f32", "block=256x256x64 pipeline=compv3"));
  EXPECT_FALSE(smem("gfx942", "f8e4m3", "block=256x256x128 pipeline=compv3"));
  EXPECT_FALSE(smem("gfx950", "f16", "block=256x256x128 pipeline=compv3"));
  EXPECT_FALSE(smem("gfx950", "f16", "block=256x256x64 pipeline=compv4 double_buffer=1"));
  EXPECT_TRUE(smem("gfx950", "f16", "block=256x256x128 pipeline=compv4 double_buffer=1"));
}

TEST(Rules, AmdTraits) {
  const std::string base = "mfma inst=32x32x16 wave=2x2x1 block=128x128x64" + kLegal + " pipeline=";
  EXPECT_EQ(verdict("gfx942", kHalf, base + "mem scheduler=interwave"), "");
  EXPECT_EQ(verdict("gfx942", kHalf, base + "basic_v1 scheduler=interwave store=cshuffle"), "");
  for (const char* pipeline : {"compv3", "compv4", "compv5", "compv6"}) {
    for (const char* store : {"direct", "cshuffle"}) {
      for (const char* arch : {"gfx908", "gfx90a", "gfx942", "gfx950"}) {
        EXPECT_EQ(
            verdict(arch, kHalf, base + pipeline + " scheduler=interwave double_buffer=1 store=" + store),
            "pipeline_scheduler");
      }
    }
  }
  EXPECT_EQ(verdict("gfx950", kHalf, base + "comp_async scheduler=interwave double_buffer=1"),
            "pipeline_scheduler");
  EXPECT_EQ(verdict("gfx942", kHalf, base + "comp_async scheduler=intrawave double_buffer=1"), "pipeline");
  EXPECT_EQ(verdict("gfx950", kHalf, base + "comp_async scheduler=intrawave double_buffer=1"), "");
  EXPECT_EQ(verdict("gfx950", kHalf, base + "comp_async scheduler=intrawave"), "pipeline_buffers");
  EXPECT_EQ(verdict("gfx942", kHalf, base + "compv4 scheduler=intrawave"), "pipeline_buffers");
  EXPECT_EQ(verdict("gfx942", kHalf, base + "compv4 scheduler=intrawave double_buffer=1"), "");
  EXPECT_EQ(verdict("gfx942", kHalf, base + "preshufflev2"), "pipeline_store");
  EXPECT_TRUE(
      refuses("basic_async_waves", "gfx950", kHalf, "mfma pipeline=basic_async_v1 wave=2x1x1 inst=16x16x32"));
  EXPECT_FALSE(
      refuses("basic_async_waves", "gfx950", kHalf, "mfma pipeline=basic_async_v1 wave=2x2x1 inst=16x16x32"));
  EXPECT_TRUE(
      refuses("basic_async_waves", "gfx950", kHalf, "mfma pipeline=basic_async_v1 wave=2x2x1 inst=32x32x16"));
  EXPECT_TRUE(
      refuses("compv6_loads", "gfx942", kHalf, "mfma pipeline=compv6 block=16x16x64 wave=1x4x1 vec=8x8x8"));
  EXPECT_FALSE(
      refuses("compv6_loads", "gfx942", kHalf, "mfma pipeline=compv6 block=64x64x64 wave=1x4x1 vec=8x8x8"));
}

TEST(Rules, AmdPreshuffle) {
  const std::string p = kHalf + " prepack=b";
  const std::string base = "mfma pipeline=preshufflev2 double_buffer=1 store=cshuffle preshuffle=1" + kLegal;
  EXPECT_EQ(verdict("gfx942", p, base + " inst=16x16x32 wave=1x4x1 block=64x128x64"), "");
  EXPECT_EQ(verdict("gfx942", p + " layout=rrr", base + " inst=16x16x32 wave=1x4x1 block=64x128x64"),
            "preshuffle_layout");
  EXPECT_TRUE(refuses("preshuffle_pipeline", "gfx942", p, "mfma preshuffle=1 pipeline=compv3"));
  EXPECT_TRUE(refuses("preshuffle_pipeline", "gfx942", kHalf, "mfma pipeline=preshufflev2"));
  EXPECT_EQ(verdict("gfx942", "gemm m=1024 n=1024 k=1024 dtype=f32 prepack=b", base), "types");
  EXPECT_EQ(verdict("gfx950", "gemm m=1024 n=1024 k=1024 dtype=i8 prepack=b", base), "types");
  EXPECT_EQ(verdict("gfx942", p, base + " inst=4x64x16 wave=1x4x1 block=64x256x64"), "instruction");
  EXPECT_EQ(verdict("gfx950", p, base + " inst=32x32x32 wave=2x2x1 block=128x128x64"), "");
  EXPECT_EQ(verdict("gfx950", kHalf, kCompv3 + " inst=32x32x32 wave=2x2x1 block=128x128x64"), "instruction");
  // K0 = 64 / 8 = 8, M2 = 64 / 8 = 8: block_m is a multiple of 8 * 4 waves.
  EXPECT_FALSE(refuses("preshuffle_k", "gfx942", p, "mfma preshuffle=1 wave=1x4x1 block=96x128x64"));
  EXPECT_TRUE(refuses("preshuffle_k", "gfx942", p, "mfma preshuffle=1 wave=1x4x1 block=80x128x64"));
  EXPECT_TRUE(
      refuses("preshuffle_k", "gfx942", p, "mfma preshuffle=1 wave=1x4x1 block=96x128x192"));  // K0 = 24
  EXPECT_TRUE(refuses("preshuffle_k", "gfx942", p, "mfma preshuffle=1 wave=1x4x1 block=96x128x60"));
  // 32 * 16 * 2 * 3 / 64 = 48; 16 * 16 * 2 * 1 / 64 = 8.
  EXPECT_FALSE(
      refuses("preshuffle_m", "gfx942", p, "mfma preshuffle=1 wave=1x4x1 inst=32x32x16 block=96x128x64"));
  EXPECT_TRUE(
      refuses("preshuffle_m", "gfx942", p, "mfma preshuffle=1 wave=4x1x1 inst=16x16x16 block=64x128x64"));
}

TEST(Rules, AmdSharingOfTiles) {
  auto a_shared = [](const std::string& layout, const std::string& text) {
    return !refuses("share_a", "gfx942", kHalf + " layout=" + layout, "mfma " + text);
  };
  EXPECT_TRUE(a_shared("rcr", "block=128x128x64 wave=2x2x1 vec=8x8x8"));
  EXPECT_FALSE(a_shared("rcr", "block=128x128x192 wave=2x2x1 vec=8x8x8"));  // 24 lanes along k
  EXPECT_TRUE(a_shared("rcr", "block=16x128x64 wave=1x4x1 vec=8x8x8"));     // 4 elements each
  EXPECT_FALSE(a_shared("rcr", "block=128x128x128 wave=2x2x1 vec=1x1x1"));  // 128 lanes along k
  EXPECT_TRUE(a_shared("rcr", "block=128x128x64 wave=2x2x1 vec=1x1x1"));
  EXPECT_FALSE(a_shared("rcr", "block=3x128x8 wave=2x2x1 vec=8x8x8"));  // fewer elements than lanes
  EXPECT_TRUE(a_shared("crr", "block=128x128x64 wave=2x2x1 vec=8x8x8"));
  EXPECT_FALSE(a_shared("crr", "block=192x128x64 wave=2x2x1 vec=8x8x8"));  // 24 lanes along m
  auto c_shared = [](const std::string& text) {
    return !refuses("share_c", "gfx942", kHalf, "mfma store=cshuffle " + text);
  };
  EXPECT_TRUE(c_shared("block=128x128x64 wave=2x2x1 vec=8x8x8"));
  EXPECT_FALSE(c_shared("block=128x192x64 wave=2x2x1 vec=8x8x8"));
  EXPECT_FALSE(c_shared("block=128x128x64 wave=2x2x1 vec=8x8x1"));
  EXPECT_FALSE(
      refuses("share_c", "gfx942", kHalf, "mfma store=direct block=128x192x64 wave=2x2x1 vec=8x8x8"));
}

TEST(Rules, AmdOddRepeat) {
  auto odd = [](const std::string& text) { return refuses("odd_repeat", "gfx942", kHalf, "mfma " + text); };
  EXPECT_TRUE(odd("store=cshuffle block=192x128x64 wave=2x2x1 inst=32x32x16"));
  EXPECT_TRUE(odd("store=cshuffle block=128x192x64 wave=2x2x1 inst=32x32x16"));
  EXPECT_FALSE(odd("store=direct block=192x128x64 wave=2x2x1 inst=32x32x16"));
  EXPECT_FALSE(odd("store=cshuffle block=192x128x64 wave=2x2x1 inst=16x16x16"));
  EXPECT_FALSE(odd("store=cshuffle block=64x64x64 wave=2x2x1 inst=32x32x16"));
  EXPECT_FALSE(odd("store=cshuffle block=256x256x64 wave=2x2x1 inst=32x32x16"));
}

TEST(Rules, VectorsPadsAndSplits) {
  auto one = [](const std::string& rule, const std::string& problem, const std::string& text) {
    return refuses(rule, "gfx942", problem, "mfma block=128x128x64 " + text);
  };
  EXPECT_FALSE(one("vec_a", kHalf, "vec=8x8x8"));
  EXPECT_TRUE(one("vec_a", kHalf, "vec=16x8x8"));  // 32 bytes
  EXPECT_TRUE(one("vec_a", kHalf, "vec=3x8x8"));
  EXPECT_TRUE(one("vec_a", kHalf, "vec=0x8x8"));
  EXPECT_TRUE(one("vec_a", "gemm m=1024 n=1024 k=1020 dtype=f16", "vec=8x8x8"));
  EXPECT_FALSE(one("vec_a", "gemm m=1024 n=1024 k=1020 dtype=f16", "vec=4x8x8"));
  EXPECT_TRUE(one("vec_a", kHalf + " lda=1028", "vec=8x8x8"));
  EXPECT_TRUE(one("vec_a", kHalf + " batch=2 stride_a=2000004", "vec=8x8x8"));
  EXPECT_TRUE(one("vec_b", "gemm m=1024 n=1022 k=1024 dtype=f16 layout=rrr", "vec=8x8x8"));
  EXPECT_FALSE(one("vec_b", "gemm m=1024 n=1022 k=1024 dtype=f16 layout=rcr", "vec=8x8x8"));
  EXPECT_TRUE(one("vec_c", "gemm m=1024 n=1022 k=1024 dtype=f16", "vec=8x8x8"));
  EXPECT_TRUE(one("vec_c", kHalf + " out=f32", "vec=8x8x8"));
  EXPECT_TRUE(one("pad_m", "gemm m=1000 n=1024 k=1024 dtype=f16", "pad=0x1x1"));
  EXPECT_FALSE(one("pad_m", "gemm m=1000 n=1024 k=1024 dtype=f16", "pad=1x1x1"));
  EXPECT_TRUE(one("pad_n", "gemm m=1024 n=1000 k=1024 dtype=f16", "pad=1x0x1"));
  EXPECT_TRUE(one("pad_k", "gemm m=1024 n=1024 k=1000 dtype=f16", "pad=1x1x0"));
  EXPECT_TRUE(one("pad_k", "gemm m=1024 n=1024 k=192 dtype=f16", "pad=1x1x0 split_k=2"));
  EXPECT_TRUE(one("split_blocks", kHalf, "split_k=17"));
  EXPECT_FALSE(one("split_blocks", kHalf, "split_k=16"));
  EXPECT_TRUE(one("split_k_d", kHalf + " epilogue=add", "split_k=2"));
  EXPECT_FALSE(one("split_k_d", kHalf + " epilogue=relu", "split_k=2"));
  EXPECT_TRUE(one("output", kHalf.substr(0, kHalf.size() - 3) + "bf16 out=f16", ""));
  EXPECT_TRUE(refuses("registers", "gfx942", kHalf, "mfma block=256x256x64 wave=2x1x1"));
  EXPECT_FALSE(refuses("registers", "gfx942", kHalf, "mfma block=256x256x64 wave=2x2x1"));
  EXPECT_TRUE(refuses("registers", "gfx1100", kHalf, "wmma block=256x256x64 wave=2x4x1"));
  EXPECT_FALSE(refuses("registers", "gfx1100", kHalf, "wmma block=128x256x64 wave=2x4x1"));
}

TEST(Rules, Cuda) {
  const std::string p = "gemm m=4096 n=4096 k=4096 dtype=bf16";
  const std::string base =
      "tma_ws block=128x256x64 inst=64x256x16 wave=8x1x1 persistent=1 pipeline=cooperative stages=";
  EXPECT_EQ(verdict("sm_90a", p, base + "4"), "");
  EXPECT_EQ(verdict("sm_90a", p, base + "5"), "tma_smem");
  EXPECT_EQ(verdict("sm_90a", p, base + "3 store=cshuffle"), "");
  EXPECT_EQ(verdict("sm_90a", p, base + "4 store=cshuffle"), "");
  EXPECT_EQ(verdict("sm_90a", p, base + "1"), "tma_stages");
  EXPECT_EQ(verdict("sm_90a", p + " lda=4100", base + "4"), "");
  EXPECT_EQ(verdict("sm_90a", "gemm m=4096 n=4097 k=4097 dtype=bf16", base + "4"), "");
  EXPECT_EQ(verdict("sm_90a", "gemm m=4096 n=4097 k=4096 dtype=bf16", base + "4 store=cshuffle"), "tma_store");
  EXPECT_EQ(verdict("sm_90a", p, base + "4 cluster=2x1"), "");
  EXPECT_EQ(verdict("sm_90a", p, base + "4 cluster=4x4"), "cluster");
  EXPECT_EQ(verdict("sm_90a", "gemm m=128 n=4096 k=4096 dtype=bf16", base + "4 cluster=2x1"),
            "cluster_blocks");
  EXPECT_EQ(
      verdict("sm_90a", p, "tma_ws block=128x128x64 inst=64x256x16 wave=8x1x1 pipeline=cooperative stages=4"),
      "wgmma_n");
  EXPECT_EQ(
      verdict("sm_90a", p, "tma_ws block=64x128x64 inst=64x128x16 wave=8x1x1 pipeline=cooperative stages=4"),
      "wgmma_m");
  EXPECT_EQ(
      verdict("sm_90a", p, "tma_ws block=128x128x64 inst=64x128x16 wave=6x1x1 pipeline=cooperative stages=4"),
      "wgmma_m");
  EXPECT_EQ(
      verdict("sm_90a", p, "tma_ws block=128x128x32 inst=64x128x16 wave=8x1x1 pipeline=cooperative stages=4"),
      "tma_row");
  EXPECT_EQ(
      verdict("sm_90a", p, "tma_ws block=256x256x64 inst=64x256x16 wave=8x1x1 pipeline=cooperative stages=2"),
      "wgmma_registers");
  EXPECT_EQ(
      verdict("sm_90a", p, "tma_ws block=64x128x64 inst=64x128x16 wave=4x1x1 pipeline=pingpong stages=4"),
      "pingpong_teams");
  const std::string pingpong =
      "tma_ws block=64x128x64 inst=64x128x16 wave=4x1x1 pipeline=pingpong wave_groups=2 stages=4";
  EXPECT_EQ(verdict("sm_90a", p, pingpong), "pingpong_persistent");
  EXPECT_EQ(verdict("sm_90a", p, pingpong + " persistent=1"), "");
  // One stage more than these does not fit.
  auto fits = [&](const std::string& blocks, int stages) {
    return !refuses("tma_smem", "sm_90a", p, "tma_ws " + blocks + " stages=" + std::to_string(stages));
  };
  EXPECT_TRUE(fits("block=256x128x64 wave=8x1x1", 4) && !fits("block=256x128x64 wave=8x1x1", 5));
  EXPECT_TRUE(fits("block=128x128x64 wave=4x1x1 wave_groups=2", 6));
  EXPECT_FALSE(fits("block=128x128x64 wave=4x1x1 wave_groups=2", 7));
  EXPECT_EQ(verdict("sm_90a", "gemm m=4096 n=4096 k=4096 dtype=f8e4m3 layout=rrr",
                    "tma_ws block=128x128x128 inst=64x128x32 wave=8x1x1 pipeline=cooperative stages=4"),
            "wgmma_k_major");
  EXPECT_EQ(verdict("sm_90a", "gemm m=4096 n=4096 k=4096 dtype=i8",
                    "tma_ws block=128x40x128 inst=64x40x32 wave=8x1x1 pipeline=cooperative stages=4"),
            "instruction");
  const std::string cp = "cp_async inst=16x8x16 wave=2x2x1 block=128x128x32 stages=3 pad=0x0x0 vec=";
  EXPECT_EQ(verdict("sm_80", p, cp + "8x8x8"), "");
  EXPECT_EQ(verdict("sm_80", p, cp + "2x2x1"), "");
  EXPECT_EQ(verdict("sm_80", p, cp + "1x8x8"), "cp_async_width");
  const std::string simt = "simt inst=1x1x1 block=64x64x8 pad=0x0x0 tile=";
  EXPECT_EQ(verdict("sm_80", p, simt + "4x4"), "");
  EXPECT_EQ(verdict("sm_80", p, simt + "1x1"), "simt_threads");
  EXPECT_EQ(verdict("sm_80", p, simt + "3x4"), "simt_threads");
  EXPECT_EQ(verdict("sm_80", p, simt + "64x64"), "simt_threads");
  const std::string gemv = "gemv inst=1x1x1 wave=1x4x1 tile=";
  EXPECT_EQ(verdict("sm_80", "gemm m=4 n=4096 k=4096 dtype=bf16", gemv + "4x2"), "");
  EXPECT_EQ(verdict("sm_80", "gemm m=4 n=4096 k=4096 dtype=bf16", gemv + "2x2"), "gemv_rows");
  EXPECT_EQ(verdict("sm_80", p, gemv + "16x1"), "gemv_rows");
}

}  // namespace
}  // namespace tessera
