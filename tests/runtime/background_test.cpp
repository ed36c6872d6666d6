// model_topk that answers at once: the best predicted first, the fastest measured from then on.
#include "runtime/background.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "backend/backend.h"
#include "base/fs.h"
#include "base/interrupt.h"
#include "base/process.h"
#include "codegen/render.h"
#include "sanitized.h"
#include "tessera/dispatcher.h"
#include "tessera/error.h"
#include "tessera/registry.h"
#include "variable.h"

namespace tessera {
namespace {

using namespace std::chrono_literals;

TEST(Background, RunsJobsInTheirOrderAndEndsItsThread) {
  Background b;
  std::vector<int> order;
  std::atomic<std::thread::id> first, again;
  for (int i = 0; i < 5; ++i) {
    b.add([&, i] {
      order.push_back(i);
      first = std::this_thread::get_id();
      if (i == 2) throw std::runtime_error("a job's own affair");
    });
  }
  b.settle();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4}));
  EXPECT_EQ(b.pending(), 0u);
  b.add([&] { again = std::this_thread::get_id(); });
  b.settle();
  EXPECT_NE(again.load(), std::thread::id());
  EXPECT_NE(again.load(), std::this_thread::get_id());
}

TEST(Background, DestructionCallsOffTheJobUnderWayAndDropsTheRest) {
  std::atomic<bool> begun{false}, stopped{false}, second{false};
  {
    Background b;
    b.add([&] {
      begun = true;
      while (!interrupted()) std::this_thread::sleep_for(1ms);
      stopped = true;
    });
    b.add([&] { second = true; });
    while (!begun) std::this_thread::sleep_for(1ms);
    EXPECT_FALSE(interrupted()) << "the stop is the jobs' alone";
    EXPECT_EQ(b.pending(), 2u);
  }
  EXPECT_TRUE(stopped);
  EXPECT_FALSE(second);
  EXPECT_FALSE(interrupted());
}

TEST(Background, DestructionKillsAProgramUnderWay) {
  std::atomic<bool> begun{false};
  ProcessResult result;
  const auto start = std::chrono::steady_clock::now();
  {
    Background b;
    b.add([&] {
      begun = true;
      result = run_process({"sleep", "60"}, "", 100);
    });
    while (!begun) std::this_thread::sleep_for(1ms);
  }
  EXPECT_EQ(result.end, ProcessResult::End::interrupted);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 30s);
}

TEST(Background, AForkedChildLeavesItAlone) {
  if (TESSERA_SANITIZED) GTEST_SKIP() << "a sanitizer's runtime refuses forks of a process with threads";
  std::atomic<bool> begun{false}, go{false};
  auto* const b = new Background;
  b->add([&] {
    begun = true;
    while (!go && !interrupted()) std::this_thread::sleep_for(1ms);
  });
  while (!begun) std::this_thread::sleep_for(1ms);
  const pid_t pid = fork();
  if (pid == 0) {
    alarm(30);  // a wait for the thread, which is not here, would have no end
    delete b;
    _exit(0);
  }
  int status = 1;
  waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
  go = true;
  b->settle();
  delete b;
}

// Two kernels of which the far slower one is preferred: that one answers at first.
class TopK : public testing::Test {
 protected:
  const Problem problem_ = Problem::parse("gemm m=384 n=384 k=384 dtype=f32 layout=rrr");

  DispatcherOptions options() {
    DispatcherOptions o{.threads = 1, .policy = Policy::model_topk, .top_k = 2};
    o.registry = std::make_shared<Registry>("two");
    const auto all = Dispatcher({.threads = 1}).explain(problem_).candidates;
    fast_ = to_string(all[0].config);
    for (const Candidate& c : all) {
      const std::string text = to_string(c.config);
      if (c.predicted_us > slow_us_) {
        slow_us_ = c.predicted_us;
        slow_ = text;
      }
    }
    o.registry->add({.config = fast_, .exact = true});
    o.registry->add({.config = slow_, .exact = true, .priority = 1});
    return o;
  }

  bool right(const Kernel& kernel) const {
    const std::vector<float> a(384 * 384, 1.f), b(384 * 384, 2.f);
    std::vector<float> c(384 * 384, -1.f);
    kernel.run({.a = a.data(), .b = b.data(), .c = c.data()});
    return c == std::vector<float>(c.size(), 768.f);
  }

  std::string fast_, slow_;
  double slow_us_ = 0;
};

TEST_F(TopK, TheFirstAnswersAndTheFastestTakesItsPlace) {
  Dispatcher d(options());
  ASSERT_NE(fast_, slow_);
  const Kernel& first = d.get(problem_);
  EXPECT_EQ(to_string(first.choice().config), slow_);
  EXPECT_EQ(first.choice().source, ChoiceSource::model);
  d.settle();
  EXPECT_EQ(d.refining(), 0u);
  BuildInfo info;
  const Kernel& then = d.get(problem_, &info);
  EXPECT_EQ(to_string(then.choice().config), fast_);
  EXPECT_EQ(then.choice().source, ChoiceSource::measured);
  EXPECT_EQ(info.from, BuildInfo::From::memory);
  EXPECT_NE(&first, &then);
  EXPECT_EQ(&d.get(problem_), &then);
  EXPECT_TRUE(right(first)) << "what was got stays";
  EXPECT_TRUE(right(then));
}

