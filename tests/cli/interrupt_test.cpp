// Ctrl-C while a verb works: it stops within a second, exits with 130 and leaves nothing half done.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "base/fs.h"
#include "base/process.h"
#include "sanitized.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kPatience{60'000}, kLimit{1000}, kLook{5};

struct Ended {
  int status;  // of waitpid
  milliseconds after;
};

class Interrupt : public testing::Test {
 protected:
  // A compiler that works on its unit for a minute, once it has told that it is at it.
  void use_slow_compiler() { use_compiler("exec sleep 60"); }
  void use_compiler(const std::string& work) {
    slow_ = dir_.path() + "/slow-c++";
    write_file(slow_, "#!/bin/sh\ncase \"$*\" in *\" -o \"*) ;; *) exec g++ \"$@\" ;; esac\n: >" + at_work_ +
                          "\n" + work + "\n");
    chmod(slow_.c_str(), 0700);
  }

  pid_t start(const std::string& arguments) const {
    const std::string line =
        "exec " TESSERA_BINARY_DIR "/bin/tessera " + arguments + " >" + dir_.path() + "/said 2>&1 </dev/null";
    const pid_t pid = fork();
    if (pid != 0) return pid;
    setpgid(0, 0);
    setenv("TESSERA_CACHE_DIR", cache_.c_str(), 1);
    if (!slow_.empty()) setenv("TESSERA_CXX", slow_.c_str(), 1);
    execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
    _exit(127);
  }

  // Starts it, sends the signal as soon as `ready`, and waits for the end.
  template <class Ready>
  Ended interrupt(const std::string& arguments, Ready ready, int signal = SIGINT) const {
    const pid_t pid = start(arguments);
    const auto began = Clock::now();
    int status = 0;
    while (!ready() && Clock::now() - began < kPatience) {
      if (waitpid(pid, &status, WNOHANG) == pid) {
        ADD_FAILURE() << "ended by itself: " << said();
        return {status, {}};
      }
      std::this_thread::sleep_for(kLook);
    }
    const auto sent = Clock::now();
    kill(-pid, signal);      // the whole group, as a terminal does
    if (signal != SIGINT) {  // and `timeout`, after the program itself
      std::this_thread::sleep_for(milliseconds(2));
      kill(pid, signal);
    }
    const auto since = [&] { return std::chrono::duration_cast<milliseconds>(Clock::now() - sent); };
    while (waitpid(pid, &status, WNOHANG) == 0) {
      if (since() > kPatience) kill(-pid, SIGKILL);
      std::this_thread::sleep_for(kLook);
    }
    return {status, since()};
  }

  void expect_stopped(const Ended& e, int signal = SIGINT) const {
    EXPECT_TRUE(WIFEXITED(e.status) && WEXITSTATUS(e.status) == 128 + signal) << e.status << '\n' << said();
    EXPECT_LE(e.after.count(), kLimit.count()) << said();
    EXPECT_NE(said().find("interrupted"), std::string::npos) << said();
    EXPECT_EQ(said().find("error:"), std::string::npos) << said();
  }

  std::string said() const { return try_read_file(dir_.path() + "/said").value_or(""); }
  bool at_work() const { return path_exists(at_work_); }

  TempDir dir_{temp_directory()};
  std::string cache_ = dir_.path() + "/cache", at_work_ = dir_.path() + "/at-work", slow_;
};

// In types that the standard pack leaves out.
class InterruptWhileCompiling : public Interrupt, public testing::WithParamInterface<const char*> {};

TEST_P(InterruptWhileCompiling, StopsAtOnce) {
  use_slow_compiler();
  const std::string pack = dir_.path() + "/kernels.pack";
  std::string arguments = GetParam();
  if (arguments.starts_with("pack ")) arguments += " --out " + pack;
  expect_stopped(interrupt(arguments, [&] { return at_work(); }));
  EXPECT_FALSE(path_exists(pack));
  // The compilers are gone, and nothing is remembered against the units they worked on.
  slow_.clear();
  const pid_t pid = start("run gemm m=20 n=24 k=28 dtype=f16 --threads 1 --budget-ms 0");
  int status = 0;
  waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0) << said();
  const ProcessResult bad =
      run_process({TESSERA_BINARY_DIR "/bin/tessera", "cache", "verify", "--cache-dir", cache_}, "", 60);
  EXPECT_TRUE(bad.ok()) << bad.out;
  EXPECT_TRUE(list_directory(cache_ + "/scratch").empty());
}

