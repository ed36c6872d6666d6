#include "backend/cpu/deal_out.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "sanitized.h"
#include "tessera/error.h"

namespace tessera {
namespace {

template <class Deal>
void expect_each_once(const Deal& deal) {
  for (const int64_t count : {0, 1, 2, 5, 16, 100}) {
    for (const int threads : {1, 2, 3, 8}) {
      std::vector<std::atomic<int>> done(static_cast<size_t>(count));
      std::atomic<bool> beyond{false};
      deal(count, threads, [&](int64_t i, int thread) {
        ++done[static_cast<size_t>(i)];
        if (thread < 0 || thread >= std::min<int64_t>(threads, count)) beyond = true;
      });
      for (const auto& times : done) EXPECT_EQ(times, 1) << count << " on " << threads;
      EXPECT_FALSE(beyond) << count << " on " << threads;
    }
  }
}

TEST(DealOut, EveryTaskOnceOnThreadsThatAreCounted) {
  expect_each_once([](auto... all) { deal_out(all...); });
  expect_each_once([](auto... all) { deal_out_in_turn(all...); });
}

// Also where a region gets fewer threads than it asks for, within another one.
TEST(DealOut, WithinARegion) {
#pragma omp parallel num_threads(2)
  expect_each_once([](auto... all) { deal_out(all...); });
}

TEST(DealOut, AThreadsTasksAreTheSameInEveryRun) {
  std::vector<int> first(37, -1), second(37, -1);
  deal_out(37, 4, [&](int64_t i, int thread) { first[static_cast<size_t>(i)] = thread; });
  deal_out(3, 2, [](int64_t, int) {});
  deal_out(37, 4, [&](int64_t i, int thread) { second[static_cast<size_t>(i)] = thread; });
  EXPECT_EQ(first, second);
}

// Regions never shrink: the run time would end threads, and start them again.
TEST(DealOut, TeamsOfAThreadNeverShrink) {
  std::thread([] {
    EXPECT_EQ(team_for(3), 3);
    EXPECT_EQ(team_for(2), 3);
    EXPECT_EQ(team_for(5), 5);
    EXPECT_EQ(team_for(1), 5);
  }).join();
}

TEST(DealOut, AForkedChildDoesNotWaitForThreadsItLacks) {
  if (TESSERA_SANITIZED) GTEST_SKIP() << "a sanitizer's runtime refuses forks of a process with threads";
  deal_out(4, 2, [](int64_t, int) {});
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);
    int done = 0;
    deal_out(4, 1, [&](int64_t, int) { ++done; });
    if (done != 4) _exit(1);
    try {
      deal_out(4, 2, [](int64_t, int) {});
    } catch (const Error& e) { _exit(e.code() == ErrorCode::device ? 0 : 2); }
    _exit(3);
  }
  int status = 1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace tessera
