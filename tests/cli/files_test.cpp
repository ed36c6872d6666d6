// The verbs that make and read files: generate, pack, registry; and explain --time.
#include <sys/stat.h>

#include "base/fs.h"
#include "program.h"
#include "variable.h"

namespace tessera {
namespace {

class Files : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return dir_.path() + '/' + name; }

  TempDir dir_{temp_directory()};
};

TEST_F(Files, GenerateWritesASet) {
  const std::string arguments =
      "generate --arch x86_avx2 --dtype f32,i8 --layout rcr,rrr --preselected latency";
  const Json j = json_of(arguments + " --out " + path("set"));
  EXPECT_EQ(keys(j), (std::set<std::string>{"arch", "variant", "kernels", "files", "manifest"}));
  EXPECT_EQ(j.at("manifest").as_string(), path("set/manifest.json"));
  const Json manifest = Json::parse(read_file(j.at("manifest").as_string()));
  EXPECT_EQ(static_cast<int64_t>(manifest.at("kernels").size()), j.at("kernels").as_int());
  // The registry of the set is one that the other verbs take.
  EXPECT_TRUE(json_of("registry check " + path("set/registry.json")).at("valid").as_bool());
  text_of(arguments + " --out " + path("set"), 1);  // not empty any more
  EXPECT_TRUE(has(text_of("generate --preselected list"), "essential"));
  write_file(path("taken"), "");
  EXPECT_TRUE(has(text_of("generate --dtype f32 --out " + path("taken"), 1), "it is a file"));
  text_of("generate --dtype f32", 2);
  EXPECT_FALSE(path_exists(path("x")));
}

TEST_F(Files, PackRunsWithoutACompiler) {
  const std::string pack = path("mine.pack");
  const Json made = json_of(std::string("pack create ") + kUnpackedProblem + " --threads 1 --out " + pack);
  EXPECT_EQ(made.at("kernels").as_int(), 1);
  EXPECT_TRUE(has(text_of("pack list " + pack), "m=20 n=24 k=28"));
  EXPECT_EQ(json_of("pack check " + pack).at(0).at("damaged").size(), 0u);

  Variable no_compiler("TESSERA_CXX", "/nonexistent"), empty("TESSERA_CACHE_DIR", path("empty"));
  const std::string run = std::string("run ") + kUnpackedProblem + " --threads 1 --budget-ms 1";
  const std::string refused = text_of(run, 1);
  EXPECT_TRUE(has(refused, "compile_failed") && has(refused, "pack of prebuilt kernels")) << refused;
  const Json j = json_of(run + " --pack " + pack);
  EXPECT_TRUE(j.at("verified").as_bool());
  EXPECT_TRUE(j.at("cached").as_bool());

  std::string bytes = read_file(pack);
  bytes[bytes.find("\x7f"
                   "ELF") +
        200] ^= 1;
  write_file(path("bad.pack"), bytes);
  write_file(path("none.pack"), "no pack");
  // All are looked at, and JSON speaks of each.
  const Outcome checked =
      shell("pack check " + path("none.pack") + " " + path("bad.pack") + " " + pack + " --json", false);
  EXPECT_EQ(checked.status, 1);
  const Json each = Json::parse(checked.text, "pack check");
  EXPECT_TRUE(has(each.at(0).at("error").as_string(), "shorter than a header")) << checked.text;
  EXPECT_EQ(each.at(1).at("damaged").size(), 1u);
  EXPECT_EQ(each.at(2).at("damaged").size(), 0u);
  EXPECT_TRUE(each.at(2).at("of_this_build").as_bool());
  text_of(run + " --pack " + path("absent.pack"), 1);
}

TEST_F(Files, StandardOutputIsWrittenBehindWhatIsThere) {
  write_file(path("log"), "before\n");
  const std::string bench = std::string("bench ") + kProblem + " --threads 1 --budget-ms 0 --csv /dev/stdout";
  EXPECT_EQ(shell(bench + " >> " + path("log"), false).status, 0);
  const std::string log = read_file(path("log"));
  EXPECT_TRUE(log.starts_with("before\nname,op,") && has(log, "\n1 problems on ")) << log;
}

TEST_F(Files, PackGrowsAndHoldsTheMostChosen) {
  Variable same_choices("TESSERA_ARCH", "x86_avx2");  // on every processor
  const std::string out = " --threads 1 --out " + path("mine.pack");
  const std::string other = "'gemm m=200 n=200 k=200 dtype=f16' ";  // another kernel than small problems take
  EXPECT_EQ(json_of(std::string("pack create ") + kUnpackedProblem + out).at("kernels").as_int(), 1);
  const Json both = json_of("pack create --add " + other + out);
  EXPECT_EQ(both.at("kernels").as_int(), 2);
  EXPECT_EQ(both.at("decisions").as_int(), 2);

  const std::string three = "'gemm m=20 n=24 k=32 dtype=f16' " + other + kUnpackedProblem;
  const Json most = json_of("pack create --cover 60 " + three + out);
  EXPECT_EQ(most.at("kernels").as_int(), 1);
  EXPECT_EQ(most.at("decisions").as_int(), 2);
  EXPECT_EQ(json_of("pack create --cover 67 " + three + out).at("kernels").as_int(), 2);
  text_of("pack create --cover 0 " + three + out, 2);
  text_of(std::string("pack create --add ") + kUnpackedProblem + " --out " + path("absent.pack"), 1);
}

