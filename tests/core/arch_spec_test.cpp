#include "core/arch_spec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "base/embedded.h"
#include "base/text.h"
#include "core/caches.h"
#include "core/gemm_view.h"
#include "tessera/error.h"
#include "tessera/problem.h"

namespace tessera {
namespace {

std::string refusal(const std::string& json) {
  try {
    parse_arch(json, "file.json");
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::bad_input);
    return e.what();
  }
  ADD_FAILURE() << "accepted: " << json;
  return {};
}

// The text of an embedded architecture with one piece replaced.
std::string changed(const std::string& arch, const std::string& from, const std::string& to) {
  std::string text(find_embedded_file("arch/" + arch + ".json")->text);
  const size_t at = text.find(from);
  EXPECT_NE(at, text.npos) << from << " is not in " << arch;
  return text.replace(at, from.size(), to);
}

void refused(const std::string& json, const std::string& reason) {
  const std::string why = refusal(json);
  EXPECT_NE(why.find(reason), std::string::npos) << why;
  EXPECT_NE(why.find("file.json"), std::string::npos) << why;
}

std::set<std::string> shapes(const ArchSpec& a, DType x, DType y, bool preshuffle = false) {
  std::set<std::string> out;
  for (const Instruction* i : a.instructions_for(x, y)) {
    if (preshuffle ? i->preshuffle : i->standard) out.insert(format("%dx%dx%d", i->m, i->n, i->k));
  }
  return out;
}

using Set = std::set<std::string>;

TEST(ArchSpec, AllLoadInOrder) {
  std::vector<std::string> names;
  for (const ArchSpec& a : all_archs()) names.push_back(a.name);
  EXPECT_EQ(names, (std::vector<std::string>{"gfx1100", "gfx1200", "gfx1201", "gfx908", "gfx90a", "gfx942",
                                             "gfx950", "sm_80", "sm_90a", "x86_amx", "x86_avx2",
                                             "x86_avx2_vnni", "x86_avx512", "x86_avx512_bf16",
                                             "x86_avx512_vnni", "x86_spr", "x86_zen3", "x86_zen4"}));
  for (const std::string& name : names) EXPECT_EQ(&find_arch(name), &find_arch(name));
}

TEST(ArchSpec, JsonRoundTrips) {
  for (const ArchSpec& a : all_archs()) {
    const std::string text = to_json(a).dump();
    EXPECT_EQ(parse_arch(text, "print"), a) << a.name;
    EXPECT_EQ(to_json(parse_arch(text, "print")).dump(), text) << a.name;
  }
}

TEST(ArchSpec, UnknownNamesAreRefusedWithTheNearest) {
  try {
    find_arch("gfx94");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::bad_input);
    EXPECT_NE(std::string(e.what()).find("did you mean 'gfx942'?"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("x86_avx512_bf16"), std::string::npos);
  }
  EXPECT_THROW(find_arch(""), Error);
  EXPECT_THROW(find_arch("schema"), Error);
}

TEST(ArchSpec, RefusesBrokenFiles) {
  refused("", "file.json");
  refused("[]", "an architecture is a JSON object");
  refused("{", "file.json");
  refused("{}", "missing key 'name'");
  refused(changed("x86_avx2", "\"rank\"", "\"rang\""), "missing key 'rank'");
  refused(changed("x86_avx2", "\"costs\"", "\"colour\": 1, \"costs\""), "unknown key 'colour'");
  refused(changed("x86_avx2", "\"costs\"", "\"familes\": 1, \"costs\""), "did you mean 'families'?");
  refused(changed("x86_avx2", "\"costs\"", "\"rank\": 3, \"costs\""), "duplicate key 'rank'");
  refused(changed("x86_avx2", "\"costs\"", "\"wave_size\": 32, \"costs\""),
          "'wave_size' does not belong to backend cpu");
  refused(changed("gfx942", "\"costs\"", "\"rank\": 32, \"costs\""), "'rank' does not belong to backend hip");
  refused(changed("x86_avx2", "\"backend\": \"cpu\"", "\"backend\": \"gpu\""), "backend: unknown word 'gpu'");
  refused(changed("x86_avx2", "\"cpu_dot\"", "\"cpu_dit\""), "families: unknown word 'cpu_dit'");
  refused(changed("x86_avx2", "\"cpu_dot\"", "\"mfma\""), "families: mfma belongs to backend hip");
  refused(changed("x86_avx2", "\"cpu_dot\"", "\"cpu_packed\""), "families: cpu_packed is listed twice");
  refused(changed("x86_avx2", "\"rank\": 10", "\"rank\": \"10\""), "rank: JSON value is not an integer");
  refused(changed("x86_avx2", "\"rank\": 10", "\"rank\": 0"), "rank: 0 is not in");
  refused(changed("x86_avx2", "\"clock_ghz\": ", "\"clock_ghz\": -"), "clock_ghz: -");
  refused(changed("x86_avx2", "\"fma\", \"f16c\"", "\"fma\", \"fma\""), "features: 'fma' is listed twice");
  refused(changed("x86_avx2", "\"f32 f32 f32\"", "\"f32 f32\""),
          "instructions: row 0: 'f32 f32' is not 'A B accumulator'");
  refused(changed("x86_avx2", "\"f32 f32 f32\"", "\"f32 f32 i32\""), "is not a pair of operand types");
  refused(changed("x86_avx2", "\"f32 f32 f32\"", "\"f32 half f32\""), "unknown dtype 'half'");
  refused(changed("x86_avx2", "\"1x8x1\"", "\"1x8\""), "'1x8' is not three positive numbers");
  refused(changed("x86_avx2", "\"1x8x1\"", "\"1x0x1\""), "is not three positive numbers");
  refused(changed("x86_avx2", "\"1x8x1\"", "\"1x16x1\""), "does not fill a vector of 256 bits");
  refused(changed("x86_avx2", "\"1x8x1\"", "\"1x8x1\", \"1x8x1\""), "is listed twice");
  refused(changed("x86_avx2", "\"name\": \"fma\"", "\"name\": \"fma\", \"speed\": 1"), "unknown key 'speed'");
  refused(changed("x86_avx2", "\"vector_bits\": 256", "\"vector_bits\": 384"), "not a power of two");
  refused(changed("x86_avx2", "\"l1\": {", "\"l1\": {\"ways\": 8, "), "l1: unknown key 'ways'");
  refused(changed("x86_zen3", "\"bytes_per_core\": 4194304", "\"bytes_per_core\": 0"), "l3: 0 is not in 1");
  refused(changed("x86_zen3", "\"bytes_per_core\": 4194304", "\"bytes_per_core\": 41943040"),
          "l3: bytes_per_core: more than the cache's bytes");
  refused(changed("x86_zen3", "\"l2\": {", "\"l2\": {\"bytes_per_core\": 65536, "),
          "l2: unknown key 'bytes_per_core'");
  refused(changed("x86_avx2", "\"dram\": {\"bytes_per_cycle\": ", "\"dram\": {\"bytes_per_cycle\": 1000"),
          "dram: faster than a cache");
}

TEST(ArchSpec, ACoreCountsOnItsShareOfTheLastLevel) {
  ArchSpec arch = find_arch("x86_zen3");
  EXPECT_EQ(own_last_level(arch), arch.l3.bytes_per_core);
  arch.l3.bytes = 1 << 20;  // as detection may say
  EXPECT_EQ(own_last_level(arch), 1 << 20);
  arch = find_arch("x86_avx2");
  EXPECT_EQ(own_last_level(arch), arch.l3.bytes);
  // What both are like but for their share: a result that one of them keeps goes past the other's.
  const GemmView v = lower(Problem::parse("gemm m=1024 n=768 k=16 dtype=f32 layout=rrr"));
  arch = find_arch("x86_zen3");
  EXPECT_TRUE(result_past_caches(v, arch));
  arch.l3.bytes_per_core = 0;
  EXPECT_FALSE(result_past_caches(v, arch));
}

TEST(ArchSpec, TakesWhatItLacksFromTheOneItIsLike) {
  const ArchSpec &zen4 = find_arch("x86_zen4"), &base = find_arch(zen4.like);
  EXPECT_EQ(zen4.features, base.features);
  EXPECT_EQ(zen4.compile_flags, base.compile_flags);
  EXPECT_EQ(zen4.families, base.families);
  EXPECT_NE(zen4.l1, base.l1);
  // The same instructions but for their rates, and so its kernels; others come behind.
  ASSERT_GT(zen4.instructions.size(), base.instructions.size());
  for (size_t i = 0; i < base.instructions.size(); ++i) {
    Instruction same = zen4.instructions[i];
    same.flops_per_cycle = base.instructions[i].flops_per_cycle;
    EXPECT_EQ(same, base.instructions[i]);
  }
  for (const ArchSpec& a : all_archs()) {
    EXPECT_TRUE(a.like != zen4.like || a.rank > base.rank) << a.name << " would never be detected";
  }
  refused(changed("x86_zen4", "\"like\": \"x86", "\"like\": \"x87"),
          "like: unknown architecture 'x87_avx512_bf16'");
  refused(changed("x86_zen4", "\"like\": \"x86_avx512_bf16\"", "\"like\": \"x86_zen4\""),
          "is itself like another");
  refused(changed("x86_zen4", "\"processors\": {\"vendor\": \"AuthenticAMD\", \"families\": [25]},", ""),
          "processors: missing");
  refused(changed("x86_zen4", "[25]", "[]"), "processors: a vendor and its families are needed");
  refused(changed("x86_zen4", "[25]", "[25], \"model\": 17"), "processors: unknown key 'model'");
  refused(
      changed("gfx942", "\"costs\"", "\"processors\": {\"vendor\": \"AMD\", \"families\": [1]}, \"costs\""),
      "like, processors: for CPUs");
}

TEST(ArchSpec, RefusesInconsistentGpuFacts) {
  refused(changed("gfx942", "\"wave_size\": 64", "\"wave_size\": 48"), "wave_size: 48 is not a power of two");
  refused(changed("gfx942", "\"1x4x1\"", "\"1x32x1\""), "wave_grids: 1x32x1 exceeds max_threads_per_block");
  refused(changed("gfx942", "\"1x4x1\"", "\"2x2x1\""), "wave_grids: 2x2x1 is listed twice");
  refused(changed("gfx942", "[65536, 32768]", "[65536]"),
          "smem_bytes needs one value for each of double_buffer");
  refused(changed("gfx942", "[65536, 32768]", "[65537, 32768]"),
          "pipelines: basic_v1 may use more than smem_bytes");
  refused(changed("gfx942", "\"name\": \"mem\"", "\"name\": \"basic_v1\""),
          "pipelines: basic_v1 is listed twice");
  refused(changed("gfx942", "\"name\": \"mem\"", "\"name\": \"memory\""),
          "pipelines: row 1: unknown word 'memory'");
  refused(changed("gfx942", "\"tile_align\": \"16x16x8\"", "\"tile_align\": \"32x16x8\""),
          "min_tile: 16x16x8 is not aligned");
  refused(changed("gfx942", "\"fnuz\"", "\"ieee\""), "f8_encoding: unknown word 'ieee'");
  refused(changed("gfx942", "[65536, 32768]", "[0, 32768]"), "pipelines: row 0: 0 is not in");
  refused(changed("gfx942", "\"double_buffer\": [0, 1]", "\"double_buffer\": [0, 0]"),
          "basic_v1: double_buffer lists each value once");
  refused(changed("gfx942", "\"flops_per_cycle\": 256", "\"flops_per_cycle\": 0"), "does nothing in a cycle");
  refused(changed("gfx942", "\"clock_ghz\": ", "\"clock_ghz\": 1000"), "clock_ghz: above 20");
}

TEST(ArchSpec, CostsMustExist) {
  ArchSpec a = find_arch("x86_avx2");
  a.costs = {{"call_ns", 50}};
  EXPECT_EQ(a.cost("call_ns"), 50);
  EXPECT_THROW(a.cost("no_such_cost"), Error);
}

TEST(ArchSpec, CpuInstructions) {
  for (DType t : {DType::f32, DType::f16, DType::bf16, DType::f8e4m3, DType::f8e5m2}) {
    EXPECT_TRUE(shapes(find_arch("x86_avx2"), t, t) == Set{"1x8x1"}) << to_string(t);
    EXPECT_TRUE(shapes(find_arch("x86_avx512"), t, t) == Set{"1x16x1"}) << to_string(t);
  }
  EXPECT_EQ(shapes(find_arch("x86_avx2"), DType::u8, DType::i8), Set{"1x8x2"});
  EXPECT_EQ(shapes(find_arch("x86_avx512"), DType::i8, DType::i8), Set{"1x16x2"});
  EXPECT_EQ(shapes(find_arch("x86_avx512_bf16"), DType::bf16, DType::bf16), (Set{"1x16x1", "1x16x2"}));
  EXPECT_EQ(shapes(find_arch("x86_avx512_bf16"), DType::f8e4m3, DType::f8e5m2), (Set{"1x16x1", "1x16x2"}));
  EXPECT_EQ(shapes(find_arch("x86_avx512_bf16"), DType::u8, DType::i8), (Set{"1x16x2", "1x16x4"}));
  EXPECT_EQ(shapes(find_arch("x86_amx"), DType::bf16, DType::bf16), (Set{"1x16x1", "1x16x2", "16x16x32"}));
  EXPECT_EQ(shapes(find_arch("x86_amx"), DType::i8, DType::i8), (Set{"1x16x2", "1x16x4", "16x16x64"}));
  EXPECT_EQ(shapes(find_arch("x86_amx"), DType::f32, DType::f32), Set{"1x16x1"});
}

TEST(ArchSpec, AmdWaveGrids) {
  using Grids = std::vector<std::array<int, 3>>;
  const Grids first{{1, 4, 1}, {2, 2, 1}, {4, 1, 1}};
  EXPECT_EQ(find_arch("gfx908").wave_grids, first);
  EXPECT_EQ(find_arch("gfx90a").wave_grids, first);
  Grids gfx942 = first;
  for (auto g : Grids{{1, 1, 1}, {1, 2, 1}, {2, 1, 1}, {2, 1, 2}}) gfx942.push_back(g);
  EXPECT_EQ(find_arch("gfx942").wave_grids, gfx942);
  Grids gfx950 = gfx942;
  for (auto g : Grids{{8, 2, 1}, {4, 4, 1}}) gfx950.push_back(g);
  EXPECT_EQ(find_arch("gfx950").wave_grids, gfx950);
  const Grids rdna{{2, 4, 1}, {1, 8, 1}, {8, 1, 1}, {4, 2, 1}};
  for (const char* name : {"gfx1100", "gfx1200", "gfx1201"}) {
    EXPECT_EQ(find_arch(name).wave_grids, rdna);
    EXPECT_EQ(find_arch(name).wave_size, 32);
  }
}

TEST(ArchSpec, AmdInstructions) {
  const Set f32{"16x16x4", "16x16x8", "16x16x16", "32x32x4", "32x32x8"};
  const Set half{"32x32x8", "16x16x16", "32x32x16", "16x16x32"};
  const Set i8{"32x32x16", "16x16x32"};
  for (const char* name : {"gfx908", "gfx90a", "gfx942", "gfx950"}) {
    SCOPED_TRACE(name);
    const ArchSpec& a = find_arch(name);
    EXPECT_EQ(a.wave_size, 64);
    EXPECT_EQ(shapes(a, DType::f32, DType::f32), f32);
    Set expected = half;
    if (a.name != "gfx908") expected.insert({"4x64x16", "64x4x16"});
    EXPECT_EQ(shapes(a, DType::f16, DType::f16), expected);
    EXPECT_EQ(shapes(a, DType::bf16, DType::bf16), expected);
    EXPECT_EQ(shapes(a, DType::i8, DType::i8), i8);
  }
  const DType e4 = DType::f8e4m3, e5 = DType::f8e5m2;
  EXPECT_EQ(shapes(find_arch("gfx908"), e4, e4), Set{});
  EXPECT_EQ(shapes(find_arch("gfx90a"), e4, e4), (Set{"32x32x16", "32x32x32"}));
  EXPECT_EQ(shapes(find_arch("gfx90a"), e4, e5), Set{});
  EXPECT_EQ(shapes(find_arch("gfx942"), e5, e5), (Set{"32x32x16", "32x32x32", "16x16x32", "16x16x64"}));
  EXPECT_EQ(shapes(find_arch("gfx942"), e4, e5), (Set{"32x32x16", "16x16x32", "32x32x32"}));
  EXPECT_EQ(shapes(find_arch("gfx942"), e5, e4), Set{"32x32x16"});
  EXPECT_EQ(shapes(find_arch("gfx950"), e4, e4),
            (Set{"32x32x16", "32x32x32", "16x16x32", "16x16x64", "16x16x128", "32x32x64"}));
  EXPECT_EQ(shapes(find_arch("gfx950"), e4, e5),
            (Set{"32x32x16", "16x16x32", "32x32x32", "16x16x128", "32x32x64"}));
  EXPECT_EQ(shapes(find_arch("gfx950"), e5, e4), (Set{"32x32x16", "16x16x128", "32x32x64"}));
  for (const char* name : {"gfx1100", "gfx1200", "gfx1201"}) {
    const ArchSpec& a = find_arch(name);
    EXPECT_EQ(shapes(a, DType::f16, DType::f16), Set{"16x16x16"});
    EXPECT_EQ(shapes(a, DType::i8, DType::i8), Set{"16x16x16"});
    EXPECT_EQ(shapes(a, DType::f32, DType::f32), Set{});
    const Set f8 = a.name == "gfx1100" ? Set{} : Set{"16x16x16"};
    for (DType x : {e4, e5}) EXPECT_TRUE(shapes(a, x, e4) == f8 && shapes(a, x, e5) == f8) << name;
  }
}

TEST(ArchSpec, AmdPreshuffleInstructions) {
  const Set half{"32x32x8", "16x16x16", "32x32x16", "16x16x32", "64x4x16"};
  EXPECT_EQ(shapes(find_arch("gfx90a"), DType::f16, DType::f16, true), half);
  EXPECT_EQ(shapes(find_arch("gfx942"), DType::bf16, DType::bf16, true), half);
  Set wider = half;
  wider.insert({"32x32x32", "16x16x64"});
  EXPECT_EQ(shapes(find_arch("gfx950"), DType::bf16, DType::bf16, true), wider);
  EXPECT_FALSE(shapes(find_arch("gfx950"), DType::bf16, DType::bf16).count("32x32x32"));
  for (const char* name : {"gfx90a", "gfx942", "gfx950"}) {
    const ArchSpec& a = find_arch(name);
    EXPECT_EQ(shapes(a, DType::f8e4m3, DType::f8e4m3, true), shapes(a, DType::f8e4m3, DType::f8e4m3)) << name;
    EXPECT_EQ(shapes(a, DType::i8, DType::i8, true),
              a.name == "gfx942" ? (Set{"16x16x32", "32x32x16"}) : Set{})
        << name;
    EXPECT_EQ(shapes(a, DType::f32, DType::f32, true), Set{}) << name;
  }
}

TEST(ArchSpec, AmdPipelineTable) {
  const ArchSpec& a = find_arch("gfx942");
  auto combinations = [&](Pipeline p) {
    const PipelineTraits* t = a.find_pipeline(p);
    return t->schedulers.size() * t->double_buffer.size() * t->split_image.size();
  };
  using enum Pipeline;
  EXPECT_EQ(combinations(basic_v1), 8u);
  EXPECT_EQ(combinations(compv3), 4u);
  EXPECT_EQ(combinations(compv4), 2u);
  EXPECT_EQ(combinations(compv5), 4u);
  EXPECT_EQ(combinations(compv6), 4u);
  EXPECT_EQ(combinations(mem), 8u);
  EXPECT_EQ(combinations(wavelet), 1u);
  EXPECT_EQ(combinations(basic_v1) + combinations(compv3) + combinations(compv4) + combinations(compv5) +
                combinations(compv6) + combinations(mem),
            30u);
  for (Pipeline p : {compv3, compv4, compv5, compv6, wavelet}) {
    EXPECT_EQ(a.find_pipeline(p)->schedulers, std::vector<Scheduler>{Scheduler::intrawave});
  }
  EXPECT_EQ(a.find_pipeline(compv4)->double_buffer, std::vector<int>{1});
  EXPECT_EQ(a.find_pipeline(comp_async), nullptr);
  EXPECT_EQ(find_arch("gfx950").find_pipeline(comp_async)->double_buffer, std::vector<int>{1});
  EXPECT_EQ(a.find_pipeline(preshufflev2)->stores, std::vector<Store>{Store::cshuffle});
}

TEST(ArchSpec, AmdSharedMemory) {
  using enum Pipeline;
  for (const char* name : {"gfx908", "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1200", "gfx1201"}) {
    SCOPED_TRACE(name);
    const ArchSpec& a = find_arch(name);
    EXPECT_EQ(a.smem_bytes, a.name == "gfx950" ? 163840 : 65536);
    for (Pipeline p : {mem, compv3, compv5}) {
      EXPECT_EQ(a.smem_limit(p, 0), a.smem_bytes);
      EXPECT_EQ(a.smem_limit(p, 1), a.smem_bytes / 2);
    }
    EXPECT_EQ(a.smem_limit(compv4, 1), a.smem_bytes / 2);
    for (int b : {0, 1}) EXPECT_EQ(a.smem_limit(compv6, b), a.smem_bytes / 2);
  }
  EXPECT_EQ(find_arch("gfx942").smem_limit(preshufflev2, 1), 32768);
  EXPECT_EQ(find_arch("gfx950").smem_limit(comp_async, 1), 81920);
  EXPECT_EQ(find_arch("gfx942").smem_limit(none, 0), 65536);
}

TEST(ArchSpec, AmdLeastTiles) {
  const ArchSpec& a = find_arch("gfx942");
  EXPECT_EQ(a.min_tile, (std::array<int, 3>{16, 16, 8}));
  EXPECT_EQ(a.tile_align, (std::array<int, 3>{16, 16, 8}));
  EXPECT_EQ(a.min_tile_preshuffle, (std::array<int, 3>{64, 64, 32}));
  EXPECT_EQ(a.tile_align_preshuffle, (std::array<int, 3>{32, 32, 16}));
}

TEST(ArchSpec, HopperInstructions) {
  const ArchSpec& a = find_arch("sm_90a");
  auto wgmma = [&](DType t, int n) {
    const auto all = a.instructions_for(t, t);
    return std::any_of(all.begin(), all.end(),
                       [&](const Instruction* i) { return i->name == "wgmma" && i->n == n; });
  };
  for (int n = 1; n <= 264; ++n) {
    EXPECT_EQ(wgmma(DType::bf16, n), n % 8 == 0 && n <= 256) << n;
    EXPECT_EQ(wgmma(DType::i8, n), n <= 256 && (n == 8 || n == 24 || n % 16 == 0)) << n;
  }
  EXPECT_EQ(a.smem_bytes, 232448);
}

TEST(ArchSpec, CpuIsDetectedFromItsFeatures) {
  auto best = [](std::string_view words, std::string_view vendor = "", int family = 0) {
    Processor p{"", std::string(vendor), family, {}};
    for (std::string_view word : split_words(words)) p.features.emplace_back(word);
    return best_cpu_arch(p).name;
  };
  const std::string avx2 = "sse avx avx2 fma f16c bmi1 bmi2";
  const std::string avx512 = avx2 + " avx512f avx512bw avx512dq avx512vl avx512cd";
  EXPECT_EQ(best(avx2), "x86_avx2");
  EXPECT_EQ(best(avx512), "x86_avx512");
  EXPECT_EQ(best(avx512 + " avx512_vnni"), "x86_avx512_vnni");
  EXPECT_EQ(best(avx2 + " avx_vnni"), "x86_avx2_vnni");
  EXPECT_EQ(best(avx512 + " avx_vnni"), "x86_avx512");
  EXPECT_EQ(best(avx512 + " avx512_vnni avx512_bf16"), "x86_avx512_bf16");
  EXPECT_EQ(best(avx512 + " avx512_vnni avx512_bf16", "AuthenticAMD", 25), "x86_zen4");
  EXPECT_EQ(best(avx512 + " avx512_vnni avx512_bf16", "AuthenticAMD", 26), "x86_avx512_bf16");
  EXPECT_EQ(best(avx512 + " avx512_vnni avx512_bf16", "GenuineIntel", 25), "x86_avx512_bf16");
  EXPECT_EQ(best(avx512 + " avx512_vnni avx512_bf16", "GenuineIntel", 6), "x86_spr");
  EXPECT_EQ(best(avx2, "AuthenticAMD", 23), "x86_avx2");
  EXPECT_EQ(best(avx2, "AuthenticAMD", 25), "x86_zen3");
  EXPECT_EQ(best(avx512 + " avx512_vnni avx512_bf16 amx_tile amx_bf16 amx_int8"), "x86_amx");
  EXPECT_EQ(best(avx512 + " amx_tile amx_bf16 amx_int8"), "x86_avx512");
  try {
    best("fpu sse sse2");
    FAIL();
  } catch (const Error& e) { EXPECT_EQ(e.code(), ErrorCode::unsupported); }
}

TEST(ArchSpec, TheRunningCpuIsOneOfThem) {
  const ArchSpec a = detect_cpu();
  EXPECT_EQ(a.backend, BackendKind::cpu);
  EXPECT_GE(a.compute_units, 1);
  EXPECT_GE(a.l1.bytes, 8 << 10);
  EXPECT_LE(a.l1.bytes, a.l2.bytes);
  std::ifstream file("/proc/cpuinfo");
  std::stringstream text;
  text << file.rdbuf();
  const std::string info = text.str();
  const auto words = split_words(info);
  for (const std::string& feature : a.features) {
    EXPECT_NE(std::find(words.begin(), words.end(), feature), words.end()) << feature;
  }
}

}  // namespace
}  // namespace tessera
