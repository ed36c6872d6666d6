// What the command line takes and what it refuses: every refusal is exit status 2 and names the option.
#include "base/fs.h"
#include "program.h"

namespace tessera {
namespace {

const std::string kPlain = std::string(kProblem) + " ";

// A usage error that says `part`.
void refused(const std::string& arguments, std::string_view part) {
  const std::string text = text_of(arguments, 2);
  EXPECT_TRUE(text.starts_with("error: ") && has(text, part) && has(text, "\nusage: tessera "))
      << arguments << '\n'
      << text;
}

class Options : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return dir_.path() + '/' + name; }

  TempDir dir_{temp_directory()};
};

TEST_F(Options, RowSelectionNeedsASuite) {
  write_file(path("list.txt"), "gemm m=20 n=24 k=28 dtype=f32\n");
  for (const char* verb :
       {"run ", "explain ", "emit ", "search ", "bench ", "build ", "tune ", "pack create --out x "}) {
    refused(verb + kPlain + "--dtype bf16", "--dtype is for the rows of a suite");
    refused(verb + kPlain + "--name odd", "--name is for the rows of a suite");
  }
  refused("build " + path("list.txt") + " --dtype zz", "--dtype is for the rows of a suite");
  refused("sweep plan " + path("plan") + ' ' + kPlain + "--dtype f32", "--dtype is for the rows of a suite");
  refused("sweep plan " + path("plan") + " --generate wide:1 --name odd",
          "--name is for the rows of a suite");
  EXPECT_EQ(json_of("sweep plan " + path("plan") +
                    " --generate linear:1 --dtype f32 --threads 1 --candidates random:1 " + kPlain)
                .at("problems")
                .as_int(),
            2);
}

TEST_F(Options, RowsThatAreNotThereAreUsageErrors) {
  for (const char* verb : {"run", "explain", "emit", "bench", "build", "tune", "pack create --out x"}) {
    refused(std::string(verb) + " --suite cpu_gemm --name nope", "nope");
    refused(std::string(verb) + " --suite cpu_gemm --name bert-base.fc1_b1 --dtype zz", "zz");
  }
}

TEST_F(Options, EmptyValuesAreRefused) {
  for (const char* option : {"--registry", "--model", "--pack", "--db", "--cache-dir", "--config", "--suite"})
    refused("run " + kPlain + option + " ''", std::string(option) + " needs a value");
  for (const char* option : {"--preselected", "--config-file", "--out"})
    refused("generate --dtype f32 --out " + path("set") + ' ' + option + " ' '", "needs a value");
  refused("generate --out x --dtype ,", "--dtype needs a value");
  refused("bench " + kPlain + "--csv=", "--csv needs a value");
}

TEST_F(Options, UnusedOptionsAreRefused) {
  refused("generate --dtype f32 --out x --device null:gfx942", "'generate' does not take --device");
  refused("generate --dtype f32 --out x --config cpu_packed", "'generate' does not take --config");
  refused("arch list --threads 2", "'arch list' does not take --threads");
  for (const char* option : {"--model", "--db", "--registry"})
    refused(std::string("doctor ") + option + " /nonexist", std::string("'doctor' does not take ") + option);
  refused("registry list --out x " + path("a"), "does not take --out, only: merge");
  refused("cache stats --repair", "does not take --repair, only: verify");
  refused("pack list --suite cpu_gemm", "does not take --suite, only: create");
  refused("sweep run " + path("a") + " --device cpu", "does not take --device, only: plan");
  refused("db import x --outcome ok", "does not take --outcome");
  refused("version --threads 2", "does not take --threads");
  for (const char* verb : {"help", "help run", "completion bash"})
    refused(std::string(verb) + " --json", "does not take --json");
  refused("run --help --json", "--help does not take --json");
}