INSTANTIATE_TEST_SUITE_P(Verbs, InterruptWhileCompiling,
                         testing::Values("run gemm m=20 n=24 k=28 dtype=f16",
                                         "bench --suite cpu_gemm.csv --dtype f16",
                                         "build --suite cpu_gemm.csv --dtype f16 --jobs 4",
                                         "pack create --suite cpu_gemm.csv --dtype f16",
                                         "explain gemm m=20 n=24 k=28 dtype=f16 --time --top 8",
                                         "run gemm m=20 n=24 k=28 dtype=f16 --policy model_topk"),
                         [](const auto& one) {
                           const std::string text = one.param;
                           return text.substr(0, text.find(' ')) +
                                  (text.find("topk") == text.npos ? "" : "_topk");
                         });

// Kernels and references that run for seconds are not waited for.
TEST_F(Interrupt, RunWithALongKernelStops) {
  if (TESSERA_SANITIZED) GTEST_SKIP() << "ThreadSanitizer keeps signals until the kernel makes a call";
  const auto began = Clock::now();
  expect_stopped(interrupt("run gemm m=8192 n=8192 k=8192 dtype=f32 --threads 1",
                           [&] { return Clock::now() - began > std::chrono::seconds(2); }));
}

// Work that finishes its step first, and had not measured anything.
TEST_F(Interrupt, SearchThatMeasuredNothingSaysSo) {
  use_compiler("sleep 1; exec g++ \"$@\"");
  const Ended e = interrupt("search gemm m=20 n=24 k=28 dtype=f16 --threads 1 --jobs 1 --db none",
                            [&] { return at_work(); });
  EXPECT_TRUE(WIFEXITED(e.status) && WEXITSTATUS(e.status) == 130) << e.status << '\n' << said();
  EXPECT_NE(said().find("interrupted"), std::string::npos) << said();
  EXPECT_EQ(said().find("error:"), std::string::npos) << said();
}

TEST_F(Interrupt, BenchReportsWhatItMeasured) {
  const std::string list = dir_.path() + "/problems.txt", csv = dir_.path() + "/rows.csv";
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "gemm m=16 n=16 k=16 dtype=f32\n";
  write_file(list, text);
  const auto began = Clock::now();
  const Ended e = interrupt("bench " + list + " --threads 1 --budget-ms 50 --csv " + csv,
                            [&] { return Clock::now() - began > std::chrono::seconds(3); });
  expect_stopped(e);
  EXPECT_NE(said().find(" of 1000 problems"), std::string::npos) << said();
  EXPECT_TRUE(path_exists(csv));
}

TEST_F(Interrupt, GenerateLeavesNoDirectory) {
  const std::string parent = dir_.path() + "/parent";
  make_directories(parent);
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
    expect_stopped(
        interrupt(
            "generate --arch x86_avx512 --dtype f32,bf16,f16,i8,f8e4m3,f8e5m2 --layout rcr,rrr,crr,ccr "
            "--jobs 1 --out " +
                parent + "/out",
            [&] {
              const auto names = list_directory(parent);
              return !names.empty() && !list_directory(parent + '/' + names[0]).empty();
            },
            signal),
        signal);
    EXPECT_TRUE(list_directory(parent).empty()) << signal;
  }
}

TEST_F(Interrupt, BuildLeavesNoScratch) {
  use_slow_compiler();
  for (int signal : {SIGTERM, SIGHUP}) {
    remove_all(at_work_);
    const std::string build = "build gemm m=20 n=24 k=28 dtype=f16 --threads 1";
    expect_stopped(interrupt(
                       build, [&] { return at_work(); }, signal),
                   signal);
    EXPECT_TRUE(list_directory(cache_ + "/scratch").empty()) << signal;
  }
}

// nohup: who ignores SIGHUP goes on.
TEST_F(Interrupt, IgnoredHangUpsStayIgnored) {
  const ProcessResult r = run_process(
      {"sh", "-c",
       "trap '' HUP; " TESSERA_BINARY_DIR
       "/bin/tessera run gemm m=20 n=24 k=28 dtype=f32 --threads 1 --budget-ms 1000 & p=$!; sleep 0.3; "
       "kill -HUP $p; wait $p"},
      "", 60);
  EXPECT_TRUE(r.ok()) << r.describe() << r.out;
}

}  // namespace
}  // namespace tessera
