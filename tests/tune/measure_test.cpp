#include "tune/measure.h"

#include <gtest/gtest.h>

#include <chrono>

namespace tessera {
namespace {

void spin_us(double us) {
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::nanoseconds(static_cast<int64_t>(us * 1e3));
  while (std::chrono::steady_clock::now() < end) {}
}

Repeated spinning(double us) {
  return [us](int repeats) {
    for (int i = 0; i < repeats; ++i) spin_us(us);
  };
}

TEST(Measure, TellsFastFromSlow) {
  const std::vector<Repeated> work = {spinning(20), spinning(60)};
  const auto t = measure(work, {.batch_us = 200, .budget_ms = 20});
  EXPECT_GE(t[0].best_us, 20);
  EXPECT_GE(t[1].best_us, 60);
  EXPECT_LT(t[0].best_us, t[1].best_us);
  EXPECT_GE(t[0].median_us, t[0].best_us);
  EXPECT_GE(t[0].samples, 5);
}

TEST(Measure, TinyWorkIsRepeatedUntilTheClockResolvesIt) {
  int most = 0;
  const std::vector<Repeated> work = {[&](int repeats) {
    most = std::max(most, repeats);
    for (int i = 0; i < repeats; ++i) asm volatile("");
  }};
  const auto t = measure(work, {.batch_us = 500, .budget_ms = 5});
  EXPECT_GT(most, 1000);
  EXPECT_LT(t[0].best_us, 0.1);
  EXPECT_GT(t[0].best_us, 0);
}

TEST(Measure, GivesUpOnTheSlowAndEndsWhenSure) {
  const std::vector<Repeated> work = {spinning(20), spinning(90)};
  std::vector<size_t> told;
  const auto t = measure(
      work, {.batch_us = 100, .budget_ms = 20, .min_rounds = 3, .give_up_at = 3, .before = [&](size_t i) {
               told.push_back(i);
             }});
  EXPECT_EQ(t[1].samples, 3);
  EXPECT_GT(t[0].samples, 3);
  EXPECT_EQ(t[0].all.size(), static_cast<size_t>(t[0].samples));
  EXPECT_EQ(told.size(), static_cast<size_t>(2 + t[0].samples + t[1].samples));
  const auto sure = measure({work.data(), 1}, {.batch_us = 100, .budget_ms = 1e4, .precision = 0.5});
  EXPECT_EQ(sure[0].samples, 5);
}

TEST(Measure, TheSlowGetTheirRoundsToo) {
  const std::vector<Repeated> work = {spinning(20), spinning(400)};
  const auto t =
      measure(work, {.batch_us = 100, .budget_ms = 1e4, .min_rounds = 4, .max_rounds = 6, .give_up_at = 1.5});
  EXPECT_EQ(t[0].samples, 6);
  EXPECT_EQ(t[1].samples, 4);
}

TEST(Measure, OneSampleBeyondTheBudgetIsEnoughOfTheSlow) {
  const std::vector<Repeated> work = {spinning(20), spinning(6000)};
  const auto t = measure(work, {.batch_us = 100, .budget_ms = 2, .min_rounds = 4, .give_up_at = 1.5});
  EXPECT_LT(t[1].samples, 4);
  EXPECT_GE(t[0].samples, 4);
  const auto alone = measure({&work[1], 1}, {.budget_ms = 2, .min_rounds = 3, .give_up_at = 1.5});
  EXPECT_EQ(alone[0].samples, 3);
}

TEST(Measure, OtherWorkIsNoMeasureForTheRest) {
  for (const double other : {10.0, 900.0}) {
    const std::vector<Repeated> work = {spinning(90), spinning(100), spinning(other)};
    const auto t = measure(
        work,
        {.batch_us = 100, .budget_ms = 1e4, .min_rounds = 3, .max_rounds = 6, .give_up_at = 3, .apart = 2});
    for (const Timing& x : t) EXPECT_EQ(x.samples, 6) << other;
  }
}

TEST(Measure, WorkMayBringItsOwnClock) {
  const std::vector<SelfTimed> work = {[](int repeats) { return 7.0 * repeats; },
                                       [](int repeats) { return 50.0 * repeats; }};
  const auto t =
      measure_self_timed(work, {.batch_us = 300, .budget_ms = 1, .min_rounds = 3, .max_rounds = 5});
  EXPECT_DOUBLE_EQ(t[0].median_us, 7);
  EXPECT_DOUBLE_EQ(t[1].best_us, 50);
}

TEST(Measure, NothingToMeasure) { EXPECT_TRUE(measure({}).empty()); }

}  // namespace
}  // namespace tessera
