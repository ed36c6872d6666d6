// Sweeps through planted faults and sudden deaths: every outcome is written down as what it was.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "base/cores.h"
#include "base/fs.h"
#include "cli/program.h"
#include "core/arch_spec.h"
#include "tessera/problem.h"

#include "tune/measurement.h"
#include "tune/sweep_record.h"
#include "variable.h"

namespace tessera {
namespace {

constexpr const char* kProblems[] = {"gemm m=20 n=24 k=28 dtype=f16", "gemm m=33 n=16 k=40 dtype=f16",
                                     "gemm m=16 n=48 k=17 dtype=f16 layout=rrr"};

// Kernels that compile quickly, a column of tiles, of the vectors there are here.
struct Column {
  std::string family, end;  // of their configs, around the tile's rows
  int width;
  std::vector<int> rows;  // the first four tiles are spoilt

  std::string config(const std::string& tile_rows) const {
    return family + " tile=" + tile_rows + "x" + std::to_string(width) + end;
  }
};
const Column& column() {
  static const Column wide{"cpu_direct", " inst=1x16x1", 16, {4, 5, 6, 8, 12, 16}},
      narrow{"cpu_packed", " inst=1x8x1 pack_a=1", 8, {4, 6, 8, 10, 12}};
  return detect_cpu().vector_bits == 512 ? wide : narrow;
}

// A compiler that spoils those tiles, each in its way.
std::string spoiling_compiler() {
  std::string tiles;
  for (const int rows : column().rows) tiles += ' ' + std::to_string(rows);
  return R"(#!/bin/sh
case "$*" in *" -o "*) ;; *) exec g++ "$@" ;; esac
unit="$TMPDIR/unit"
cat >"$unit"
entry='s/^  tsr::)" +
         column().family + R"(<Config>(args);/'
tile() { grep -q "tile_m = $1;" "$unit" && grep -q "tile_n = )" +
         std::to_string(column().width) + R"(;" "$unit"; }
spoil() {
  if tile $1; then sed -i "$entry __builtin_trap();/" "$unit"
  elif tile $2; then sed -i "$entry for (volatile int i = 0;; i = i) {}/" "$unit"
  elif tile $3; then sed -i "$entry/" "$unit"
  elif tile $4; then echo "no C++" >>"$unit"
  fi
}
spoil)" + tiles +
         R"(
exec g++ "$@" <"$unit"
)";
}

class SweepFaults : public testing::Test {
 protected:
  SweepFaults() {
    write_file(compiler_, spoiling_compiler());
    chmod(compiler_.c_str(), 0700);
    std::string list;
    for (const char* p : kProblems) list += std::string(p) + '\n';
    write_file(dir_.path() + "/problems.txt", list);
  }

  // Of the column's kernels.
  std::string plan(const std::string& name) const {
    const std::string sweep = dir_.path() + '/' + name;
    text_of("sweep plan " + sweep + " --threads 1 --only '" + column().config("*") + "' " + dir_.path() +
            "/problems.txt");
    return sweep;
  }

  static std::string run_words(const std::string& sweep) {
    return "sweep run " + sweep + " --limit-s 2 --group 4 --budget-ms 1 --quiet";
  }

  pid_t start(const std::string& sweep) const {
    const std::string line = std::string("exec ") + TESSERA_BINARY_DIR "/bin/tessera " + run_words(sweep) +
                             " >/dev/null 2>&1 </dev/null";
    const pid_t pid = fork();
    if (pid == 0) {
      execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
      _exit(127);
    }
    return pid;
  }

  using Outcomes = std::map<std::pair<std::string, std::string>, std::string>;
  static Outcomes outcomes(const std::string& sweep) {
    Outcomes out;
    for (const SweepRecord& r : SweepResults::read(sweep).records()) {
      out[{r.problem, r.config}] = std::string(to_string(r.outcome)) + " " + std::to_string(r.attempts);
      EXPECT_EQ(r.outcome == SweepOutcome::ok, !r.samples.empty());
      EXPECT_EQ(r.outcome == SweepOutcome::ok, r.median_us > 0);
    }
    return out;
  }

  TempDir dir_{temp_directory()};
  std::string compiler_ = dir_.path() + "/spoiling-c++";
  Variable cxx_{"TESSERA_CXX", compiler_};
  // No kernel that an unspoilt compiler made before: none of the cache, and no type of the standard pack.
  Variable cache_{"TESSERA_CACHE_DIR", dir_.path() + "/kernels"};
};

