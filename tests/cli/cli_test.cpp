// The program itself: what it prints, where, and with which exit status.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "base/fs.h"
#include "program.h"
#include "variable.h"

namespace tessera {
namespace {

TEST(Cli, RunGivesTheAgreedObject) {
  const Json j = json_of(std::string("run ") + kProblem + " --threads 1 --budget-ms 1");
  EXPECT_EQ(keys(j), (std::set<std::string>{"problem", "arch", "device", "config", "source", "predicted_us",
                                            "time_us", "gflops", "jit_ms", "cached", "verified", "max_err",
                                            "bound", "checked", "complete", "checksum"}));
  EXPECT_EQ(j.at("checked").as_int(), 20 * 24);
  EXPECT_TRUE(j.at("complete").as_bool());
  EXPECT_EQ(j.at("problem").as_string(), "gemm m=20 n=24 k=28 dtype=f32 layout=rcr");
  EXPECT_EQ(j.at("source").as_string(), "model");
  EXPECT_TRUE(j.at("verified").as_bool());
  EXPECT_LE(j.at("max_err").as_double(), j.at("bound").as_double());
  EXPECT_GT(j.at("time_us").as_double(), 0);
}

TEST(Cli, ProblemsMayBeSeveralWordsBehindOptions) {
  const Json j = json_of("run --threads 1 --budget-ms 1 gemm m=20 n=24 k=28 dtype=f32");
  EXPECT_TRUE(j.at("verified").as_bool());
}

TEST(Cli, RunTakesASuiteRowByName) {
  const Json j = json_of(
      "run --suite cpu_gemm.csv --name deepbench.nn_128x1x1024 --dtype f32 --threads 1 --budget-ms 1");
  EXPECT_TRUE(has(j.at("problem").as_string(), "m=1 n=128 k=1024 dtype=f32"));
}

TEST(Cli, ExplicitConfigIsUsed) {
  const std::string config =
      json_of(std::string("explain ") + kProblem).at("candidates").at(1).at("config").as_string();
  const Json j =
      json_of(std::string("run ") + kProblem + " --threads 1 --budget-ms 1 --config '" + config + "'");
  EXPECT_EQ(j.at("config").as_string(), config);
  EXPECT_EQ(j.at("source").as_string(), "explicit");
}

TEST(Cli, ExplainGivesCandidatesAndRejections) {
  const Json j = json_of(std::string("explain ") + kProblem + " --rejected --threads 1");
  for (const char* key : {"problem", "arch", "choice", "select_us", "candidates", "rejected"}) {
    EXPECT_NE(j.find(key), nullptr) << key;
  }
  ASSERT_GT(j.at("candidates").size(), 1u);
  EXPECT_EQ(keys(j.at("candidates").at(0)), (std::set<std::string>{"config", "predicted_us"}));
  ASSERT_GT(j.at("rejected").size(), 0u);
  EXPECT_EQ(keys(j.at("rejected").at(0)), (std::set<std::string>{"config", "rule", "reason"}));
  EXPECT_EQ(json_of(std::string("explain ") + kProblem + " --top 2").at("candidates").size(), 2u);
  const std::string none =
      text_of("explain 'gemm m=64 n=64 k=64 dtype=f32 prepack=b' --arch gfx942 --rejected", 1);
  EXPECT_TRUE(has(none, "no legal configuration on gfx942")) << none.substr(0, 200);
  EXPECT_TRUE(has(none, "mfma      types")) << none;
  const Outcome o = shell("explain 'gemm m=64 n=64 k=64 dtype=f32 prepack=b' --arch gfx942 --json", false);
  EXPECT_EQ(o.status, 1);
  const Json why = Json::parse(o.text, "explain");
  EXPECT_TRUE(why.at("choice").is_null() && has(why.at("why_none").as_string(), "no legal")) << o.text;
}

TEST(Cli, ExplainPlansForOtherDevices) {
  for (const char* arch : {"gfx942", "null:gfx942"}) {
    EXPECT_EQ(json_of("explain 'gemm m=4096 n=4096 k=4096 dtype=bf16' --top 1 --arch " + std::string(arch))
                  .at("arch")
                  .as_string(),
              "gfx942");
  }
}

TEST(Cli, ExplainSuggestsTheNearestLegalConfig) {
  const Json j = json_of(std::string("explain ") + kProblem +
                         " --suggest 'cpu_packed tile=13x17 inst=1x16x1' --arch x86_avx512");
  EXPECT_FALSE(j.at("legal").as_bool());
  EXPECT_FALSE(j.at("suggestion").is_null());
  EXPECT_GT(j.at("changes").size(), 0u);
}

TEST(Cli, BenchGivesRowsAndSummary) {
  const std::string csv = temp_directory() + "/tessera-cli-test-" + std::to_string(getpid()) + ".csv";
  const Json j =
      json_of(std::string("bench ") + kProblem + " --verify --threads 1 --budget-ms 1 --csv " + csv);
  EXPECT_EQ(keys(j), (std::set<std::string>{"rows", "summary"}));
  for (const char* key : {"problem", "name", "config", "time_us", "peers", "verified"}) {
    EXPECT_NE(j.at("rows").at(0).find(key), nullptr) << key;
  }
  EXPECT_TRUE(j.at("rows").at(0).at("verified").as_bool());
  const std::string text = read_file(csv);
  EXPECT_TRUE(text.starts_with("name,op,dtype,layout,m,n,k,")) << text;
  remove_all(csv);
}

TEST(Cli, EmitPrintsTheUnit) {
  const Json j = json_of(std::string("emit ") + kProblem);
  EXPECT_EQ(keys(j), (std::set<std::string>{"problem", "arch", "config", "text"}));
  EXPECT_TRUE(has(j.at("text").as_string(), "extern \"C\""));
  EXPECT_TRUE(has(text_of(std::string("emit ") + kProblem), "#include"));
}

TEST(Cli, ArchListShowAndCheck) {
  EXPECT_GT(json_of("arch list").size(), 4u);
  EXPECT_EQ(json_of("arch show x86_avx2").at("name").as_string(), "x86_avx2");
  EXPECT_TRUE(json_of("arch check " TESSERA_SOURCE_DIR "/arch/x86_avx2.json").at(0).at("valid").as_bool());
  text_of("arch show x86_avx3", 2);
  text_of("arch check " TESSERA_SOURCE_DIR "/README.md", 1);
}

TEST(Cli, ArchCheckLooksAtEveryFile) {
  const std::string good = TESSERA_SOURCE_DIR "/arch/x86_avx2.json ", bad = TESSERA_SOURCE_DIR "/README.md ";
  const Outcome o = shell("arch check " + bad + good + "absent " + good + "--json", false);
  EXPECT_EQ(o.status, 1);
  const Json rows = Json::parse(o.text);
  ASSERT_EQ(rows.size(), 4u);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(rows.at(i).at("valid").as_bool(), i % 2 == 1) << i;
  EXPECT_TRUE(has(rows.at(2).at("error").as_string(), "absent"));
  EXPECT_TRUE(has(text_of("arch check " + bad + good, 1), "valid, architecture x86_avx2"));
}

TEST(Cli, WhatIsNotCheckedIsNeitherRightNorWrong) {
  const Json run = json_of(std::string("run ") + kProblem + " --threads 1 --budget-ms 0 --no-verify");
  for (const char* key : {"verified", "max_err", "bound", "checked", "complete"})
    EXPECT_TRUE(run.at(key).is_null()) << key;
  const Json bench = json_of(std::string("bench ") + kProblem + " --threads 1 --budget-ms 1");
  EXPECT_TRUE(bench.at("rows").at(0).at("verified").is_null());
  EXPECT_EQ(bench.at("summary").at("wrong").as_int(), 0);
}

TEST(Cli, ExplainLimitsTheRejectedToo) {
  const Json all = json_of(std::string("explain ") + kProblem + " --rejected --threads 1");
  const Json two = json_of(std::string("explain ") + kProblem + " --rejected --threads 1 --top 2");
  EXPECT_EQ(two.at("rejected").size(), 2u);
  EXPECT_EQ(all.at("left_out").at("rejected").as_int(), 0);
  EXPECT_EQ(two.at("left_out").at("rejected").as_int(), static_cast<int64_t>(all.at("rejected").size()) - 2);
  EXPECT_EQ(two.at("left_out").at("candidates").as_int(),
            static_cast<int64_t>(all.at("candidates").size()) - 2);
  EXPECT_TRUE(
      has(text_of(std::string("explain ") + kProblem + " --rejected --top 2"), " more rejected; --top N"));
}

// A file or a directory that cannot be made: root may write anywhere.
TEST(Cli, BuildFailsWhereNothingCanBeStored) {
  TempDir dir(temp_directory());
  const std::string cache = dir.path() + "/in-the-way/cache", here = " --cache-dir " + cache;
  write_file(dir.path() + "/in-the-way", "");
  const std::string build =
      std::string("build ") + kUnpackedProblem + " 'gemm m=20 n=24 k=32 dtype=f16' --threads 1";
  const std::string text = text_of(build + here, 1);
  EXPECT_TRUE(has(text, "kernels cannot be stored in '" + cache + "'") && has(text, "0 of 2 problems"))
      << text;
  EXPECT_TRUE(has(text, "choose another directory with --cache-dir")) << text;
  const Outcome json = shell(build + here + " --json", false);
  EXPECT_EQ(Json::parse(json.text).at("built").as_int(), 0);
  EXPECT_EQ(Json::parse(json.text).at("failed").size(), 2u);
  // What a pack holds needs no storing.
  const std::string pack = dir.path() + "/mine.pack";
  text_of(std::string("pack create ") + kUnpackedProblem + " --threads 1 --out " + pack);
  EXPECT_EQ(json_of(std::string("build ") + kUnpackedProblem + " --threads 1 --pack " + pack + here)
                .at("built")
                .as_int(),
            1);

  const Outcome doctor = shell("doctor --json" + here, false);
  EXPECT_EQ(doctor.status, 1);
  const Json found = Json::parse(doctor.text);
  for (const Json& check : found.at("checks").items()) {
    if (check.at("check").as_string() != "kernel cache") continue;
    EXPECT_EQ(check.at("state").as_string(), "fail");
    EXPECT_TRUE(has(check.at("text").as_string(), "cannot be stored")) << check.dump();
    EXPECT_TRUE(has(check.at("remedy").as_string(), "--cache-dir")) << check.dump();
  }
}

TEST(Cli, BuildRemovesWhatDeadProcessesLeft) {
  TempDir dir(temp_directory());
  const std::string scratch = dir.path() + "/scratch";
  make_directories(scratch);
  const pid_t pid = fork();
  if (pid == 0) {
    new TempDir(scratch);
    _exit(0);
  }
  waitpid(pid, nullptr, 0);
  ASSERT_EQ(list_directory(scratch).size(), 1u);
  const std::string build = std::string("build ") + kProblem + " --threads 1 --cache-dir " + dir.path();
  text_of(build);
  EXPECT_TRUE(list_directory(scratch).empty());
}

TEST(Cli, BuildFillsACacheThatStatsAndClearSee) {
  TempDir dir(temp_directory());
  const std::string here = " --cache-dir " + dir.path() + "/cache";
  const Json j = json_of(std::string("build ") + kProblem + " --jobs 2 --threads 1" + here);
  EXPECT_EQ(j.at("built").as_int(), 1);
  EXPECT_NE(json_of("cache stats" + here).find("entries"), nullptr);
  EXPECT_EQ(json_of("cache verify" + here).at("bad").size(), 0u);
  EXPECT_NE(json_of("cache clear" + here).find("removed"), nullptr);
  EXPECT_EQ(json_of("cache stats" + here).at("entries").as_int(), 0);
}

TEST(Cli, UsageErrorsExitWithTwo) {
  EXPECT_TRUE(has(text_of("explian " + std::string(kProblem), 2), "did you mean 'explain'"));
  EXPECT_TRUE(has(text_of("explain --topp 3 " + std::string(kProblem), 2), "did you mean '--top'"));
  EXPECT_TRUE(has(text_of("run gemm m=4 n=4", 2), "k"));
  EXPECT_TRUE(has(text_of("run gemm m=4 n=4 k=4 dtype=half", 2), "half"));
  text_of("run", 2);
  text_of("cache", 2);
  text_of("cache stat", 2);
  text_of("run gemm m=4 n=4 k=4 dtype=f32 --threads many", 2);
  text_of("run gemm m=4 n=4 k=4 dtype=f32 --policy best", 2);
  for (const char* device : {"gpu", "cpu:many", "cpu:0", "cuda:first", "null:x86_avx3", "null:"}) {
    const std::string text = text_of("run gemm m=4 n=4 k=4 dtype=f32 --device " + std::string(device), 2);
    EXPECT_TRUE(has(text, "usage: tessera run")) << text;
  }
  for (const char* verb : {"explain", "emit"}) {
    const std::string words = std::string(verb) + " gemm m=4 n=4 k=4 dtype=f32 --arch ";
    EXPECT_TRUE(has(text_of(words + "x86_avx3", 2), "did you mean 'x86_avx2'"));
    text_of(words + "null:x86_avx3", 2);
  }
  text_of("generate --arch x86_avx3 --dtype f32 --layout rcr --out never", 2);
}

TEST(Cli, FailuresExitWithOneAndReproduce) {
  const std::string text = text_of(std::string("run ") + kProblem + " --device null:x86_avx2", 1);
  EXPECT_TRUE(has(text, "error: ")) << text;
  EXPECT_TRUE(has(text, "reproduce: ")) << text;
  EXPECT_TRUE(has(text, " tessera run 'gemm m=20 n=24 k=28 dtype=f32' --device null:x86_avx2")) << text;
  const Variable compiler("TESSERA_CXX", "g++ -g"), arch("TESSERA_ARCH", "x86_avx2");
  EXPECT_TRUE(has(text_of(std::string("run ") + kProblem + " --device null:x86_avx2", 1),
                  "reproduce: TESSERA_ARCH=x86_avx2 TESSERA_CXX='g++ -g' "));
}

// The line repeats the failure, with all that the first call was told.
TEST(Cli, ReproducingCommandsReproduce) {
  TempDir dir(temp_directory());
  write_file(dir.path() + "/none.txt", "exact cpu_packed tile=6x40 inst=1x16x1\n");
  const std::string registry = " --registry " + dir.path() + "/none.txt";
  const std::string bad_config = " --config 'cpu_packed tile=6x40'";
  for (const std::string& options :
       {std::string(" --device null:gfx942"), bad_config, registry + " --threads 1"}) {
    for (const char* verb : {"build ", "bench --quiet "}) {
      const std::string first = text_of(verb + std::string(kProblem) + options, 1);
      constexpr std::string_view kProgram = " tessera ";
      const size_t at = first.find(kProgram, first.find("reproduce: ")) + kProgram.size();
      ASSERT_GE(at, kProgram.size()) << first;
      const std::string line = first.substr(at, first.find('\n', at) - at);
      const std::string second = text_of(line, 1);
      const auto why = [](const std::string& text) {  // without the row's name
        const size_t colon = text.find("unsupported: ");
        return text.substr(std::min(colon, text.size()),
                           text.find('\n', std::min(colon, text.size())) - colon);
      };
      EXPECT_EQ(why(first), why(second)) << line;
    }
  }
}

TEST(Cli, OperandsBeyondTheMemoryAreRefusedBeforeTheyAreFilled) {
  for (const char* verb : {"run", "bench"}) {
    const std::string text = text_of(std::string(verb) + " 'gemm m=68719476736 n=1 k=1 dtype=f32'", 1);
    EXPECT_NE(text.find("of memory"), std::string::npos) << text;
  }
}

TEST(Cli, OutputThatDoesNotArriveIsAnError) {
  for (const char* command : {"version", "arch list", "emit 'gemm m=20 n=24 k=28 dtype=f32'", "help run"}) {
    const std::string text = text_of(std::string(command) + " 2>&1 >/dev/full", 1);
    EXPECT_NE(text.find("cannot write the output: No space left"), std::string::npos) << command << text;
  }
}

TEST(Cli, HelpNamesEveryCommandAndCompletionToo) {
  for (const char* asked : {"--help", "-h", ""}) EXPECT_EQ(text_of(asked), text_of("help")) << asked;
  const std::string help = text_of("help");
  const std::string bash = text_of("completion bash"), zsh = text_of("completion zsh"),
                    fish = text_of("completion fish");
  for (const char* verb : {"run", "explain", "emit", "generate", "arch", "build", "cache", "pack", "bench",
                           "registry", "doctor", "completion", "help", "version"}) {
    EXPECT_TRUE(has(help, verb)) << verb;
    EXPECT_TRUE(has(text_of("help " + std::string(verb)), "tessera " + std::string(verb)));
    EXPECT_TRUE(has(bash, verb) && has(zsh, verb) && has(fish, verb)) << verb;
  }
  EXPECT_EQ(run_process({"bash", "-n"}, bash, 10).code, 0);
  text_of("completion tcsh", 2);
}

// Words that bash completes a line's last word with.
std::string completed(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += " '" + word + "'";
  const ProcessResult r = run_process({"bash"},
                                      text_of("completion bash") + "\nCOMP_WORDS=(tessera" + line +
                                          ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_tessera\n"
                                          "echo \" ${COMPREPLY[*]} \"\n",
                                      10);
  EXPECT_EQ(r.code, 0) << r.out;
  return r.out;
}

TEST(Cli, CompletionKnowsValuesAndVerbs) {
  EXPECT_EQ(completed({"exp"}), " explain \n");
  EXPECT_EQ(completed({"--threads", "2", "exp"}), " explain \n");
  EXPECT_EQ(completed({"--threads", "2", "--json", "run", "--pol"}), " --policy \n");
  EXPECT_EQ(completed({"--device", "null", ":", "gfx942", "exp"}), " explain \n");
  EXPECT_EQ(completed({"generate", "--preselected", "ess"}), " essential \n");
  EXPECT_EQ(completed({"generate", "--variant", "pre"}), " preshuffle \n");
  EXPECT_EQ(completed({"run", "--device", "null:gfx942"}), " null:gfx942 \n");
  EXPECT_EQ(completed({"run", "--device", "null", ":", "gfx942"}), " gfx942 \n");
  EXPECT_TRUE(has(completed({"run", "--device", "null", ":"}), " gfx942 "));
  EXPECT_TRUE(has(completed({"run", "--device", ""}), " cpu "));
  EXPECT_EQ(completed({"generate", "--devi"}), "  \n");
  EXPECT_EQ(completed({"run", "gemm", "stride_"}), " stride_a= stride_b= stride_c= \n");
  EXPECT_EQ(completed({"run", "--policy", "model"}), " model model_topk \n");
  EXPECT_EQ(completed({"run", "--policy", "=", "model"}), " model model_topk \n");
  EXPECT_EQ(completed({"run", "gemm", "m", "=", "4", "dtype", "=", "b"}), " bf16 \n");
  EXPECT_EQ(completed({"run", "gemm", "layout", "="}), " rcr rrr crr ccr channels_last channels_first \n");
  EXPECT_EQ(completed({"sweep", "run", "mine", "--stage", "com"}), " compile \n");
  EXPECT_EQ(completed({"sweep", "run", "mine", "--retry", "time"}), " timed_out \n");
  EXPECT_EQ(completed({"evaluate", "--fold", "tr"}), " train \n");
  EXPECT_EQ(completed({"search", "--strategy", "evo"}), " evolution \n");
  EXPECT_EQ(completed({"bench", "--peers", "onednn,open"}), " onednn,openblas \n");
  EXPECT_EQ(completed({"generate", "--dtype", "f32,b"}), " f32,bf16 \n");
  EXPECT_EQ(completed({"cache", "gc", "--max"}), " --max-mb \n");
  EXPECT_EQ(completed({"cache", "gc", "--rep"}), "  \n");
  EXPECT_EQ(completed({"cache", "verify", "--rep"}), " --repair \n");
  for (const char* shell : {"completion zsh", "completion fish"})
    EXPECT_TRUE(has(text_of(shell), "layout=channels_last") && has(text_of(shell), "dtype=u8xi8")) << shell;
}

}  // namespace
}  // namespace tessera
