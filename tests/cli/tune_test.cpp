// tessera tune and db: from a measurement to a decision that the dispatcher takes, and through files.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "cli/program.h"
#include "variable.h"

namespace tessera {
namespace {

TEST(Tune, FillsTheDecisionTable) {
  const TempDir dir(temp_directory());
  const std::string db = " --db " + dir.path() + "/tune.sqlite", problem = kProblem;
  const Json tuned = json_of("tune " + problem + " --threads 1 --candidates random:4 --budget-ms 1" + db);
  ASSERT_EQ(tuned.at("decisions").size(), 1u);
  const std::string winner = tuned.at("decisions").at(0).at("config").as_string();
  const auto choice = [&](const std::string& more) {
    return json_of("explain " + problem + " --top 1 " + more).at("choice");
  };
  EXPECT_EQ(choice("--threads 1" + db).at("source").as_string(), "tuned");
  EXPECT_EQ(choice("--threads 1" + db).at("config").as_string(), winner);
  EXPECT_EQ(choice("--threads 2" + db).at("source").as_string(), "model");
  EXPECT_EQ(choice("--threads 1 --db none").at("source").as_string(), "model");
  EXPECT_EQ(json_of("run " + problem + " --threads 1 --policy tuned --budget-ms 0" + db).at("config"),
            Json(winner));

  EXPECT_EQ(json_of("db query" + db).at("found").as_int(), 4);
  EXPECT_EQ(json_of("db best" + db).at("best").at(0).at("config").as_string(), winner);
  EXPECT_EQ(json_of("db decisions" + db).at("decisions").at(0).at("config").as_string(), winner);
  EXPECT_EQ(json_of("db verify" + db).at("wrong").size(), 0u);
  const std::string file = dir.path() + "/all.json", again = dir.path() + "/again.json",
                    other = " --db " + dir.path() + "/other.sqlite";
  EXPECT_EQ(json_of("db export " + file + db).at("measurements").as_int(), 4);
  EXPECT_EQ(json_of("db import " + file + other).at("added").as_int(), 4);
  text_of("db export " + again + other);
  EXPECT_EQ(read_file(again), read_file(file));
  EXPECT_EQ(json_of("db merge " + dir.path() + "/tune.sqlite" + other).at("added").as_int(), 0);
  text_of("db export " + dir.path() + "/all.csv" + db);
  const std::string times = dir.path() + "/some.times", renewed = dir.path() + "/renewed.times";
  text_of("db export " + times + db);
  const Json onto = json_of("db export " + renewed + " --onto " + times + db);
  EXPECT_EQ(onto.at("renewed").as_int(), 1);
  EXPECT_EQ(onto.at("levelled").as_int(), 0);
  EXPECT_EQ(onto.at("problems").as_int(), 1);
  EXPECT_EQ(read_file(renewed), read_file(times));
  text_of("db export " + renewed + " --onto " + file + db, 1);  // no file of times
  EXPECT_EQ(read_file(dir.path() + "/all.csv").find("arch,units,processor,problem,config"), 0u);

  EXPECT_EQ(json_of("db decisions --forget --problem other*" + db).at("decisions").size(), 0u);
  EXPECT_EQ(choice("--threads 1" + db).at("source").as_string(), "tuned");
  EXPECT_EQ(json_of("db decisions --forget --problem gemm*" + db).at("decisions").size(), 1u);
  EXPECT_EQ(choice("--threads 1" + db).at("source").as_string(), "model");
}

TEST(Tune, ProblemsWithoutARightKernelAreNamed) {
  const TempDir dir(temp_directory());
  const std::string compiler = dir.path() + "/compiler";
  write_file(compiler, "#!/bin/sh\nexit 4\n");
  chmod(compiler.c_str(), 0755);
  const Variable broken("TESSERA_CXX", compiler);
  const std::string text =
      text_of(std::string("tune ") + kUnpackedProblem + " --threads 1 --candidates random:2 --quiet --db " +
                  dir.path() + "/tune.sqlite --cache-dir " + dir.path() + "/cache",
              1);
  EXPECT_NE(text.find("no configuration ran right"), std::string::npos) << text;
  EXPECT_NE(text.find("reproduce: "), std::string::npos) << text;
}

TEST(Tune, WrongWordsAreRefused) {
  text_of("db export out.txt", 2);
  text_of("db query --outcome odd", 2);
  text_of("db decisions --outcome ok", 2);
  text_of("db", 2);
  text_of("db query --db /nonexistent/tune.sqlite", 1);
  const TempDir dir(temp_directory());
  write_file(dir.path() + "/bad.json", "{}");
  const std::string none = dir.path() + "/none.sqlite";
  for (const std::string& verb : {"import " + dir.path() + "/bad.json", "merge " + dir.path() + "/no.sqlite",
                                  std::string("best --decide"), std::string("decisions --forget")}) {
    text_of("db " + verb + " --db " + none, 1);
    EXPECT_FALSE(path_exists(none)) << verb;
  }
  text_of(std::string("explain ") + kProblem + " --db /nonexistent/tune.sqlite", 1);
}

}  // namespace
}  // namespace tessera
