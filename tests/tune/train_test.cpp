#include "tune/train.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/fs.h"
#include "core/gemm_view.h"
#include "model/forest_rows.h"
#include "space/space.h"
#include "tessera/error.h"
#include "tune/problem_generator.h"

namespace tessera {
namespace {

const ArchSpec& arch() { return find_arch("x86_avx512"); }

bool xgboost_missing() {
  std::string why;
  return xgboost_version(&why).empty();
}

// Times of a made-up machine: the analytic model's, but tiles of some widths are slower than it thinks.
double made_up(const KernelConfig& c, double analytic_us) {
  return analytic_us * (c.tile_n >= 48 ? 1.6 : 1) * (c.pack_a ? 1.2 : 1);
}

TrainingData made_up_data(int problems) {
  TempDir dir(temp_directory());
  Database db(dir.path() + "/x.sqlite", Database::Mode::write);
  std::vector<Measurement> all;
  for (const SuiteRow& row : generate_problems("wide:" + std::to_string(problems), {.max_flops = 1e8})) {
    const GemmView v = lower(row.problem);
    const auto configs = legal_configs(v, arch());
    std::vector<double> us(configs.size());
    analytic_model().predict(v, arch(), configs, us);
    for (size_t i = 0; i < configs.size(); i += 3) {
      SweepRecord r{.problem = to_string(row.problem), .config = to_string(configs[i])};
      r.outcome = SweepOutcome::ok;
      r.median_us = r.best_us = made_up(configs[i], us[i]);
      r.samples = {r.median_us};
      r.time = 1;
      Measurement& m = all.emplace_back();
      m.device = {"x86_avx512", 1, "made up"};
      m.record = r;
      m.tool = "0";
    }
  }
  db.add(all);
  return training_data(db, "x86_avx512", "gemm");
}

// Of one session the least sample counts, of an older one none, and nothing where the last run was wrong.
TEST(TrainingData, TakesTheLeastOfTheLatestMeasurements) {
  TempDir dir(temp_directory());
  Database db(dir.path() + "/x.sqlite", Database::Mode::write);
  const Problem problem = Problem::parse("gemm m=100 n=90 k=80 dtype=f32");
  const auto configs = legal_configs(lower(problem), arch());
  constexpr int64_t kHour = 3600, kNow = 100 * kHour;
  std::vector<Measurement> all;
  const auto add = [&](size_t config, int64_t time, double us, SweepOutcome outcome = SweepOutcome::ok) {
    Measurement& m = all.emplace_back();
    m.device = {"x86_avx512", 1, "made up"};
    m.record = {.problem = to_string(problem), .config = to_string(configs.at(config)), .outcome = outcome};
    m.record.best_us = m.record.median_us = us;
    m.record.time = time;
    m.tool = "0";
  };
  add(0, kNow, 7);
  add(0, kNow - kHour, 5);
  add(0, kNow - 50 * kHour, 3);
  add(1, kNow, 6);
  add(2, kNow - kHour, 1);
  add(2, kNow, 0, SweepOutcome::wrong);
  db.add(all);
  const TrainingData data = training_data(db, "x86_avx512", "gemm");
  ASSERT_EQ(data.problems.size(), 1u);
  std::map<std::string, double> us;
  for (size_t i = 0; i < data.problems[0].configs.size(); ++i)
    us[to_string(data.problems[0].configs[i])] = data.problems[0].us[i];
  EXPECT_EQ(us, (std::map<std::string, double>{{to_string(configs[0]), 5}, {to_string(configs[1]), 6}}));
}

// Times beside a slow anchor are left out; where that leaves none, the message says so.
TEST(TrainingData, SaysWhatSlowMomentsCost) {
  TempDir dir(temp_directory());
  Database db(dir.path() + "/x.sqlite", Database::Mode::write);
  const Problem problem = Problem::parse("gemm m=100 n=90 k=80 dtype=f32");
  const auto configs = legal_configs(lower(problem), arch());
  std::vector<Measurement> all;
  for (const size_t i : {0, 1}) {
    Measurement& m = all.emplace_back();
    m.device = {"x86_avx512", 1, "made up"};
    m.record = {
        .problem = to_string(problem), .config = to_string(configs.at(i)), .outcome = SweepOutcome::ok};
    m.record.best_us = m.record.median_us = 5;
    m.record.anchor_us = i == 0 ? 10 : 16;
    m.record.time = 1;
    m.tool = "0";
  }
  db.add(all);
  try {
    training_data(db, "x86_avx512", "gemm");
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("left out: 1 taken while"), std::string::npos) << e.what();
  }
}

TEST(Train, LearnsWhatTheAnalyticModelDoesNotKnowAndIsReproducible) {
  if (xgboost_missing()) GTEST_SKIP() << "no XGBoost";
  const TrainingData data = made_up_data(60);
  const TrainOptions options{.rounds = 60, .patience = 60, .threads = 1};
  const TrainResult a = train(data, options), b = train(data, options);
  EXPECT_EQ(a.model->bytes(), b.model->bytes());
  EXPECT_EQ(a.manifest.dump(), b.manifest.dump());
  const Json& valid = a.manifest.at("folds").at("valid");
  EXPECT_GT(valid.at("model").at("mean").as_double(), 0.98);
  EXPECT_LT(valid.at("analytic").at("mean").as_double(), valid.at("model").at("mean").as_double());

  TrainOptions more{.rounds = 20, .patience = 60, .threads = 1};
  more.start = a.model;
  const TrainResult c = train(data, more);
  EXPECT_GT(c.model->forest().trees(), a.model->forest().trees());
}

// What all configurations of a problem take longer by, which nothing predicts, is no matter for its choice.
TEST(Train, DifferencesWithinAProblemCountMoreThanItsLevel) {
  if (xgboost_missing()) GTEST_SKIP() << "no XGBoost";
  TrainingData data = made_up_data(60);
  uint64_t state = 1;
  for (MeasuredProblem& p : data.problems) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const double factor = std::exp2(static_cast<double>(state >> 61));
    for (double& us : p.us) us *= factor;
    p.best_us *= factor;
  }
  const auto trained = [&](double level) {
    TrainOptions o{.rounds = 30, .patience = 60, .threads = 1};
    o.rate = 0.1;
    o.level = level;
    return train(data, o);
  };
  const auto mean = [](const TrainResult& r) {
    return r.manifest.at("folds").at("valid").at("model").at("mean").as_double();
  };
  const TrainResult a = trained(0.1);
  EXPECT_EQ(a.model->bytes(), trained(0.1).model->bytes());
  EXPECT_GT(mean(a), mean(trained(1)));
  EXPECT_GT(mean(a), 0.98);
}