TEST_F(Options, ContradictionsAreRefused) {
  refused("explain " + kPlain + "--device null:gfx942 --arch gfx90a", "contradict");
  refused("explain " + kPlain + "--device cpu --arch gfx90a", "contradict");
  json_of("explain " + kPlain + "--top 1 --device null:gfx90a --arch gfx90a");
  refused("run " + kPlain + "--device cpu:4 --threads 2", "contradict");
  EXPECT_EQ(json_of("run " + kPlain + "--budget-ms 0 --device cpu:1 --threads 1").at("device").as_string(),
            "cpu:1");
  refused("run --suite cpu_gemm --suite gemm --name x", "--suite is given twice");
  refused("run " + kPlain + "--threads 1 --threads 2", "--threads is given twice");
  refused("run " + kPlain + "--seed 1 --seed 1", "--seed is given twice");
  refused("run " + kPlain + "--policy model --config cpu_packed", "contradict");
  refused("run " + kPlain + "--top-k 3", "--top-k is of --policy model_topk");
  refused("explain " + kPlain + "--time --arch gfx942", "runs no kernels that could be timed");
  refused("explain " + kPlain + "--budget-ms 5", "--budget-ms is of --time");
  refused("explain " + kPlain + "--suggest cpu_dot --top 3", "--suggest and --top contradict");
  refused("run " + kPlain + "--suite gemm", "and --suite contradict each other");
  refused("sweep plan " + path("a") + " " + kPlain + "--extra prepack=b", "--extra is of --generate");
  refused("sweep plan " + path("a") + " " + kPlain + "--layout rcr", "--layout is of --generate");
  refused("bench " + kPlain + "--csv /dev/stdout --json", "would mix with the JSON");
  refused("bench " + kPlain + "--peers onednn,onednn", "peer 'onednn' is named twice");
  refused("generate --preselected list --dtype f32", "--preselected list and --dtype contradict");
  refused("db export " + path("x.csv") + " --units 2", "--units is of a .times file");
}

TEST_F(Options, ADataFileSaysWhatItIsOf) {
  write_file(path("own.times"),
             "{\"version\":1,\"arch\":\"x86_avx2\",\"units\":1,\"processor\":\"p\",\"operation\":\"gemm\"}\n"
             "config cpu_packed tile=4x16 inst=1x8x1\nconfig cpu_packed tile=6x16 inst=1x8x1\n"
             "problem gemm m=64 n=64 k=64 dtype=f32 layout=rcr\n0 3 1 2\n");
  const std::string train = "train --out " + path("own.model") + " --data " + path("own.times");
  refused(train + " --operation conv_fwd", "is of gemm");
  refused(train + " --arch x86_zen4", "is of x86_avx2");
  refused(train + " --units 16", "is of 1");
  refused(train + " --db x.sqlite", "the measurements come from one of them");
}

TEST_F(Options, NumbersHaveRanges) {
  refused("run " + kPlain + "--threads 4294967296", "--threads takes a whole number from 0 to 4096");
  refused("run " + kPlain + "--threads 99999999", "from 0 to 4096");
  refused("run " + kPlain + "--policy model_topk --top-k 4294967297",
          "--top-k takes a whole number from 0 to");
  refused("explain " + kPlain + "--top 99999999999999999999", "--top takes a whole number from 0 to");
  refused("build " + kPlain + "--jobs 3000000000", "--jobs takes a whole number from 0 to");
  refused("generate --dtype f32 --out x --jobs 3000000000", "--jobs takes a whole number from 0 to");
  refused("sweep run " + path("a") + " --jobs 3000000000", "--jobs takes a whole number from 0 to");
  refused("sweep run " + path("a") + " --limit-s 1e18", "--limit-s takes a number from 0.1 to 1000000000");
  refused("sweep run " + path("a") + " --limit-s 0", "--limit-s takes a number from 0.1 to");
  refused("run " + kPlain + "--budget-ms -1", "takes a number from 0 to");
  refused("sweep run " + path("a") + " --repeat 4294967297", "--repeat takes a whole number from 0 to");
  json_of("run " + kPlain + "--threads 1 --budget-ms 0 --seed 9223372036854775807");
}