TEST_F(SweepFaults, AreRecordedAsWhatTheyAre) {
  const std::string sweep = plan("calm");
  const Json done = json_of(run_words(sweep));
  EXPECT_EQ(done.at("left").as_int(), 0);
  const Outcomes all = outcomes(sweep);
  using Each = std::vector<std::string>;
  const auto of_tile = [&](size_t i) {
    Each out;
    const std::string config = column().config(std::to_string(column().rows[i]));
    for (const char* problem : kProblems) out.push_back(all.at({to_string(Problem::parse(problem)), config}));
    return out;
  };
  EXPECT_EQ(of_tile(0), (Each{"crashed 2", "quarantined 1", "quarantined 1"}));
  EXPECT_EQ(of_tile(1), (Each{"timed_out 1", "timed_out 1", "quarantined 1"}));
  EXPECT_EQ(of_tile(2), (Each{"wrong 1", "wrong 1", "wrong 1"}));
  EXPECT_EQ(of_tile(3), (Each{"compile_failed 1", "compile_failed 1", "compile_failed 1"}));
  for (size_t i = 4; i < column().rows.size(); ++i) EXPECT_EQ(of_tile(i), (Each{"ok 1", "ok 1", "ok 1"}));

  // Nothing is left to do, and what failed is tried again on request only.
  const Json again = json_of(run_words(sweep));
  EXPECT_EQ(again.at("left").as_int(), 0);
  EXPECT_EQ(outcomes(sweep), all);
  {
    const Variable sound("TESSERA_CXX", "g++");
    json_of(run_words(sweep) + " --cache-dir " + dir_.path() +
            "/sound --retry crashed,timed_out,wrong,compile_failed,quarantined");
  }
  for (const auto& [key, outcome] : outcomes(sweep)) EXPECT_EQ(outcome, "ok 1") << key.second;

  // The same when a child gets several groups at once.
  const std::string batched = plan("batched");
  EXPECT_EQ(json_of(run_words(batched) + " --batch 4").at("left").as_int(), 0);
  EXPECT_EQ(outcomes(batched), all);

  // Killed five times at moments that change from run to run, it comes to the same end.
  const std::string killed = plan("killed");
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 engine{seed};
  size_t before = 0;
  for (int i = 0; i < 5; ++i) {
    const pid_t pid = start(killed);
    std::this_thread::sleep_for(std::chrono::milliseconds(100 + engine() % 3000));
    kill(pid, SIGKILL);
    int status = 0;
    waitpid(pid, &status, 0);
    const size_t now = SweepResults::read(killed).records().size();
    EXPECT_GE(now, before);
    before = now;
  }
  EXPECT_EQ(json_of(run_words(killed)).at("left").as_int(), 0);
  EXPECT_EQ(outcomes(killed), all);
}

TEST_F(SweepFaults, ShardsAddUp) {
  const Variable sound("TESSERA_CXX", "g++");
  const std::string sweep = plan("shards"), cache = " --cache-dir " + dir_.path() + "/kernels";
  EXPECT_EQ(text_of("sweep run " + sweep + " --shard 3/2", 2).find("error: --shard"), 0u);
  const Json first = json_of(run_words(sweep) + " --shard 1/2" + cache);
  const Json half = json_of("sweep status " + sweep);
  EXPECT_EQ(half.at("left").as_int(), half.at("pairs").as_int() - first.at("pairs").as_int());
  {
    const Variable rank("OMPI_COMM_WORLD_RANK", "1"), size("OMPI_COMM_WORLD_SIZE", "2");
    json_of(run_words(sweep) + cache);
  }
  const Json all = json_of("sweep status " + sweep);
  EXPECT_EQ(all.at("left").as_int(), 0);
  EXPECT_EQ(all.at("ok").as_int(), all.at("pairs").as_int());
  const std::string merged = dir_.path() + "/merged";
  EXPECT_EQ(json_of("sweep merge " + merged + ' ' + sweep).at("ok").as_int(), all.at("ok").as_int());
  EXPECT_EQ(outcomes(merged), outcomes(sweep));

  // What is merged can be imported and gone on with; sweeps of two devices are not one.
  const std::string db = dir_.path() + "/merged.sqlite";
  text_of("db import " + merged + " --db " + db);
  EXPECT_EQ(measurements_of_sweep(merged).size(), measurements_of_sweep(sweep).size());
  EXPECT_EQ(json_of(run_words(merged) + cache).at("left").as_int(), 0);
  std::string device = read_file(merged + '/' + kDeviceFile);
  device.replace(device.find("x86"), 3, "x87");
  write_file_whole(merged + '/' + kDeviceFile, device);
  EXPECT_NE(text_of("sweep merge " + dir_.path() + "/none " + merged + ' ' + sweep, 1).find("one device"),
            std::string::npos);
  EXPECT_FALSE(path_exists(dir_.path() + "/none"));
}

