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

TEST(Evaluate, HitsAndRegimesOfConvolutions) {
  Evaluation e = made_up();
  const Json j = to_json(e);
  EXPECT_DOUBLE_EQ(j.at("choice").at("hit").as_double(), 0.95);
  EXPECT_DOUBLE_EQ(j.at("top3").at("hit").as_double(), 1);
  EXPECT_FALSE(j.find("peer"));
  EXPECT_FALSE(j.find("importance"));
  e.problems.resize(1);
  const auto regimes_of = [&](const char* problem) {
    e.problems[0].problem = Problem::parse(problem);
    std::string out;
    const Json all = to_json(e);
    for (const Json& r : all.at("regimes").items()) out += r.at("regime").as_string() + ";";
    return out;
  };
  EXPECT_EQ(regimes_of("conv_fwd n=4 g=32 c=1 k=1 in=28x28 filter=3x3 pad=1x1 dtype=f32"),
            "k <= 64;unaligned;grouped;depthwise;");
  EXPECT_EQ(regimes_of("conv_fwd n=4 g=1 c=64 k=64 in=56x56 filter=3x3 stride=2x2 pad=1x1 dtype=f32"),
            "strided;");
  EXPECT_EQ(regimes_of("conv_fwd n=4 g=1 c=64 k=64 in=8x56x56 filter=1x3x3 dtype=f32"), "3-D;");
  EXPECT_EQ(regimes_of("conv_fwd n=4 g=1 c=64 k=64 in=56x56 filter=3x3 pad=1x1 dtype=f32"), "others;");
}

TEST(Evaluate, APeerHasItsColumn) {
  Evaluation e = made_up();
  e.peer = "some<lib";
  for (size_t i = 0; i < e.problems.size(); ++i) e.problems[i].peer_us = i == 3 ? 0 : 20;
  const Json j = to_json(e);
  EXPECT_EQ(j.at("peer").at("name").as_string(), "some<lib");
  EXPECT_EQ(j.at("peer").at("problems").as_int(), 19);
  EXPECT_DOUBLE_EQ(j.at("peer").at("mean").as_double(), 0.5);
  EXPECT_DOUBLE_EQ(j.at("rows").at(0).at("peer_us").as_double(), 20);
  const std::string csv = to_csv(e), html = to_html(e);
  EXPECT_NE(csv.find(",best_us,peer_us\n"), csv.npos);
  EXPECT_NE(html.find("<th>some&lt;lib / choice</th>"), html.npos);
  EXPECT_NE(html.find("<td>2.00</td>"), html.npos);
  EXPECT_NE(html.find("<td>not offered</td>"), html.npos);
}

TEST(Evaluate, ALearnedModelShowsWhatItAsksFor) {
  Evaluation e = made_up();
  e.importance = {{"log2_m", 0.75}, {"tile<n", 0.25}};
  const std::string html = to_html(e);
  EXPECT_NE(html.find("id=\"importance\""), html.npos);
  EXPECT_NE(html.find("75.0%"), html.npos);
  EXPECT_NE(html.find("tile&lt;n"), html.npos);
  EXPECT_EQ(to_json(e).at("importance").at(1).at("feature").as_string(), "tile<n");
  EXPECT_EQ(to_html(made_up()).find("id=\"importance\""), html.npos);
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