TEST_F(Options, UnknownWordsAreRefused) {
  refused("generate --out x --dtype f32 --variant odd", "unknown variant 'odd'; one of standard");
  refused("generate --out x --dtype f32 --preselected latencyy", "did you mean 'latency'");
  refused("generate --out x --dtype f99", "f99");
  refused("generate --out x --dtype f32 --layout xyz", "xyz");
  refused("run " + kPlain + "--config foo", "--config 'foo': ");
  refused("sweep plan " + path("a") + " " + kPlain + "--candidates guided", "one of all random:N");
  refused("tune " + kPlain + "--candidates odd:3", "one of all random:N");
  refused("evaluate --fold odd", "odd");
  refused("evaluate --operation gem", "unknown operation 'gem'");
  refused("run " + kPlain + "--policy callback", "unknown policy 'callback'; one of");
  refused("run " + kPlain + "--device cpu:", "unknown device 'cpu:'");
  refused("run 'gemm m=8 \033]0;odd=1'", "\\x1b");
  refused("bench --suite cpu_gemm.csv --csv -", "/dev/stdout");
  refused("sweep plan " + path("a") + " --generate wide:0", "COUNT is 1 to 1000000");
  // Letters that changed places, of the other case; no field that is there already, and none for one letter.
  refused("run gemm m=8 n=8 k=8 dtpye=f32", "did you mean 'dtype='");
  refused("run " + kPlain + "--device null:GFX942", "did you mean 'gfx942'");
  refused("run gemm c=4 m=8 n=8 k=8 dtype=f32", "fields left are layout");
  // An operation that none is, where a file could stand too.
  refused("bench gemn m=8 n=8 k=8 dtype=f32", "unknown operation 'gemn'");
  refused("tune 'conv n=8 c=8'", "unknown operation 'conv'");
  refused("bench gemm 'm=8 n=8' k=8 'gemm m=1 n=1 k=1 dtype=f99'", "the problem has no 'dtype'");
}

TEST_F(Options, MistakesShowTheUsageOfTheVerb) {
  EXPECT_TRUE(has(text_of("explain --top", 2), "error: --top needs a value\nusage: tessera explain "));
  EXPECT_TRUE(has(text_of("explain --bogus", 2), "error: unknown option '--bogus'\nusage: tessera explain "));
  EXPECT_TRUE(has(text_of("arch foo", 2), "\nusage: tessera arch list|show|check "));
  EXPECT_TRUE(has(text_of("run --json=3 " + kPlain, 2), "error: --json takes no value\nusage: tessera run "));
  EXPECT_TRUE(has(text_of("bogus", 2), "\nusage: tessera COMMAND "));
}

TEST_F(Options, TwoDashesEndTheOptions) {
  const std::string text = text_of("run --threads 1 --budget-ms 0 -- gemm m=20 n=24 k=28 dtype=f32");
  EXPECT_TRUE(has(text, "problem   gemm m=20 n=24 k=28 dtype=f32")) << text;
  // What follows is never an option.
  EXPECT_TRUE(has(text_of("arch check -- --json", 1), "cannot read '--json'"));
}

// Files are named as they are; only options that list words are split.
TEST_F(Options, PathsMayHaveCommas) {
  make_directories(path("a,b"));
  write_file(path("a,b/r,1.txt"), "any *\n");
  const std::string threads = "--threads 1 --budget-ms 0 ";
  json_of("run " + kPlain + threads + "--registry " + path("a,b/r,1.txt"));
  text_of(std::string("pack create ") + kUnpackedProblem + " --threads 1 --out " + path("a,b/k.pack"));
  EXPECT_TRUE(json_of(std::string("run ") + kUnpackedProblem + ' ' + threads + "--cache-dir " +
                      path("empty") + " --pack " + path("a,b/k.pack"))
                  .at("cached")
                  .as_bool());
  write_file(path("a,b/s.csv"), read_file(TESSERA_SOURCE_DIR "/suites/demo_bert_base.csv"));
  EXPECT_GT(json_of("build --threads 1 --dtype f32 --suite " + path("a,b/s.csv")).at("built").as_int(), 0);
}

}  // namespace
}  // namespace tessera