TEST_F(TopK, ManyThreadsGetOneKernelWhileItIsReplaced) {
  Dispatcher d(options());
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      while (d.get(problem_).choice().source != ChoiceSource::measured) std::this_thread::sleep_for(1ms);
      if (!right(d.get(problem_))) ++wrong;
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  d.settle();
  EXPECT_EQ(to_string(d.get(problem_).choice().config), fast_);
}

// What is told to keep is what the dispatcher goes on with.
struct Kept : Decisions {
  std::optional<Choice> find(const std::string&, int, const Problem&) const override { return std::nullopt; }
  void keep(const std::string& arch, int units, const Problem& problem, const Choice& choice) const override {
    std::lock_guard lock(mutex);
    all.push_back(arch + ' ' + std::to_string(units) + ' ' + to_string(problem) + " -> " +
                  to_string(choice.config));
    us = choice.predicted_us;
  }
  mutable std::mutex mutex;
  mutable std::vector<std::string> all;
  mutable double us = 0;
};

TEST_F(TopK, TheWinnerIsToldToTheDecisions) {
  for (bool background : {true, false}) {
    DispatcherOptions o = options();
    o.background = background;
    const auto kept = std::make_shared<Kept>();
    o.decisions = kept;
    Dispatcher d(o);
    d.get(problem_);
    d.settle();
    const std::string arch = d.describe().at("arch").as_string();
    ASSERT_EQ(kept->all.size(), 1u);
    EXPECT_EQ(kept->all[0],
              arch + " 1 " + to_string(problem_) + " -> " + to_string(d.get(problem_).choice().config));
    EXPECT_GT(kept->us, 0);
  }
}

TEST_F(TopK, WithoutBackgroundTheFirstGetWaits) {
  DispatcherOptions o = options();
  o.background = false;
  Dispatcher d(o);
  EXPECT_EQ(to_string(d.get(problem_).choice().config), fast_);
  EXPECT_EQ(d.get(problem_).choice().source, ChoiceSource::measured);
  EXPECT_EQ(d.refining(), 0u);
}

TEST_F(TopK, WithoutBackgroundWhatDoesNotCompileIsLeftOut) {
  // No standard pack has its kernels.
  const Problem problem = Problem::parse("gemm m=384 n=384 k=384 dtype=f32 layout=rrr epilogue=relu,relu");
  DispatcherOptions o = options();
  o.background = false;
  const TempDir dir(temp_directory());
  o.cache_dir = dir.path() + "/cache";
  const auto compiler = [&](const std::string& refused) {
    const std::string path = dir.path() + "/refusing-c++";
    write_file(path,
               "#!/bin/sh\ncase \"$*\" in *\" -o \"*) ;; *) exec g++ \"$@\" ;; esac\n"
               "cat >\"$TMPDIR/unit\"\nif grep -q '" +
                   refused +
                   "' \"$TMPDIR/unit\"; then\n"
                   "  echo '<stdin>:1:1: error: not this one' >&2\n  exit 1\nfi\n"
                   "exec g++ \"$@\" <\"$TMPDIR/unit\"\n");
    chmod(path.c_str(), 0700);
    return path;
  };
  std::string why;
  const std::string symbol =
      render(lower(problem), *KernelConfig::parse(fast_, &why), make_backend("cpu", 1)->arch()).symbol;
  {
    const Variable cxx("TESSERA_CXX", compiler(symbol));
    Dispatcher d(o);
    const Kernel& kernel = d.get(problem);
    EXPECT_EQ(to_string(kernel.choice().config), slow_);
    EXPECT_EQ(kernel.choice().source, ChoiceSource::measured);
    EXPECT_TRUE(right(kernel));
  }
  o.cache_dir = dir.path() + "/other";
  const Variable cxx("TESSERA_CXX", compiler("."));
  Dispatcher d(o);
  EXPECT_THROW(d.get(problem), Error) << "none is left";
}

TEST_F(TopK, PackedOperandsAreOfOneKernel) {
  Dispatcher d({.threads = 1, .policy = Policy::model_topk, .top_k = 2});
  const Problem packed = Problem::parse("gemm m=32 n=64 k=48 dtype=f32 layout=rrr prepack=b");
  const Kernel& kernel = d.get(packed);
  EXPECT_EQ(kernel.choice().source, ChoiceSource::measured);
  d.settle();
  EXPECT_EQ(&d.get(packed), &kernel);
}

TEST_F(TopK, AnInterruptLeavesTheFirst) {
  Dispatcher d(options());
  const Kernel& first = d.get(problem_);
  set_interrupted(true);
  d.settle();
  set_interrupted(false);
  const Kernel& then = d.get(problem_);
  EXPECT_TRUE(&first == &then || then.choice().source == ChoiceSource::measured);
  EXPECT_TRUE(right(then));
}

}  // namespace
}  // namespace tessera
