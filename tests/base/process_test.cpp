#include "base/process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

#include "base/fs.h"
#include "variable.h"

namespace tessera {
namespace {

using End = ProcessResult::End;

ProcessResult shell(const std::string& script, std::string_view input = {}, double timeout_s = 20) {
  return run_process({"/bin/sh", "-c", script}, input, timeout_s);
}

TEST(Process, PassesTextInAndOut) {
  const std::string big(3 << 20, 'x');
  EXPECT_EQ(run_process({"cat"}, "hello", 20).out, "hello");
  const ProcessResult counted = run_process({"wc", "-c"}, big, 20);
  EXPECT_TRUE(counted.ok());
  EXPECT_EQ(std::stol(counted.out), 3 << 20);
  EXPECT_EQ(shell("echo out; echo err >&2").out, "out\nerr\n");
  EXPECT_EQ(run_process({"cat"}, big, 20).out, big);
  EXPECT_EQ(shell("head -c 17000000 /dev/zero").out.size(), size_t{16} << 20);  // no more is kept
}

TEST(Process, ArgumentsAreNotInterpreted) {
  EXPECT_EQ(run_process({"printf", "%s|%s", "a b;$HOME", "*"}, "", 20).out, "a b;$HOME|*");
}

TEST(Process, ReplacesEnvironmentEntries) {
  setenv("TESSERA_TEST_A", "old", 1);
  setenv("TESSERA_TEST_AB", "kept", 1);
  const ProcessResult r =
      run_process({"/bin/sh", "-c", "echo $TESSERA_TEST_A $TESSERA_TEST_AB"}, "", 20, {"TESSERA_TEST_A=new"});
  EXPECT_EQ(r.out, "new kept\n");
}

TEST(Process, TellsHowItEnded) {
  EXPECT_EQ(shell("exit 7").end, End::exited);
  EXPECT_EQ(shell("exit 7").code, 7);
  const ProcessResult killed = shell("kill -9 $$");
  EXPECT_EQ(killed.end, End::signaled);
  EXPECT_EQ(killed.code, SIGKILL);
  EXPECT_EQ(killed.describe(), "was killed by signal 9 (Killed)");
  const ProcessResult missing = run_process({"tessera-no-such-program"}, "", 1);
  EXPECT_EQ(missing.end, End::not_started);
  EXPECT_NE(missing.describe().find("No such file"), std::string::npos);
  EXPECT_EQ(run_process({}, "", 1).end, End::not_started);
}

TEST(Process, StopsTheWholeGroupWhenTimeIsUp) {
  const auto began = std::chrono::steady_clock::now();
  const ProcessResult late = shell("sleep 30 & echo $!; sleep 30", "", 0.3);
  EXPECT_EQ(late.end, End::timed_out);
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(10));
  const pid_t grandchild = static_cast<pid_t>(std::stol(late.out));
  for (int i = 0; i < 200 && kill(grandchild, 0) == 0; ++i) {
    const auto stat = try_read_file("/proc/" + std::to_string(grandchild) + "/stat");
    if (!stat || stat->find(") Z") != std::string::npos) break;  // dead, waiting for init
    ASSERT_LT(i, 199) << "the grandchild outlived the time limit";
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

TEST(Process, DoesNotWaitForWhatTheChildLeftBehind) {
  const auto began = std::chrono::steady_clock::now();
  EXPECT_TRUE(shell("sleep 5 & exit 0", "", 20).ok());
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(4));
}

TEST(Process, ChildrenDieWithUs) {
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const pid_t middle = fork();
  if (middle == 0) {
    // The write end stays open in the grandchild: its end of life is the end of file below.
    run_process({"sleep", "60"}, "", 60);
    _exit(0);
  }
  close(pipe_ends[1]);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  kill(middle, SIGKILL);
  waitpid(middle, nullptr, 0);
  const auto began = std::chrono::steady_clock::now();
  char byte;
  EXPECT_EQ(read(pipe_ends[0], &byte, 1), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(10));
  close(pipe_ends[0]);
}

TEST(Process, WorksFromManyThreads) {
  std::vector<std::thread> threads;
  std::vector<std::string> outs(8);
  for (size_t t = 0; t < outs.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 10; ++i) outs[t] += run_process({"cat"}, std::to_string(t), 20).out;
    });
  }
  for (std::thread& t : threads) t.join();
  for (size_t t = 0; t < outs.size(); ++t) EXPECT_EQ(outs[t], std::string(10, static_cast<char>('0' + t)));
}

TEST(Process, WorksWhereChildSignalsAreIgnored) {
  const auto before = signal(SIGCHLD, SIG_IGN);
  EXPECT_EQ(run_process({"cat"}, "text", 20).out, "text");
  signal(SIGCHLD, before);
}

TEST(Process, WorksWithoutAPath) {
  const Variable path("PATH", std::nullopt);
  EXPECT_NE(find_program("sh"), "");
  EXPECT_NE(run_process({"sh", "-c", "printenv PATH"}, "", 20).out.find("/usr/bin"), std::string::npos);
}

TEST(Process, FindsPrograms) {
  EXPECT_EQ(find_program("/bin/sh"), "/bin/sh");
  EXPECT_NE(find_program("sh"), "");
  EXPECT_EQ(find_program("/bin"), "");
  EXPECT_EQ(find_program("tessera-no-such-program"), "");
  EXPECT_EQ(find_program(""), "");
}

}  // namespace
}  // namespace tessera
