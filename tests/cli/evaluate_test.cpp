// tessera evaluate: from a file of times, in parts that meet in a directory.
#include <gtest/gtest.h>

#include "base/fs.h"
#include "cli/program.h"

namespace tessera {
namespace {

TEST(EvaluateVerb, PartsMeetInADirectory) {
  const TempDir dir(temp_directory());
  const std::string times = dir.path() + "/gemm.times";
  const std::string one = "gemm m=1 n=128 k=1024 dtype=f32 layout=rrr",
                    two = "gemm m=1 n=64 k=1216 dtype=f32 layout=rrr";  // of a network in the fold for tests
  std::string db;
  // Times of a core that others shared are left out, and a busy machine shares its cores.
  for (int attempt = 0; attempt < 4; ++attempt) {
    db = " --db " + dir.path() + "/tune" + std::to_string(attempt) + ".sqlite";
    text_of("tune '" + one + "' '" + two + "' --threads 1 --candidates guided:3 --budget-ms 1" + db);
    text_of("db export " + times + db);
    const std::string text = read_file(times);
    if (text.find(one) != std::string::npos && text.find(two) != std::string::npos) break;
  }
  const std::string judge =
      "evaluate --model analytic --budget-ms 1 --data " + times + " --directory " + dir.path() + "/fresh";
  const Json first = json_of(judge + " --shard 1/2");
  EXPECT_EQ(first.at("problems").as_int(), 1);
  EXPECT_EQ(first.at("left_out").as_int(), 1);
  EXPECT_EQ(json_of(judge + " --shard 2/2").at("problems").as_int(), 2);
  // Nothing is left to time: the same once more.
  const Json whole = json_of(judge);
  EXPECT_EQ(whole.at("problems").as_int(), 2);
  EXPECT_EQ(json_of(judge).at("rows"), whole.at("rows"));

  text_of(judge + " --fold valid", 1);
  text_of("evaluate --model analytic --shard 1/2 --data " + times, 2);
  // Other times are another evaluation.
  text_of(
      "tune 'gemm m=1 n=64 k=1216 dtype=bf16 layout=rrr' --threads 1 --candidates guided:3 --budget-ms 1" +
      db);
  text_of("db export " + times + db);
  EXPECT_NE(text_of(judge, 1).find("another evaluation"), std::string::npos);
}

}  // namespace
}  // namespace tessera
