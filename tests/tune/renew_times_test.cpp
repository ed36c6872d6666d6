#include "tune/renew_times.h"

#include <gtest/gtest.h>

#include <map>

#include "tessera/error.h"

namespace tessera {
namespace {

using Times = std::vector<std::pair<std::string, double>>;

const std::string kSmall = "gemm m=66 n=70 k=90 dtype=f32", kLarge = "gemm m=512 n=512 k=512 dtype=f32",
                  kOther = "gemm m=64 n=64 k=64 dtype=f32";
const std::string kP4 = "cpu_packed tile=4x32 inst=1x16x1", kP6 = "cpu_packed tile=6x32 inst=1x16x1",
                  kP8 = "cpu_packed tile=8x32 inst=1x16x1", kP5 = "cpu_packed tile=5x64 inst=1x16x1",
                  kD1 = "cpu_dot tile=1x4 inst=1x16x1", kD2 = "cpu_dot tile=2x4 inst=1x16x1";

TrainingData data(const std::vector<std::pair<std::string, Times>>& problems,
                  const char* operation = "gemm") {
  TrainingData out{find_arch("x86_avx512"), operation, {}, {}};
  out.arch.compute_units = 1;
  for (const auto& [text, times] : problems) {
    std::vector<KernelConfig> configs;
    std::vector<double> us;
    for (const auto& [config, time] : times) {
      std::string why;
      const auto parsed = KernelConfig::parse(config, &why);
      EXPECT_TRUE(parsed) << why;
      configs.push_back(parsed.value());
      us.push_back(time);
    }
    out.add(Problem::parse(text), configs, us);
  }
  return out;
}

std::map<std::string, double> times(const TrainingData& d, const std::string& problem) {
  std::map<std::string, double> out;
  for (const MeasuredProblem& p : d.problems) {
    if (to_string(p.problem) != to_string(Problem::parse(problem))) continue;
    for (size_t i = 0; i < p.configs.size(); ++i) out[to_string(p.configs[i])] = p.us[i];
  }
  return out;
}

TEST(RenewTimes, WhatIsNewCountsAndOlderTimesComeToItsLevel) {
  TrainingData old = data({{kLarge, {{kP4, 10}, {kP6, 20}, {kP8, 40}, {kP5, 8}, {kD1, 100}, {kD2, 120}}},
                           {kSmall, {{kP4, 1}, {kD1, 2}}}});
  // Packed kernels take 1.5, 2 and 3 times as long as then, the dot kernel half.
  const Renewal done = renew(old, data({{kLarge, {{kP4, 15}, {kP6, 40}, {kP8, 120}, {kD1, 50}}}}));
  EXPECT_EQ(done.added, 0u);
  EXPECT_EQ(done.renewed, 1u);
  EXPECT_EQ(done.levelled, 2u);
  EXPECT_EQ(done.level, 2);
  EXPECT_EQ(times(old, kLarge), (std::map<std::string, double>{
                                    {kP4, 15}, {kP6, 40}, {kP8, 120}, {kP5, 16}, {kD1, 50}, {kD2, 60}}));
  EXPECT_EQ(times(old, kSmall), (std::map<std::string, double>{{kP4, 1}, {kD1, 2}}));
  for (const MeasuredProblem& p : old.problems)
    EXPECT_EQ(p.best_us, *std::min_element(p.us.begin(), p.us.end()));
}

TEST(RenewTimes, AFamilyThatWasNotMeasuredAgainFollowsTheOthers) {
  TrainingData old = data({{kLarge, {{kP4, 10}, {kP6, 20}, {kD1, 100}}}});
  renew(old, data({{kLarge, {{kP4, 12}, {kP6, 24}}}}));
  EXPECT_DOUBLE_EQ(times(old, kLarge)[kD1], 120);
}

TEST(RenewTimes, OlderTimesMayStay) {
  TrainingData old = data({{kLarge, {{kP4, 10}, {kP6, 20}, {kD1, 100}}}});
  const Renewal done = renew(old, data({{kLarge, {{kP4, 5}}}}), false);
  EXPECT_EQ(done.renewed, 1u);
  EXPECT_EQ(done.levelled, 0u);
  EXPECT_DOUBLE_EQ(times(old, kLarge)[kP4], 5);
  EXPECT_DOUBLE_EQ(times(old, kLarge)[kP6], 20);
  EXPECT_DOUBLE_EQ(times(old, kLarge)[kD1], 100);
}

TEST(RenewTimes, NewProblemsComeInOrderAndAProblemWithNothingTwiceFollowsTheSweep) {
  TrainingData old = data({{kLarge, {{kP4, 10}, {kP6, 20}, {kD1, 60}}}, {kSmall, {{kP4, 1}, {kD2, 2}}}});
  const Renewal done = renew(old, data({{kOther, {{kP4, 3}, {kD1, 4}}},
                                        {kLarge, {{kP4, 15}, {kP6, 30}, {kD1, 30}}},
                                        {kSmall, {{kP8, 5}, {kD1, 6}}}}));
  EXPECT_EQ(done.added, 1u);
  EXPECT_EQ(done.renewed, 2u);
  EXPECT_EQ(done.levelled, 2u);
  EXPECT_EQ(times(old, kSmall), (std::map<std::string, double>{{kP8, 5}, {kD1, 6}, {kP4, 1.5}, {kD2, 1}}));
  EXPECT_EQ(times(old, kOther), (std::map<std::string, double>{{kP4, 3}, {kD1, 4}}));
  ASSERT_EQ(old.problems.size(), 3u);
  for (size_t i = 1; i < 3; ++i)
    EXPECT_LT(to_string(old.problems[i - 1].problem), to_string(old.problems[i].problem));
}

TEST(RenewTimes, WithNothingMeasuredTwiceOlderTimesStay) {
  TrainingData old = data({{kSmall, {{kP4, 1}, {kP6, 2}}}});
  EXPECT_EQ(renew(old, data({{kSmall, {{kD1, 5}, {kD2, 6}}}})).level, 1);
  EXPECT_EQ(times(old, kSmall), (std::map<std::string, double>{{kP4, 1}, {kP6, 2}, {kD1, 5}, {kD2, 6}}));
}

TEST(RenewTimes, TimesOfAnotherKindAreRefused) {
  TrainingData old = data({{kSmall, {{kP4, 1}, {kP6, 2}}}});
  const auto refused = [&](const TrainingData& newer) {
    try {
      renew(old, newer);
      return std::string("taken");
    } catch (const Error& e) { return std::string(e.what()); }
  };
  TrainingData newer = old;
  newer.arch.compute_units = 2;
  EXPECT_NE(refused(newer).find("times of another number of units: 1, and now 2"), std::string::npos);
  EXPECT_NE(refused(data({{kSmall, {{kP4, 1}, {kP6, 2}}}}, "conv_fwd")).find("another operation"),
            std::string::npos);
  newer = old;
  newer.arch = find_arch("x86_avx2");
  EXPECT_NE(refused(newer).find("another architecture"), std::string::npos);
}

}  // namespace
}  // namespace tessera
