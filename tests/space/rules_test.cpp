#include "space/rules.h"

#include <algorithm>
#include <set>

#include "rules_test.h"
#include "space/family_space.h"
#include "space/rule_row.h"
#include "space/space.h"

namespace tessera {
namespace {

TEST(FamilySets, AreThoseOfTheBackends) {
  for (const FamilyInfo& row : families()) {
    const uint32_t own = family_set(row.family);
    EXPECT_EQ((kCpuFamilies & own) != 0, row.backend == BackendKind::cpu) << to_string(row.family);
    EXPECT_EQ((kCudaFamilies & own) != 0, row.backend == BackendKind::cuda) << to_string(row.family);
    EXPECT_EQ((kAmdFamilies & own) != 0, row.backend == BackendKind::hip) << to_string(row.family);
  }
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
                              view("gemm m=512 n=512 k=512 dtype=f8e4m3 prepack=b"),
                              view("conv_fwd n=1 g=20 c=2 k=3 in=9x9 filter=3x3 dtype=f32"),
                              view("conv_bwd_data n=1 c=3 k=30 in=9x9 filter=3x3 stride=2x2 dtype=bf16")};
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

// Enumeration asks these of a family's own values one by one, by their bounds alone.
TEST(Rules, ThoseOfEachKnobAreBounds) {
  std::mt19937 random(6);
  const auto fields = config_fields();
  const ArchSpec a = find_arch("sm_90a");
  const GemmView v = view("gemm m=96 n=160 k=200 dtype=bf16");
  const std::vector<KernelConfig> legal = legal_configs(v, a);
  int refused = 0;
  for (int i = 0; i < 4000; ++i) {
    const KernelConfig c = disturbed(legal[random() % legal.size()], random);
    bool expected = true, allowed = true;
    for (size_t k = 1; k < fields.size(); ++k) {
      const auto [low, high] = knob_bounds(k);
      const int value = c.*fields[k].member;
      const bool own = family_space(c.family_id()).knob_set >> k & 1;
      expected &= value >= low && value <= high && (own || value == fields[k].default_value);
    }
    for (const Rule& r : rules()) {
      if (r.each) allowed &= r.allows(v, c, a);
    }
    ASSERT_EQ(allowed, expected) << to_string(c);
    refused += !allowed;
  }
  EXPECT_GT(refused, 400);
  EXPECT_LT(refused, 3600);
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

TEST(Rules, CpuGroups) {
  const std::string f = "cpu_groups inst=1x16x1 tile=", shape = " in=20x20 filter=3x3 pad=1x1 dtype=f32";
  const std::string depthwise = "conv_fwd n=1 g=40 c=1 k=1" + shape;
  EXPECT_EQ(verdict("x86_avx512", depthwise, f + "7x32"), "");
  EXPECT_EQ(verdict("x86_avx512", depthwise, f + "7x24"), "tile_vectors");
  EXPECT_EQ(verdict("x86_avx512", depthwise, f + "8x64"), "tile_registers");
  EXPECT_EQ(verdict("x86_avx512", depthwise, f + "7x32 split_k=2"), "own_knobs");
  EXPECT_TRUE(refuses("groups_window", "x86_avx512", "gemm m=40 n=40 k=40 dtype=f32", f + "7x32"));
  EXPECT_TRUE(refuses("groups_window", "x86_avx512", "conv_fwd n=1 g=40 c=4 k=4 in=9x9 filter=1x1 dtype=f32",
                      f + "7x32"));
  EXPECT_EQ(verdict("x86_avx512", "conv_fwd n=1 g=4 c=16 k=3" + shape, f + "7x32"), "");
  EXPECT_EQ(verdict("x86_avx512", "conv_fwd n=1 g=4 c=17 k=3" + shape, f + "7x32"), "groups_channels");
  EXPECT_EQ(verdict("x86_avx512", "conv_fwd n=1 g=4 c=17 k=24" + shape, f + "7x32"), "groups_channels");
  EXPECT_EQ(verdict("x86_amx", "conv_fwd n=1 g=4 c=64 k=24" + shape, f + "7x32"), "");
  EXPECT_EQ(verdict("x86_amx", "conv_fwd n=1 g=4 c=64 k=24" + shape, f + "7x16"), "groups_channels");
  EXPECT_EQ(verdict("x86_amx", "conv_fwd n=1 g=4 c=65 k=24" + shape, f + "7x32"), "groups_channels");
  EXPECT_EQ(verdict("x86_amx", "conv_bwd_weight n=1 g=4 c=17 k=32" + shape, f + "2x32"), "groups_channels");
  EXPECT_EQ(verdict("x86_avx512", "conv_fwd n=1 g=4 c=1 k=1 in=400 filter=33 dtype=f32", f + "7x32"),
            "groups_unrolled");
  EXPECT_EQ(
      verdict("x86_avx512", "conv_fwd n=1 g=4 c=1 k=1 in=400 filter=3 dilation=90 dtype=f32", f + "7x32"),
      "groups_unrolled");
  const std::string pairs = "cpu_groups inst=1x16x2 tile=7x32",
                    half = " in=20x20 filter=3x3 pad=1x1 dtype=bf16";
  EXPECT_EQ(verdict("x86_avx512_bf16", "conv_fwd n=1 g=4 c=32 k=3" + half, pairs), "");
  EXPECT_EQ(verdict("x86_avx512_bf16", "conv_fwd n=1 g=4 c=34 k=3" + half, pairs), "groups_channels");
  EXPECT_EQ(verdict("x86_avx512_bf16", "conv_fwd n=1 g=4 c=5 k=8" + half, pairs), "groups_pairs");
  EXPECT_EQ(verdict("x86_avx512_bf16", "conv_bwd_weight n=1 g=4 c=4 k=8" + half, pairs), "groups_pairs");
  const std::string stem = "conv_bwd_data n=1 c=3 k=64" + shape;
  EXPECT_EQ(verdict("x86_avx512", stem, f + "14x16"), "");
  EXPECT_EQ(verdict("x86_avx512", stem, f + "7x32"), "groups_blocks");
  EXPECT_EQ(verdict("x86_avx512", stem + " epilogue=add", f + "14x16"), "");
  EXPECT_EQ(verdict("x86_avx512", stem + " epilogue=bias", f + "14x16"), "groups_blocks");
}

TEST(Rules, CpuWinograd) {
  const std::string f = "cpu_winograd inst=1x16x1 tile=6x64", block = " block=48x0x0",
                    rest = " in=20x20 filter=3x3 dtype=f32";
  const auto says = [&](const std::string& problem, const std::string& config) {
    return verdict("x86_avx512", problem, config);
  };
  EXPECT_EQ(says("conv_fwd n=1 c=9 k=9" + rest, f + block), "");
  EXPECT_EQ(says("conv_bwd_data n=1 c=64 k=64" + rest, f + block), "");
  EXPECT_EQ(says("conv_bwd_weight n=1 c=64 k=64" + rest, f + block), "winograd_window");
  EXPECT_EQ(says("conv_fwd n=1 c=64 k=64" + rest, f), "winograd_block");
  EXPECT_EQ(says("conv_fwd n=1 c=64 k=64" + rest, f + " block=48x64x0"), "winograd_block");
  EXPECT_EQ(says("conv_fwd n=1 c=8 k=64" + rest, f + block), "winograd_lanes");
  EXPECT_EQ(says("conv_fwd n=1 c=64 k=8" + rest, f + block), "winograd_lanes");
  EXPECT_EQ(says("conv_fwd n=1 c=8192 k=9" + rest, f + block), "");
  EXPECT_EQ(says("conv_fwd n=1 c=8193 k=9" + rest, f + block), "winograd_panel");
  for (const char* other : {"stride=2x1", "dilation=1x2", "filter=3x2", "filter=1x1", "filter=5x3"}) {
    EXPECT_TRUE(refuses("winograd_window", "x86_avx512",
                        std::string("conv_fwd n=1 c=64 k=64 in=20x20 dtype=f32 ") +
                            (std::string_view(other).starts_with("filter") ? "" : "filter=3x3 ") + other,
                        f + block));
  }
  EXPECT_TRUE(refuses("winograd_window", "x86_avx512", "gemm m=64 n=64 k=64 dtype=f32", f + block));
  // bf16 where nothing multiplies it faster than floats.
  const std::string short_floats = "conv_fwd n=1 c=64 k=64 in=20x20 filter=3x3 dtype=bf16";
  EXPECT_EQ(says(short_floats, f + block), "");
  EXPECT_EQ(verdict("x86_spr", short_floats, f + block), "");
  for (const char* faster : {"x86_avx512_bf16", "x86_zen4", "x86_amx"})
    EXPECT_EQ(verdict(faster, short_floats, f + block), "winograd_types");
  EXPECT_EQ(verdict("x86_amx", "conv_fwd n=1 c=64 k=64 in=20x20 filter=3x3 dtype=f16", f + block), "");
  EXPECT_EQ(says("conv_fwd n=1 c=64 k=64 in=20x20 filter=3x3 dtype=f8e4m3", f + block), "winograd_types");
  EXPECT_EQ(verdict("x86_amx", "conv_fwd n=1 c=64 k=64" + rest, f + block), "");
}

TEST(Rules, CpuWinogradWeight) {
  const std::string f = "cpu_winograd_weight inst=1x16x1 tile=6x64", block = " block=48x0x0",
                    rest = " in=20x20 filter=3x3 dtype=f32";
  const auto says = [&](const std::string& problem, const std::string& config) {
    return verdict("x86_zen4", problem, config);
  };
  EXPECT_EQ(says("conv_bwd_weight n=1 c=9 k=9" + rest, f + block), "");
  EXPECT_EQ(says("conv_fwd n=1 c=64 k=64" + rest, f + block), "winograd_weight_window");
  EXPECT_EQ(says("conv_bwd_data n=1 c=64 k=64" + rest, f + block), "winograd_weight_window");
  EXPECT_EQ(says("conv_bwd_weight n=1 c=64 k=64" + rest, f), "winograd_block");
  EXPECT_EQ(says("conv_bwd_weight n=1 c=8 k=64" + rest, f + block), "winograd_lanes");
  EXPECT_EQ(says("conv_bwd_weight n=1 c=64 k=8" + rest, f + block), "winograd_lanes");
  EXPECT_EQ(says("conv_bwd_weight n=1 c=512 k=960" + rest, f + block), "");
  EXPECT_EQ(says("conv_bwd_weight n=1 c=512 k=1024" + rest, f + block), "winograd_sums");
  for (const char* other : {"stride=2x1", "dilation=1x2", "filter=3x2", "filter=1x1", "filter=5x3"}) {
    EXPECT_TRUE(refuses("winograd_weight_window", "x86_zen4",
                        std::string("conv_bwd_weight n=1 c=64 k=64 in=20x20 dtype=f32 ") +
                            (std::string_view(other).starts_with("filter") ? "" : "filter=3x3 ") + other,
                        f + block));
  }
  EXPECT_TRUE(refuses("winograd_weight_window", "x86_zen4", "gemm m=64 n=64 k=64 dtype=f32", f + block));
  EXPECT_EQ(says("conv_bwd_weight n=1 c=64 k=64 in=20x20 filter=3x3 dtype=bf16", f + block),
            "winograd_types");
}

TEST(Rules, CpuPlanes) {
  const std::string f = "cpu_planes inst=1x16x1 tile=2x48",
                    rest = " in=20x20 filter=5x5 stride=2x2 dtype=f32";
  const auto says = [&](const std::string& problem, const std::string& config) {
    return verdict("x86_avx512_bf16", problem, config);
  };
  for (const char* op : {"conv_fwd", "conv_bwd_data", "conv_bwd_weight"}) {
    const std::string n = op + std::string(" n=1 ");
    EXPECT_EQ(says(n + "c=3 k=9" + rest, f), "");
    EXPECT_EQ(says(n + "g=16 c=4 k=16" + rest, f), "");
    EXPECT_EQ(says(n + "c=64 k=16" + rest, f), "");
    for (const char* many : {"c=17 k=17", "c=3 k=65", "c=65 k=3", "g=17 c=3 k=3"})
      EXPECT_EQ(says(n + many + rest, f), "planes_window");
    EXPECT_EQ(says(n + "c=3 k=9 in=20x20 filter=1x1 dtype=f32", f), "planes_window");
    EXPECT_EQ(says(n + "c=3 k=9 in=40x40 filter=1x1 stride=17x1 dtype=f32", f), "planes_window");
  }
  EXPECT_TRUE(refuses("planes_window", "x86_avx512", "gemm m=64 n=8 k=64 dtype=f32", f));
  // Channels walked: of C, and of dY for the gradient of a filter.
  EXPECT_EQ(says("conv_fwd n=1 c=3 k=1" + rest, f), "planes_outputs");
  EXPECT_EQ(says("conv_bwd_data n=1 c=1 k=3" + rest, f), "planes_outputs");
  EXPECT_EQ(says("conv_bwd_weight n=1 c=3 k=1" + rest, f), "planes_outputs");
  const std::string pairs = "cpu_planes inst=1x16x2 tile=2x48", bf16 = " in=20x20 filter=5x5 dtype=bf16";
  EXPECT_EQ(says("conv_fwd n=1 c=3 k=4" + bf16, pairs), "planes_pairs");
  EXPECT_EQ(says("conv_fwd n=1 c=4 k=3" + bf16, pairs), "");
  EXPECT_EQ(says("conv_bwd_data n=1 c=4 k=3" + bf16, pairs), "planes_pairs");
  EXPECT_EQ(says("conv_bwd_weight n=1 c=3 k=3" + bf16, pairs), "");
  EXPECT_EQ(says("conv_fwd n=1 c=3 k=4" + bf16, f), "");
  // A line of an image cannot be cut.
  EXPECT_EQ(says("conv_fwd n=1 c=16 k=16 in=1000000 filter=3 dtype=f32", f), "planes_bytes");
  EXPECT_EQ(says("conv_bwd_weight n=1 c=16 k=64 in=80x80 filter=9x9 dtype=f32", f), "planes_bytes");
}

TEST(Rules, CpuScatter) {
  const std::string f = "cpu_scatter inst=1x16x1 tile=8x32", block = " block=48x0x0",
                    rest = " in=20x20 filter=5x5 stride=2x2 dtype=f32";
  const auto says = [&](const std::string& problem, const std::string& config) {
    return verdict("x86_avx512", problem, config);
  };
  EXPECT_EQ(says("conv_bwd_data n=1 c=3 k=9" + rest, f + block), "");
  EXPECT_EQ(says("conv_bwd_data n=1 c=3 k=9 dilation=1x2" + rest, f + block), "");
  EXPECT_EQ(says("conv_fwd n=1 c=3 k=9" + rest, f + block), "scatter_window");
  EXPECT_EQ(says("conv_bwd_weight n=1 c=3 k=9" + rest, f + block), "scatter_window");
  EXPECT_EQ(says("conv_bwd_data n=1 g=2 c=3 k=9" + rest, f + block), "scatter_window");
  EXPECT_TRUE(refuses("scatter_window", "x86_avx512", "gemm m=64 n=8 k=64 dtype=f32", f + block));
  EXPECT_EQ(says("conv_bwd_data n=1 c=15 k=9" + rest, f + block), "");
  EXPECT_EQ(says("conv_bwd_data n=1 c=16 k=9" + rest, f + block), "scatter_few");
  EXPECT_EQ(says("conv_bwd_data n=1 c=3 k=9" + rest, f), "scatter_block");
  EXPECT_EQ(says("conv_bwd_data n=1 c=3 k=9" + rest, f + " block=48x32x0"), "scatter_block");
  // 2 x 2 coordinates are fewer than the rows of a tile.
  EXPECT_EQ(says("conv_bwd_data n=1 c=3 k=9 in=5x5 filter=3x3 stride=2x2 dtype=f32", f + block),
            "scatter_words");
  EXPECT_EQ(says("conv_bwd_data n=2 c=3 k=9 in=5x5 filter=3x3 stride=2x2 dtype=f32", f + block), "");
  EXPECT_EQ(verdict("x86_avx512", "conv_bwd_data n=1 c=3 k=10 in=20x20 filter=5x5 dtype=bf16", f + block),
            "scatter_words");
  EXPECT_EQ(says("conv_bwd_data n=1 c=15 k=9 in=20x400x400 filter=3x3x3 dtype=f32", f + block),
            "scatter_sums");
}

TEST(Rules, Cpu) {
  const std::string p = "gemm m=512 n=512 k=512 dtype=f32", f = "cpu_packed inst=1x16x1 tile=";
  EXPECT_EQ(verdict("x86_avx512", p, f + "28x16"), "");
  EXPECT_EQ(verdict("x86_avx512", p, f + "30x16"), "tile_registers");
  EXPECT_EQ(verdict("x86_avx512", p, f + "14x32"), "");
  EXPECT_EQ(verdict("x86_avx512", p, f + "8x64"), "tile_registers");
  EXPECT_EQ(verdict("x86_avx2", p, "cpu_packed inst=1x8x1 tile=6x16"), "");
  EXPECT_EQ(verdict("x86_avx2", p, "cpu_packed inst=1x8x1 tile=7x16"), "tile_registers");
  EXPECT_EQ(verdict("x86_avx2", p, "cpu_packed inst=1x8x1 tile=4x24"), "tile_registers");
  EXPECT_EQ(
      verdict("x86_avx2", "gemm m=512 n=512 k=512 dtype=i8", "cpu_packed inst=1x8x2 tile=6x16 pack_a=1"),
      "tile_registers");
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
  const char* conv = "conv_fwd n=1 c=16 k=32 in=40x40 filter=3x3 dtype=bf16";
  for (const char* more :
       {"32x32", "64x16", "32x32 pack_a=1", "16x96 pack_a=1", "32x32 pack_a=1 block=0x0x64"})
    EXPECT_EQ(verdict("x86_amx", conv, amx + more), "");
  for (const char* more : {"16x96", "32x32 block=0x0x64"})
    EXPECT_EQ(verdict("x86_amx", conv, amx + more), "amx_lines");
  EXPECT_EQ(verdict("x86_amx", h, amx + "32x32 block=0x0x48"), "block_depth");
  const std::string dot = "cpu_dot inst=1x16x1 tile=";
  EXPECT_EQ(verdict("x86_avx512", p, dot + "4x4"), "");
  EXPECT_EQ(verdict("x86_avx512", p, dot + "4x8"), "dot_registers");
  EXPECT_EQ(verdict("x86_avx512", p + " layout=rrr", dot + "4x4"), "dot_layout");
  EXPECT_EQ(verdict("x86_avx512", p + " prepack=b", dot + "4x4"), "prepacked");
  for (const char* more : {"4x4 preshuffle=1", "4x4 preshuffle=1 swap_ab=1"}) {
    EXPECT_EQ(verdict("x86_avx512", p + " prepack=b", dot + more), "");
    EXPECT_EQ(verdict("x86_avx512", p + " prepack=b layout=rrr", dot + more), "");
    EXPECT_EQ(verdict("x86_avx512", p + " prepack=b layout=crr", dot + more), "dot_layout");
  }
  const std::string direct = "cpu_direct inst=1x16x1 tile=6x64";
  EXPECT_EQ(verdict("x86_avx512", p + " layout=rrr", direct), "");
  for (const char* layout : {"", " layout=crr", " layout=ccr", " layout=rrr"}) {
    EXPECT_EQ(verdict("x86_avx512", p + layout, direct), "");
    EXPECT_EQ(verdict("x86_avx512", p + layout, direct + " swap_ab=1"), "");
    EXPECT_EQ(verdict("x86_avx512", p + layout + " prepack=b", direct + " preshuffle=1 swap_ab=1"), "");
  }
  EXPECT_EQ(verdict("x86_avx512", "gemm m=3 n=50 k=64 dtype=f32", dot + "4x4"), "dot_tile");
  EXPECT_EQ(verdict("x86_avx512", "gemm m=3 n=50 k=64 dtype=f32", dot + "3x4"), "");
  EXPECT_EQ(verdict("x86_avx512", "gemm m=50 n=3 k=64 dtype=f32", dot + "3x4 swap_ab=1"), "");
  EXPECT_EQ(verdict("x86_amx", "gemm m=50 n=50 k=64 dtype=bf16", dot + "4x6"), "dot_registers");
  EXPECT_EQ(verdict("x86_amx", "gemm m=50 n=50 k=64 dtype=bf16", "cpu_dot inst=1x16x2 tile=4x6"), "");
  EXPECT_EQ(verdict("x86_amx", "gemm m=50 n=50 k=64 dtype=f8e4m3", "cpu_dot inst=1x16x2 tile=4x6"),
            "unpacked_pairs");
}

}  // namespace
}  // namespace tessera
