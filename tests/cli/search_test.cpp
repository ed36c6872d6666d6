// tessera search: what it finds, and that the database gets the decision.
#include <gtest/gtest.h>

#include "base/fs.h"
#include "cli/program.h"

namespace tessera {
namespace {

TEST(Search, EveryStrategyMeasuresItsBudget) {
  for (const std::string strategy : {"model", "random", "evolution"}) {
    SCOPED_TRACE(strategy);
    const Json found = json_of(std::string("search ") + kProblem +
                               " --threads 1 --budget 6 --budget-ms 1 --strategy " + strategy);
    EXPECT_EQ(found.at("measured").as_int(), 6);
    EXPECT_EQ(found.at("right").as_int(), 6);
    EXPECT_GT(found.at("legal").as_int(), 6);
    // The model's choice is among them, so the best is at least as fast.
    EXPECT_GE(found.at("ratio").as_double(), 1);
    EXPECT_EQ(found.at("model").at("config"),
              json_of(std::string("explain ") + kProblem + " --threads 1 --db none --top 1")
                  .at("choice")
                  .at("config"));
  }
}

TEST(Search, DecidesInTheDatabaseThatIsNamed) {
  const TempDir dir(temp_directory());
  const std::string db = " --db " + dir.path() + "/found.sqlite";
  const Json found =
      json_of(std::string("search ") + kProblem + " --threads 1 --budget 3 --budget-ms 1" + db);
  const Json choice = json_of(std::string("explain ") + kProblem + " --threads 1 --top 1" + db).at("choice");
  EXPECT_EQ(choice.at("source").as_string(), "tuned");
  EXPECT_EQ(choice.at("config"), found.at("best").at("config"));
  EXPECT_EQ(json_of("db query" + db).at("found").as_int(), 3);
  // As typed, and as it is stored.
  EXPECT_EQ(json_of(std::string("db query --problem ") + kProblem + db).at("found").as_int(), 3);
  EXPECT_EQ(json_of("db query --problem '*dtype=f32*'" + db).at("found").as_int(), 3);
}

TEST(Search, WrongWordsAreRefused) {
  EXPECT_NE(text_of(std::string("search ") + kProblem + " --strategy luck", 2)
                .find("one of model random evolution"),
            std::string::npos);
  text_of(std::string("search ") + kProblem + " --budget 0", 2);
  text_of("search", 2);
}

}  // namespace
}  // namespace tessera