TEST_F(SweepFaults, SeveralCoresMeasureAtOnce) {
  const std::string sweep = plan("cores");
  const Json done = json_of(run_words(sweep) + " --cores " + cores_text(allowed_cores()));
  EXPECT_EQ(done.at("left").as_int(), 0);
  // As on one core, but for which problems a kernel fails on before it is quarantined.
  const std::vector<std::set<std::string>> spoilt = {
      {"crashed 2", "quarantined 1"}, {"timed_out 1", "quarantined 1"}, {"wrong 1"}, {"compile_failed 1"}};
  std::map<std::string, std::set<std::string>> expected;
  for (size_t i = 0; i < column().rows.size(); ++i)
    expected[column().config(std::to_string(column().rows[i]))] =
        i < spoilt.size() ? spoilt[i] : std::set<std::string>{"ok 1"};
  const Outcomes all = outcomes(sweep);
  EXPECT_EQ(all.size(), std::size(kProblems) * expected.size());
  for (const auto& [key, outcome] : all)
    EXPECT_TRUE(expected.at(key.second).count(outcome)) << key.second << ": " << outcome;

  EXPECT_TRUE(has(text_of("sweep run " + sweep + " --cores 0-", 2), "no list of cores"));
  EXPECT_TRUE(has(text_of("sweep run " + sweep + " --cores 99999", 1), "may not run on core 99999"));
  const std::string core = std::to_string(allowed_cores()[0]);
  EXPECT_TRUE(has(text_of("sweep run " + sweep + " --cores " + core + "," + core, 1), "named twice"));
  const std::string wide = dir_.path() + "/wide";
  text_of("sweep plan " + wide + " --threads 2 --candidates random:1 " + kProblem);
  EXPECT_TRUE(has(text_of("sweep run " + wide + " --cores " + core, 1), "2 threads"));
}

TEST_F(SweepFaults, WhatOthersCompileIsMeasuredWhenItIsReady) {
  const Variable sound("TESSERA_CXX", "g++");
  const std::string sweep = plan("ready"), measure = run_words(sweep) + " --stage measure --ready";
  EXPECT_EQ(json_of(measure).at("ok").as_int(), 0);
  const auto compiled = [&](int shard, int shards) {
    const std::string of = " --stage compile --shard " + std::to_string(shard) + '/' + std::to_string(shards);
    return json_of(run_words(sweep) + of).at("compiled").as_int();
  };
  // A kernel's shard is by its key: of few kernels a shard may have none.
  int shards = 3;
  while (compiled(1, shards) == 0) ASSERT_LT(++shards, 12);
  const Json half = json_of(measure);
  EXPECT_GT(half.at("ok").as_int(), 0);
  EXPECT_GT(half.at("left").as_int(), 0);
  int64_t others = 0;
  for (int shard = 2; shard <= shards; ++shard) others += compiled(shard, shards);
  EXPECT_GT(others, 0);
  const Json all = json_of(measure);
  EXPECT_EQ(all.at("left").as_int(), 0);
  EXPECT_EQ(all.at("ok").as_int(), all.at("pairs").as_int());
}

// Nine sums of six million products each take the reference a second or more, the kernel milliseconds.
TEST_F(SweepFaults, WorkingOutWhatIsRightIsNotTheKernelsTime) {
  const Variable sound("TESSERA_CXX", "g++");
  const std::string sweep = dir_.path() + "/long";
  text_of(
      "sweep plan " + sweep +
      " --threads 1 --candidates guided:1 "
      "'conv_bwd_weight n=64 g=1 c=1 k=1 in=300x300 filter=3x3 stride=1x1 pad=1x1 dilation=1x1 dtype=f32'");
  const Json all = json_of("sweep run " + sweep + " --limit-s 0.4 --budget-ms 1 --quiet");
  EXPECT_EQ(all.at("ok").as_int(), 1);
}

TEST_F(SweepFaults, FirstInterruptFinishesTheStep) {
  const Variable sound("TESSERA_CXX", "g++");
  const std::string sweep = plan("interrupted");
  const pid_t pid = start(sweep);
  while (SweepResults::read(sweep).records().empty()) {
    int status = 0;
    ASSERT_EQ(waitpid(pid, &status, WNOHANG), 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  kill(pid, SIGINT);
  int status = 0;
  waitpid(pid, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 130) << status;
  const Json now = json_of("sweep status " + sweep);
  EXPECT_EQ(now.at("damaged_lines").as_int(), 0);
  EXPECT_GT(now.at("ok").as_int(), 0);
  EXPECT_GT(now.at("left").as_int(), 0);
}

}  // namespace
}  // namespace tessera
