#include "base/parallel.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "sanitized.h"
#include "tessera/error.h"

namespace tessera {
namespace {

TEST(Parallel, EveryIndexOnce) {
  for (int jobs : {0, 1, 3, 100}) {
    std::vector<std::atomic<int>> seen(50);
    in_parallel(seen.size(), jobs, [&](size_t i) { ++seen[i]; });
    for (const std::atomic<int>& n : seen) EXPECT_EQ(n, 1) << jobs;
  }
  in_parallel(0, 4, [](size_t) { ADD_FAILURE(); });
}

TEST(Parallel, OneJobIsTheCaller) {
  in_parallel(
      5, 1, [caller = std::this_thread::get_id()](size_t) { EXPECT_EQ(std::this_thread::get_id(), caller); });
}

// Each index waits for the others, which fewer threads would never end.
TEST(Parallel, AsManyThreadsAsJobs) {
  constexpr size_t kJobs = 6;
  std::mutex mutex;
  std::condition_variable met;
  std::set<std::thread::id> threads;
  in_parallel(kJobs, kJobs, [&](size_t) {
    std::unique_lock lock(mutex);
    threads.insert(std::this_thread::get_id());
    met.notify_all();
    EXPECT_TRUE(met.wait_for(lock, std::chrono::seconds(30), [&] { return threads.size() == kJobs; }));
  });
  EXPECT_EQ(threads.count(std::this_thread::get_id()), 1u);
}

TEST(Parallel, ThreadsThatCannotBeHadAreRefused) {
  need_threads(0);
  need_threads(8);
  if (TESSERA_SANITIZED) GTEST_SKIP() << "sanitizers take all addresses";
  const pid_t child = fork();
  if (child == 0) {  // stacks of a thousand threads need more
    const rlimit addresses{size_t{1} << 30, size_t{1} << 30};
    setrlimit(RLIMIT_AS, &addresses);
    try {
      need_threads(1000);
    } catch (const Error& e) { _exit(e.code() == ErrorCode::device ? 42 : 1); }
    _exit(2);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 42);
}

TEST(Parallel, AnExceptionEndsTheLoopAndComesOut) {
  constexpr int kCount = 10000;  // of a millisecond each
  for (int jobs : {1, 4}) {
    std::atomic<int> begun{0};
    EXPECT_THROW(in_parallel(kCount, jobs,
                             [&](size_t i) {
                               ++begun;
                               if (i == 3) throw std::runtime_error("three");
                               std::this_thread::sleep_for(std::chrono::milliseconds(1));
                             }),
                 std::runtime_error);
    EXPECT_LT(begun, kCount) << jobs;
  }
}

}  // namespace
}  // namespace tessera
