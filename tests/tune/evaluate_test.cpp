#include "tune/evaluate.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

Evaluation made_up() {
  Evaluation e{"a<b", {}, 1};
  for (int i = 1; i <= 20; ++i) {
    EvaluatedProblem p{.problem = Problem::parse("gemm m=" + std::to_string(i) + " n=64 k=128 dtype=f32")};
    p.choice = "cpu_packed tile=4x32 inst=1x16x1";
    p.best = "cpu_packed tile=6x64 inst=1x16x1";
    p.best_us = 10;
    p.choice_us = i == 1 ? 20 : 10;
    p.top3_us = 10;
    p.analytic_us = 12.5;
    p.predicted_us = 9;
    e.problems.push_back(p);
  }
  return e;
}

TEST(Evaluate, FiguresAreThoseOfTheTimes) {
  const Json j = to_json(made_up());
  EXPECT_DOUBLE_EQ(j.at("choice").at("mean").as_double(), 0.975);
  EXPECT_DOUBLE_EQ(j.at("choice").at("min").as_double(), 0.5);
  EXPECT_DOUBLE_EQ(j.at("choice").at("median").as_double(), 1);
  EXPECT_DOUBLE_EQ(j.at("top3").at("min").as_double(), 1);
  EXPECT_NEAR(j.at("analytic").at("mean").as_double(), 0.8, 1e-12);
  EXPECT_EQ(j.at("fixed").at("problems").as_int(), 0);
  const Json& interval = j.at("choice").at("mean_interval");
  EXPECT_LT(interval.at(0).as_double(), 0.975);
  EXPECT_GT(interval.at(1).as_double(), 0.975);
  EXPECT_EQ(j.at("regimes").at(0).at("regime").as_string(), "m <= 16");
  EXPECT_EQ(j.at("regimes").at(0).at("problems").as_int(), 16);
}

TEST(Evaluate, ReportNeedsNoOtherFile) {
  const std::string html = to_html(made_up());
  for (const char* part : {"id=\"scores\"", "id=\"distribution\"", "id=\"scatter\"", "id=\"regimes\"",
                           "id=\"worst\"", "a&lt;b", "<circle", "</html>"})
    EXPECT_NE(html.find(part), html.npos) << part;
  for (const char* part : {"http:", "https:", "src=", "href=", "nan", "inf\""})
    EXPECT_EQ(html.find(part), html.npos) << part;
  EXPECT_NE(to_html({"none", {}, 0}).find("0 problems"), std::string::npos);
  EXPECT_EQ(to_csv(made_up()).find("problem,family,efficiency"), 0u);
}

}  // namespace
}  // namespace tessera