// Over more than 10^5 rows, our sums are XGBoost's bit for bit.
TEST(Train, OurInferenceIsXgboostsBitForBit) {
  if (xgboost_missing()) GTEST_SKIP() << "no XGBoost";
  constexpr size_t kColumns = 20, kRows = 20000, kWatched = 110000;
  uint64_t state = 88172645463325252u;
  const auto draw = [&] {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return static_cast<float>(state >> 40) / static_cast<float>(1 << 22);
  };
  const auto matrix = [&](size_t rows) {
    TrainingMatrix m;
    m.columns = kColumns;
    for (size_t i = 0; i < rows * kColumns; ++i)
      m.features.push_back(i % 3 ? draw() : std::floor(draw() * 4));
    for (size_t r = 0; r < rows; ++r) {
      const float* x = m.features.data() + r * kColumns;
      m.target.push_back(std::sin(x[0] * 3) + x[1] * x[2] - (x[3] > 2 ? x[4] : 0));
    }
    return m;
  };
  const TrainingMatrix data = matrix(kRows), watched = matrix(kWatched);
  const Trained t = train_forest(
      data, watched, {{"tree_method", "hist"}, {"max_depth", "6"}, {"base_score", "0"}, {"nthread", "1"}}, 60,
      60, [](int, auto) { return true; });
  ASSERT_EQ(t.forest.trees(), 60u);
  ASSERT_EQ(t.predictions.size(), kWatched);
  std::vector<float> block(kColumns * Forest::kRows), sums(Forest::kRows);
  std::vector<const float*> columns;
  for (size_t f = 0; f < kColumns; ++f) columns.push_back(block.data() + f * Forest::kRows);
  const std::vector<uint8_t> same(kColumns, 0);
  const ForestRows trees(t.forest);
  size_t different = 0;
  for (size_t first = 0; first < kWatched; first += Forest::kRows) {
    const size_t rows = std::min(Forest::kRows, kWatched - first);
    for (size_t r = 0; r < rows; ++r) {
      for (size_t f = 0; f < kColumns; ++f)
        block[f * Forest::kRows + r] = watched.features[(first + r) * kColumns + f];
    }
    std::fill(sums.begin(), sums.end(), 0.0F);
    trees.add(columns, same, rows, sums.data());
    for (size_t r = 0; r < rows; ++r) different += sums[r] != t.predictions[first + r];
  }
  EXPECT_EQ(different, 0u);
}

TEST(TrainingData, NetworksStayInOneFold) {
  const Problem one = Problem::parse("gemm m=128 n=3072 k=768 dtype=f32"),
                other = Problem::parse("gemm m=128 n=3072 k=768 dtype=bf16 prepack=b");
  EXPECT_EQ(network_family(one), "bert-base-s128");
  EXPECT_EQ(network_family(other), network_family(one));
  EXPECT_EQ(fold_of(one), fold_of(other));
  EXPECT_EQ(network_family(Problem::parse("gemm m=1237 n=17 k=3 dtype=f32")), "");
  std::map<std::string, Fold> folds;
  for (const SuiteRow& row : read_suite("gemm.csv")) {
    const std::string family = network_family(row.problem);
    ASSERT_FALSE(family.empty()) << row.name;
    EXPECT_EQ(folds.emplace(family, fold_of(row.problem)).first->second, fold_of(row.problem)) << row.name;
  }
  size_t test = 0;
  for (const SuiteRow& row : read_suite("gemm.csv")) test += fold_of(row.problem) == Fold::test;
  EXPECT_GE(test, 120u);
}

}  // namespace
}  // namespace tessera