// As on a machine where nothing is installed: no g++, clang++ or c++ on PATH.
TEST_F(Files, PackRunsWithAnEmptyPath) {
  const std::string pack = path("mine.pack");
  text_of(std::string("pack create ") + kUnpackedProblem + " --threads 1 --out " + pack);
  const ProcessResult r = run_process(
      {TESSERA_BINARY_DIR "/bin/tessera", "run", "gemm m=20 n=24 k=28 dtype=f16", "--threads", "1",
       "--budget-ms", "1", "--pack", pack},
      "", 60, {"PATH=" + dir_.path(), "TESSERA_CXX=", "CXX=", "TESSERA_CACHE_DIR=" + path("empty")});
  EXPECT_TRUE(r.ok()) << r.out;
  EXPECT_TRUE(has(r.out, "from pack") && has(r.out, "right")) << r.out;
}

// Before anything is built or measured: the compiler of these would fail.
TEST_F(Files, OutputPathsAreCheckedFirst) {
  Variable no_compiler("TESSERA_CXX", "/nonexistent"), empty("TESSERA_CACHE_DIR", path("empty"));
  const std::string problem = std::string(kUnpackedProblem) + " --threads 1 ";
  for (const std::string& command :
       {"bench " + problem + "--csv ", "bench --json " + problem + "--csv ",
        "pack create " + problem + "--out ", std::string("registry merge absent --out ")}) {
    const std::string absent = text_of(command + path("no/x.csv"), 1);
    EXPECT_TRUE(has(absent, "error: io: cannot write '" + path("no/x.csv") + "': there is no directory '" +
                                path("no") + "'; create it, or name another file"))
        << absent;
    const std::string directory = text_of(command + dir_.path(), 1);
    EXPECT_TRUE(has(directory, "cannot write '" + dir_.path() + "': it is a directory; name a file in it"))
        << directory;
  }
}

TEST_F(Files, ResultsArePrintedWhereTheirFileCannotBeWritten) {
  const Outcome o =
      shell(std::string("bench ") + kProblem + " --threads 1 --budget-ms 1 --json --csv /dev/full", false);
  EXPECT_EQ(o.status, 1);
  EXPECT_EQ(Json::parse(o.text).at("rows").size(), 1u);
  EXPECT_TRUE(has(text_of(std::string("bench ") + kProblem + " --threads 1 --budget-ms 1 --csv /dev/full", 1),
                  "cannot write '/dev/full': No space left"));
}

TEST_F(Files, OutputFilesHaveTheModeThatTheUmaskLeaves) {
  const mode_t before = umask(022);
  text_of(std::string("bench ") + kProblem + " --threads 1 --budget-ms 1 --csv " + path("rows.csv"));
  write_file(path("all.txt"), "any *\n");
  text_of("registry merge " + path("all.txt") + " --out " + path("all.json"));
  text_of(std::string("pack create ") + kUnpackedProblem + " --threads 1 --out " + path("mine.pack"));
  umask(before);
  for (const char* name : {"rows.csv", "all.json", "mine.pack"}) {
    struct stat st {};
    ASSERT_EQ(stat(path(name).c_str(), &st), 0) << name;
    EXPECT_EQ(st.st_mode & 07777, 0644u) << name;
  }
}

TEST_F(Files, RegistryDecidesWhatIsChosen) {
  const Json candidates = json_of(std::string("explain ") + kProblem).at("candidates");
  ASSERT_GT(candidates.size(), 2u);
  const std::string last = candidates.at(candidates.size() - 1).at("config").as_string();
  write_file(path("one.txt"), "# the last of them\nexact " + last + "\n");
  write_file(path("all.txt"), "any *\n");
  EXPECT_EQ(json_of("registry check " + path("one.txt")).at("kernels").as_int(), 1);
  EXPECT_TRUE(has(text_of("registry list " + path("one.txt")), last));
  const Json run =
      json_of(std::string("run ") + kProblem + " --threads 1 --budget-ms 1 --registry " + path("one.txt"));
  EXPECT_EQ(run.at("config").as_string(), last);
  EXPECT_TRUE(run.at("verified").as_bool());

  text_of("registry merge " + path("one.txt") + " " + path("all.txt") + " --out " + path("both.json"));
  EXPECT_EQ(json_of("registry check " + path("both.json")).at("kernels").as_int(), 2);
  write_file(path("bad.txt"), "exact cpu_packed tiles=6x16\n");
  EXPECT_TRUE(has(text_of("registry check " + path("bad.txt"), 1), "tiles"));
  write_file(path("empty.txt"), "# nothing yet\n");
  EXPECT_TRUE(has(text_of("registry check " + path("empty.txt"), 1), "declares no kernel"));
  const Json merged = json_of("registry merge " + path("one.txt") + " --out " + path("one.json"));
  EXPECT_EQ(merged.at("file").as_string(), path("one.json"));
  EXPECT_EQ(merged.at("kernels").as_int(), 1);
  text_of("registry check " + path("absent.txt"), 1);
  text_of("registry check", 2);
}

TEST_F(Files, ExplainTimesItsCandidates) {
  const Json j = json_of(std::string("explain ") + kProblem + " --time --top 3 --threads 1 --budget-ms 1");
  ASSERT_EQ(j.at("candidates").size(), 3u);
  for (const Json& c : j.at("candidates").items()) EXPECT_GT(c.at("time_us").as_double(), 0);
  EXPECT_TRUE(has(text_of(std::string("explain ") + kProblem + " --time --top 2 --threads 1 --budget-ms 1"),
                  "measured"));
}

}  // namespace
}  // namespace tessera
