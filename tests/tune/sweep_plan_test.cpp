#include "tune/sweep_plan.h"

#include <gtest/gtest.h>

#include <set>

#include "codegen/render.h"
#include "core/gemm_view.h"
#include "runtime/pack.h"
#include "space/space.h"
#include "tessera/error.h"
#include "tune/problem_generator.h"

namespace tessera {
namespace {

const ArchSpec& arch() { return find_arch("x86_avx512"); }

std::vector<SuiteRow> rows() {
  return {{"a.one", Problem::parse("gemm m=64 n=64 k=64 dtype=f32")},
          {"a.two", Problem::parse("gemm m=1 n=300 k=70 dtype=f32")},
          {"a.again", Problem::parse("gemm m=64 n=64 k=64 dtype=f32")}};
}

SweepPlan planned(const std::string& strategy, uint64_t seed = 1) {
  return plan_sweep(rows(), "cpu", 1, arch(), {strategy, "", seed});
}

TEST(SweepPlan, AllIsEveryLegalConfigurationOnce) {
  const SweepPlan plan = planned("all");
  ASSERT_EQ(plan.problems.size(), 2u);  // one of the rows is there twice
  for (const SweepProblem& p : plan.problems) {
    EXPECT_EQ(p.configs.size(), legal_configs(lower(p.problem), arch()).size());
    EXPECT_EQ(std::set<size_t>(p.configs.begin(), p.configs.end()).size(), p.configs.size());
  }
}

TEST(SweepPlan, StrategiesChooseSoManyOfTheLegalOnes) {
  const SweepPlan all = planned("all");
  for (const char* strategy : {"random:9", "stratified:9", "guided:9"}) {
    const SweepPlan plan = planned(strategy);
    for (size_t i = 0; i < plan.problems.size(); ++i) {
      std::set<std::string> legal, chosen;
      for (size_t c : all.problems[i].configs) legal.insert(to_string(all.configs[c]));
      for (size_t c : plan.problems[i].configs) chosen.insert(to_string(plan.configs[c]));
      // guided leaves out the hopeless among those it draws
      if (strategy != std::string("guided:9")) { EXPECT_EQ(chosen.size(), 9u) << strategy; }
      EXPECT_LE(chosen.size(), 9u) << strategy;
      EXPECT_GE(chosen.size(), 6u) << strategy;
      for (const std::string& c : chosen) EXPECT_TRUE(legal.count(c)) << strategy << ' ' << c;
    }
    EXPECT_EQ(to_json(planned(strategy)).dump(), to_json(plan).dump()) << strategy;
  }
  EXPECT_NE(to_json(planned("random:9", 2)).dump(), to_json(planned("random:9")).dump());
}

TEST(SweepPlan, StratifiedMeetsEveryFamily) {
  std::set<int> legal, chosen;
  const SweepPlan all = planned("all"), plan = planned("stratified:24");
  for (size_t c : all.problems[0].configs) legal.insert(all.configs[c].family);
  for (size_t c : plan.problems[0].configs) chosen.insert(plan.configs[c].family);
  EXPECT_EQ(chosen, legal);
}

TEST(SweepPlan, FewKernelsThatServeManyProblems) {
  std::vector<SuiteRow> many;
  for (int m = 8; m <= 128; m += 8)
    many.push_back({"many", Problem::parse("gemm m=" + std::to_string(m) + " n=256 k=256 dtype=bf16")});
  const ArchSpec& gpu = find_arch("sm_90a");
  const auto kernels = [&](const SweepPlan& plan) {
    std::set<std::string> out;
    for (const SweepProblem& p : plan.problems) {
      for (size_t c : p.configs) out.insert(unit_key(render(lower(p.problem), plan.configs[c], gpu)));
    }
    return out.size();
  };
  SweepCandidates candidates{"guided:20", "", 1};
  const SweepPlan free = plan_sweep(many, "null:sm_90a", 0, gpu, candidates);
  candidates.kernels = 24;
  const SweepPlan few = plan_sweep(many, "null:sm_90a", 0, gpu, candidates);
  EXPECT_GT(kernels(free), 48u);
  EXPECT_LE(kernels(few), 24u);
  EXPECT_EQ(few.problems.size(), many.size());  // none is left with nothing
  EXPECT_GT(few.pairs() * kernels(free), free.pairs() * kernels(few));
  candidates.kernels = 100000;
  EXPECT_EQ(to_json(plan_sweep(many, "null:sm_90a", 0, gpu, candidates)).dump(), to_json(free).dump());
}

TEST(SweepPlan, JsonRoundTrip) {
  const SweepPlan plan = planned("guided:5");
  EXPECT_EQ(to_json(sweep_plan_from_json(Json::parse(to_json(plan).dump()))).dump(), to_json(plan).dump());
}

TEST(SweepPlan, RefusesWhatItDoesNotKnow) {
  for (const char* strategy : {"some", "random", "random:0", "random:x", "all:3", "guided:-1"})
    EXPECT_THROW(planned(strategy), Error) << strategy;
  Json json = to_json(planned("random:2"));
  json.set("version", 99);
  EXPECT_THROW(sweep_plan_from_json(json), Error);
}

TEST(SweepPlan, MergeIsTheUnion) {
  const SweepPlan some = planned("random:5"), all = planned("all");
  const SweepPlan merged = merge_plans({some, all});
  EXPECT_EQ(merged.problems.size(), all.problems.size());
  EXPECT_EQ(merged.pairs(), all.pairs());
  SweepPlan other = some;
  other.arch = "another";
  EXPECT_THROW(merge_plans({some, other}), Error);
}

TEST(ProblemGenerator, IsReproducibleAndBounded) {
  GeneratorOptions o{.dtypes = {"f32", "bf16"}, .layouts = {"rcr", "rrr"}, .max_flops = 1e8};
  for (const char* spec :
       {"wide:50", "edges:50", "linear:50", "conv_fwd:50", "conv_bwd_data:50", "conv_bwd_weight:50"}) {
    const auto rows = generate_problems(spec, o), again = generate_problems(spec, o);
    ASSERT_EQ(rows.size(), 50u);
    std::set<std::string> texts;
    for (size_t i = 0; i < rows.size(); ++i) {
      EXPECT_TRUE(!is_conv(rows[i].problem.op) || spec == std::string(to_string(rows[i].problem.op)) + ":50");
      EXPECT_EQ(rows[i].problem, again[i].problem);
      EXPECT_LE(lower(rows[i].problem).flops(), 1e8);
      texts.insert(to_string(rows[i].problem));
    }
    EXPECT_EQ(texts.size(), 50u);
    o.seed = 2;
    EXPECT_NE(to_string(generate_problems(spec, o)[0].problem), to_string(rows[0].problem));
    o.seed = 1;
  }
  EXPECT_THROW(generate_problems("deep:3", o), Error);
  EXPECT_THROW(generate_problems("wide", o), Error);
}

}  // namespace
}  // namespace tessera
