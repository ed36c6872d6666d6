#include "space/enumerate.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <set>

#include "core/family.h"
#include "space/space.h"
#include "space_test_problems.h"

namespace tessera {
namespace {

std::vector<KernelConfig> candidates(const GemmView& v, const ArchSpec& a) {
  std::vector<KernelConfig> out;
  for_each_candidate(v, a, [&](const KernelConfig& c) { out.push_back(c); });
  return out;
}

const char* const kShapes[] = {
    "gemm m=512 n=128 k=256", "gemm m=1 n=4096 k=4096",     "gemm m=4096 n=1 k=64",
    "gemm m=16 n=16 k=16",    "gemm m=37 n=129 k=255",      "gemm m=1 n=1 k=1",
    "gemm m=64 n=64 k=0",     "gemm m=5 n=300 k=7 batch=9", "gemm m=128 n=256 k=8192",
    "gemm m=3 n=5 k=100000",  "gemm m=4000 n=12 k=200",
};

// The legal set is exactly what no rule rejects of the candidates, in their order.
TEST(Enumerate, PruningLosesNothing) {
  for (const ArchSpec& a : all_archs()) {
    for (const char* shape : {kShapes[4], kShapes[1], kShapes[10], "gemm m=256 n=128 k=128"}) {
      const std::string type = dtypes_of(a)[std::string(shape).size() % dtypes_of(a).size()];
      for (const char* rest : {" layout=rcr", " layout=crr", " prepack=b"}) {
        const GemmView v = view(shape + (" dtype=" + type) + rest);
        std::vector<KernelConfig> expected;
        for (const KernelConfig& c : candidates(v, a)) {
          if (!rejected_by(v, c, a)) expected.push_back(c);
        }
        EXPECT_TRUE(legal_configs(v, a) == expected) << a.name << ' ' << shape << " dtype=" << type << rest;
      }
    }
  }
}

// A choice in steps that drops nothing on its way arrives at the legal set; each step has one candidate, a
// legal one, of each combination of the knobs that have led until then.
TEST(Enumerate, StepsOfLeadingKnobsReachEveryCandidate) {
  size_t several = 0;
  for (const ArchSpec& a : all_archs()) {
    for (const char* shape : {kShapes[0], kShapes[4], kShapes[8]}) {
      for (const char* rest : {"", " prepack=b"}) {
        const GemmView v = view(shape + (" dtype=" + dtypes_of(a).front()) + rest);
        const std::vector<KernelConfig> legal = legal_configs(v, a);
        std::vector<KernelConfig> some = leading_configs(v, a, false);
        for (size_t step = 0; step < leading_steps(a); ++step) {
          std::set<std::string> combinations;
          for (const KernelConfig& c : some) {
            KernelConfig led;
            led.family = c.family;
            const FamilyPlan& plan = family_plan(c.family_id());
            for (size_t k = 0; k < plan.led(step); ++k) {
              for (const ConfigField* f : plan.crossed[k].space->fields) led.*f->member = c.*f->member;
            }
            EXPECT_TRUE(combinations.insert(to_string(led)).second) << a.name << ' ' << to_string(c);
            EXPECT_EQ(rejected_by(v, c, a), nullptr) << to_string(c);
          }
          EXPECT_LE(some.size(), legal.size() / 2) << a.name << ' ' << shape << rest;
          several += some.size() > 64;
          some = configs_like(v, a, some, step + 1);
        }
        EXPECT_TRUE(some == legal) << a.name << ' ' << shape << rest;
      }
    }
  }
  EXPECT_GT(several, 10u);
}

// The candidates are the values of a space crossed in its order, whatever the order they are decided in.
TEST(Enumerate, CandidatesComeInTheOrderOfTheSpace) {
  size_t moved = 0;
  for (const ArchSpec& a : all_archs()) {
    const GemmView v = view("gemm m=96 n=136 k=4096 dtype=" + dtypes_of(a).front());
    std::vector<KernelConfig> expected;
    for (Family f : a.families) {
      const FamilySpace& space = family_space(f);
      if (!space.offers(v)) continue;
      KernelConfig c;
      c.family = static_cast<int>(f);
      const size_t before = expected.size();
      const std::function<void(size_t)> cross = [&](size_t k) {
        if (k == space.knobs.size()) return expected.push_back(c);
        const KnobSpace& knob = space.knobs[k];
        std::vector<KnobValue> values;
        knob.source->values(v, a, space, knob, c, values);
        for (const KnobValue& value : values) {
          for (size_t i = 0; i < knob.fields.size(); ++i) c.*knob.fields[i]->member = value[i];
          cross(k + 1);
        }
        for (const ConfigField* field : knob.fields) c.*field->member = field->default_value;
      };
      cross(0);
      if (expected.size() == before) expected.push_back(c);
      for (size_t k = 0; k < space.knobs.size(); ++k)
        moved += family_plan(f).crossed[k].space != &space.knobs[k];
    }
    EXPECT_TRUE(candidates(v, a) == expected) << a.name;
  }
  EXPECT_GT(moved, 0u);
}

// A knob's values are worked out again when what its source says it reads has changed: it may not read
// others.
TEST(Enumerate, SourcesDependOnTheKnobsTheySay) {
  std::mt19937 random(5);
  const auto fields = config_fields();
  std::set<std::string_view> seen;
  for (const ArchSpec& a : all_archs()) {
    for (const char* shape :
         {"gemm m=37 n=129 k=8192", "gemm m=16 n=4096 k=4096", "gemm m=512 n=2 k=16384"}) {
      const GemmView v = view(shape + (" dtype=" + dtypes_of(a).front()));
      for (Family f : a.families) {
        const FamilySpace& space = family_space(f);
        std::vector<KernelConfig> some = legal_configs(v, a);
        std::erase_if(some, [&](const KernelConfig& c) { return c.family_id() != f; });
        if (some.empty()) some.emplace_back().family = static_cast<int>(f);
        for (int i = 0; i < 8; ++i) {
          const KernelConfig c = disturbed(some[random() % some.size()], random);
          for (const KnobSpace& knob : space.knobs) {
            std::vector<KnobValue> before, after;
            knob.source->values(v, a, space, knob, c, before);
            if (knob.source->one) { ASSERT_LE(before.size(), 1u) << knob.source->name; }
            seen.insert(knob.source->name);
            for (size_t k = 1; k < fields.size(); ++k) {
              if (knob.source->reads >> k & 1) continue;
              KernelConfig other = c;
              other.*fields[k].member = static_cast<int>(random() % 300);
              after.clear();
              knob.source->values(v, a, space, knob, other, after);
              ASSERT_TRUE(after == before) << knob.source->name << " reads " << fields[k].name;
            }
          }
        }
      }
    }
  }
  for (const FamilyInfo& f : families()) {
    for (const KnobSpace& knob : family_space(f.family).knobs)
      EXPECT_TRUE(seen.count(knob.source->name)) << knob.source->name;
  }
}

// Each candidate once, under a name of its own that parses back; so with its JSON form.
TEST(Enumerate, NoTwoCandidatesShareAName) {
  for (const ArchSpec& a : all_archs()) {
    const GemmView v = view("gemm m=100 n=72 k=136 dtype=" + dtypes_of(a).front());
    std::set<std::string> names;
    std::set<uint64_t> hashes;
    const auto all = candidates(v, a);
    for (size_t i = 0; i < all.size(); ++i) {
      ASSERT_TRUE(names.insert(to_string(all[i])).second) << to_string(all[i]);
      hashes.insert(hash(all[i]));
    }
    EXPECT_EQ(hashes.size(), all.size()) << a.name;
    const std::vector<KernelConfig> legal = legal_configs(v, a);
    for (size_t i = 0; i < legal.size(); i += 1 + legal.size() / 2000) {
      std::string why;
      ASSERT_EQ(KernelConfig::parse(to_string(legal[i]), &why), legal[i]);
      ASSERT_EQ(config_from_json(to_json(legal[i])), legal[i]);
    }
  }
}

TEST(Enumerate, IsDeterministic) {
  for (const ArchSpec& a : all_archs()) {
    const GemmView v = view("gemm m=200 n=72 k=136 dtype=" + dtypes_of(a).back());
    EXPECT_TRUE(legal_configs(v, a) == legal_configs(v, a)) << a.name;
  }
}

// Every type an architecture lists has a kernel for every shape in layout rcr, and on a CPU in every layout.
TEST(Enumerate, EveryListedTypeHasALegalConfig) {
  for (const ArchSpec& a : all_archs()) {
    for (const std::string& type : dtypes_of(a)) {
      for (const char* shape : kShapes) {
        for (const char* layout : {" layout=rcr", " layout=rrr", " layout=crr", " layout=ccr"}) {
          const bool other = std::string(layout) != " layout=rcr";
          if (other &&
              (a.backend == BackendKind::hip || (a.backend == BackendKind::cuda && shape != kShapes[4])))
            continue;
          const std::string text = shape + (" dtype=" + type) + layout;
          EXPECT_FALSE(legal_configs(view(text), a).empty()) << a.name << ": " << text;
        }
      }
    }
  }
}

TEST(Enumerate, AmdTakesAlignedShapesInEveryLayout) {
  for (const ArchSpec& a : all_archs()) {
    if (a.backend != BackendKind::hip) continue;
    for (const std::string& type : dtypes_of(a)) {
      for (const char* layout : {"rcr", "rrr", "crr", "ccr"}) {
        const GemmView v = view("gemm m=128 n=256 k=128 dtype=" + type + " layout=" + layout);
        EXPECT_FALSE(legal_configs(v, a).empty()) << a.name << ' ' << type << ' ' << layout;
      }
    }
  }
}

TEST(Enumerate, PrepackedB) {
  for (const ArchSpec& a : all_archs()) {
    if (a.backend != BackendKind::cpu) continue;
    for (const std::string& type : dtypes_of(a)) {
      for (const char* shape : kShapes) {
        const GemmView v = view(shape + (" dtype=" + type) + " prepack=b");
        const auto legal = legal_configs(v, a);
        EXPECT_FALSE(legal.empty()) << a.name << ' ' << shape << ' ' << type;
        for (const KernelConfig& c : legal) EXPECT_EQ(c.preshuffle, 1);
      }
    }
  }
  for (const char* arch : {"gfx90a", "gfx942", "gfx950"}) {
    EXPECT_FALSE(legal_configs(view("gemm m=512 n=512 k=512 dtype=bf16 prepack=b"), find_arch(arch)).empty())
        << arch;
  }
}

// On a CUDA device what tma_ws does with B as it is, and nothing else.
TEST(Enumerate, PrepackedBOfTma) {
  const ArchSpec& a = find_arch("sm_90a");
  for (const char* shape : {"gemm m=512 n=512 k=512 dtype=bf16", "gemm m=8 n=777 k=1001 dtype=f16 layout=rrr",
                            "gemm m=65 n=1 k=33 dtype=bf16 layout=ccr", "gemm m=300 n=200 k=99 dtype=i8"}) {
    std::set<std::string> plain, packed;
    for (KernelConfig c : legal_configs(view(shape), a)) {
      c.preshuffle = 1;
      if (c.family_id() == Family::tma_ws) plain.insert(to_string(c));
    }
    for (const KernelConfig& c : legal_configs(view(std::string(shape) + " prepack=b"), a))
      packed.insert(to_string(c));
    EXPECT_FALSE(packed.empty()) << shape;
    EXPECT_EQ(packed, plain) << shape;
  }
  EXPECT_TRUE(legal_configs(view("gemm m=64 n=64 k=64 dtype=f32 prepack=b"), a).empty());
  EXPECT_TRUE(legal_configs(view("gemm m=64 n=64 k=64 dtype=f8e5m2 layout=rrr prepack=b"), a).empty());
}

TEST(Enumerate, AFamilyWithoutCandidatesSaysWhy) {
  const ArchSpec& a = find_arch("x86_amx");
  const GemmView v = view("gemm m=64 n=64 k=64 dtype=f32");
  int found = 0;
  for (const KernelConfig& c : candidates(v, a)) {
    if (c.family_id() != Family::cpu_amx) continue;
    ++found;
    EXPECT_EQ(rejected_by(v, c, a)->name, "types");
  }
  EXPECT_EQ(found, 1);
  EXPECT_EQ(candidates(view("gemm m=64 n=64 k=64 dtype=f32 prepack=b"), find_arch("sm_80")).size(), 2u);
}

// A CPU problem has enough candidates to choose from, and few enough that ranking them stays far below a
// millisecond.
TEST(Enumerate, CpuCandidateCounts) {
  for (const ArchSpec& a : all_archs()) {
    if (a.backend != BackendKind::cpu) continue;
    for (const std::string& type : dtypes_of(a)) {
      for (const char* shape : kShapes) {
        const size_t count = legal_configs(view(shape + (" dtype=" + type)), a).size();
        EXPECT_GE(count, 3u) << a.name << ' ' << shape << ' ' << type;
        EXPECT_LE(count, 1000u) << a.name << ' ' << shape << ' ' << type;
      }
    }
  }
}

TEST(Enumerate, SmallProblemsGetTilesThatFit) {
  const ArchSpec& a = find_arch("x86_avx512");
  for (const KernelConfig& c : legal_configs(view("gemm m=3 n=20 k=64 dtype=f32 layout=rrr"), a)) {
    EXPECT_LE(c.tile_n, 64);
    if (!c.swap_ab) {
      EXPECT_LE(c.tile_m, 4) << to_string(c);
      EXPECT_LE(c.tile_n, 32) << to_string(c);
    }
    EXPECT_EQ(c.block_m, 0) << to_string(c);
    EXPECT_EQ(c.block_k, 0) << to_string(c);
  }
}

// Those of cpu_scatter are of all taps of a coordinate, not of the few columns of C.
TEST(Enumerate, ProductsOfAllTapsGetTilesThatFit) {
  const auto widest = [](const std::string& problem) {
    int most = 0;
    for (const KernelConfig& c : legal_configs(view(problem + " dtype=f32"), find_arch("x86_avx512"))) {
      if (c.family_id() == Family::cpu_scatter) most = std::max(most, c.tile_n);
    }
    return most;
  };
  EXPECT_EQ(widest("conv_bwd_data n=2 c=3 k=16 in=32x32 filter=7x7 stride=2x2"), 64);
  EXPECT_EQ(widest("conv_bwd_data n=2 c=3 k=16 in=32x32 filter=3x3 stride=2x2"), 32);
  EXPECT_EQ(widest("conv_bwd_data n=2 c=1 k=16 in=32x32 filter=3x3 stride=2x2"), 16);
}

TEST(Enumerate, SplitKIsOfferedWhereCIsTooSmallForTheUnits) {
  auto most = [](const ArchSpec& a, const std::string& text) {
    int split = 0;
    for (const KernelConfig& c : legal_configs(view(text), a)) split = std::max(split, c.split_k);
    return split;
  };
  ArchSpec a = find_arch("x86_avx512");
  const std::string small = "gemm m=64 n=64 k=65536 dtype=f32",
                    large = "gemm m=1024 n=1024 k=65536 dtype=f32";
  a.compute_units = 1;
  EXPECT_EQ(most(a, small), 1);
  a.compute_units = 4;
  EXPECT_EQ(most(a, small), 4);
  EXPECT_EQ(most(a, large), 1);
  EXPECT_EQ(most(a, "gemm m=64 n=64 k=100 dtype=f32"), 1);
  a.compute_units = 64;
  EXPECT_EQ(most(a, small), 32);
  // Sixteen threads would take longer to start than to multiply.
  EXPECT_LE(most(a, "gemm m=16 n=16 k=1024 dtype=f32"), 4);
}

// Rules are applied at the first knob that decides them, never after the last.
TEST(Enumerate, PlansApplyEveryRuleOnce) {
  for (const FamilyInfo& f : families()) {
    const FamilyPlan& plan = family_plan(f.family);
    std::set<const Rule*> seen(plan.at_start.begin(), plan.at_start.end());
    size_t count = plan.at_start.size();
    for (const auto& level : plan.ready) {
      seen.insert(level.begin(), level.end());
      count += level.size();
    }
    EXPECT_EQ(seen.size(), count);
    for (const Rule& r : rules()) {
      EXPECT_EQ(seen.count(&r),
                r.families == ~uint32_t{0} || r.speaks_of(static_cast<int>(f.family)) ? 1u : 0u)
          << r.name;
    }
    // Crossing takes all but those that bounds stand for.
    std::set<const Rule*> taken;
    for (const FamilyPlan::Knob& knob : plan.crossed) {
      for (const FamilyPlan::Stage& stage : knob.stages)
        for (const Rule* r : stage.rules) EXPECT_TRUE(taken.insert(r).second) << r->name;
    }
    for (const auto& level : plan.ready)
      for (const Rule* r : level) EXPECT_EQ(taken.count(r), r->each ? 0u : 1u) << r->name;
  }
}

}  // namespace
}  // namespace tessera
