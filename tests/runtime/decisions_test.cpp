// Stored decisions go before the policy, where the policy says so and the configuration still serves.
#include <gtest/gtest.h>

#include "runtime/selection.h"
#include "tessera/dispatcher.h"
#include "tessera/error.h"
#include "tessera/registry.h"

namespace tessera {
namespace {

const Problem kProblem = Problem::parse("gemm m=64 n=64 k=64 dtype=f32");

struct One : Decisions {
  explicit One(const std::string& text) : config(*KernelConfig::parse(text, &why)) {}
  std::optional<Choice> find(const std::string& arch, int units, const Problem& problem) const override {
    EXPECT_EQ(arch, "x86_avx512");
    EXPECT_GE(units, 1);
    if (problem != kProblem) return std::nullopt;
    return Choice{config, 1, ChoiceSource::tuned};
  }
  std::string why;
  KernelConfig config;
};

DispatcherOptions options(Policy policy, const std::string& config) {
  DispatcherOptions o{.device = "null:x86_avx512", .policy = policy};
  if (!config.empty()) o.decisions = std::make_shared<One>(config);
  return o;
}

// A legal configuration that the model does not choose.
std::string unlikely() {
  const Explanation e = Dispatcher(options(Policy::model, "")).explain(kProblem);
  return to_string(e.candidates.back().config);
}

TEST(Decisions, GoBeforeTheModel) {
  for (Policy p : {Policy::model, Policy::model_topk, Policy::tuned}) {
    Dispatcher d(options(p, unlikely()));
    const Explanation e = d.explain(kProblem);
    EXPECT_EQ(to_string(e.choice.config), unlikely());
    EXPECT_EQ(e.choice.source, ChoiceSource::tuned);
    EXPECT_EQ(e.candidates.size() > 1, p != Policy::tuned);
    EXPECT_EQ(to_string(d.select(kProblem).config), unlikely());
  }
  EXPECT_NE(Dispatcher(options(Policy::first_legal, unlikely())).select(kProblem).source,
            ChoiceSource::tuned);
}

TEST(Decisions, OfAnotherProblemSayNothing) {
  const Problem other = Problem::parse("gemm m=65 n=64 k=64 dtype=f32");
  EXPECT_EQ(Dispatcher(options(Policy::model, unlikely())).select(other).source, ChoiceSource::model);
  EXPECT_THROW(Dispatcher(options(Policy::tuned, unlikely())).select(other), Error);
}

TEST(Decisions, ThatAreNotLegalOrNotDeclaredCountAsAbsent) {
  const std::string illegal = "cpu_packed tile=99x64 inst=1x16x1";
  EXPECT_EQ(Dispatcher(options(Policy::model, illegal)).select(kProblem).source, ChoiceSource::model);
  EXPECT_THROW(Dispatcher(options(Policy::tuned, illegal)).select(kProblem), Error);
  DispatcherOptions o = options(Policy::model, unlikely());
  o.registry = Registry::parse("exact cpu_packed tile=6x64 inst=1x16x1");
  EXPECT_EQ(to_string(Dispatcher(o).select(kProblem).config), "cpu_packed tile=6x64 inst=1x16x1");
}

TEST(Raced, AsManyAsTheModelMayConfuse) {
  std::vector<Candidate> c;
  for (double us : {10.0, 10.4, 10.9, 11.2, 14.0}) c.push_back({{}, us});
  const auto count = [&](int top_k, double band) { return raced({.top_k = top_k}, band, c); };
  EXPECT_EQ(count(0, 0), 1u);
  EXPECT_EQ(count(0, 0.05), 2u);
  EXPECT_EQ(count(0, 0.1), 3u);
  EXPECT_EQ(count(0, 1), 5u);
  EXPECT_EQ(count(2, 0), 2u) << "asked for";
  EXPECT_EQ(count(9, 0), 5u);
  c.assign(100, {{}, 1.0});
  EXPECT_EQ(count(0, 0.1), static_cast<size_t>(kMostRaced));
}

}  // namespace
}  // namespace tessera
