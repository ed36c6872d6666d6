#include "model/learned.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/fs.h"
#include "base/log.h"
#include "core/packed_columns.h"
#include "model/features.h"
#include "space/space.h"
#include "tessera/error.h"

namespace tessera {
namespace {

const ArchSpec& arch() { return find_arch("x86_avx512"); }
const Problem kProblem = Problem::parse("gemm m=200 n=300 k=100 dtype=f32");

// Halves the time of every config with more rows per tile than 4.
LearnedModel halving(std::vector<std::string> types = {"f32"}) {
  Forest forest;
  forest.add_tree(
      std::vector<ForestNode>{{4.5F, 0, 2}, {0, ForestNode::kLeaf, 0}, {-0.6931472F, ForestNode::kLeaf, 0}});
  return {{"x86_avx512", "gemm", std::move(types), {arch().compute_units}}, {"tile_m", "log2_m"}, forest, {}};
}

TEST(LearnedModel, CorrectsTheAnalyticModel) {
  const GemmView v = lower(kProblem);
  const auto configs = legal_configs(v, arch());
  std::vector<double> plain(configs.size()), corrected(configs.size());
  analytic_model().predict(v, arch(), configs, plain);
  halving().predict(v, arch(), configs, corrected);
  for (size_t i = 0; i < configs.size(); ++i) {
    const double factor = static_cast<float>(configs[i].tile_m) < 4.5F ? 1 : 0.5;
    EXPECT_NEAR(corrected[i], plain[i] * factor, 1e-6 * plain[i]);
  }
}

// Kernels that read columns of a packed B are what others are whose B lies in memory so.
TEST(LearnedModel, PackedColumnsAreAskedAboutAsColumnsInMemory) {
  const GemmView v = lower(Problem::parse("gemm m=200 n=20 k=1000 dtype=f32 layout=rrr prepack=b"));
  const auto configs = legal_configs(v, arch());
  Forest forest;
  forest.add_tree(
      std::vector<ForestNode>{{0.5F, 0, 2}, {0, ForestNode::kLeaf, 0}, {-0.6931472F, ForestNode::kLeaf, 0}});
  const auto corrected = [&](std::vector<std::string> families) {
    const LearnedModel model({"x86_avx512", "gemm", {"f32"}, {arch().compute_units}, std::move(families)},
                             {"b_prepacked"}, forest, {});
    std::vector<double> us(configs.size()), each(configs.size());
    model.predict(v, arch(), configs, us);
    model.predict_each(v, arch(), configs, each);
    EXPECT_EQ(std::ranges::min_element(us) - us.begin(), std::ranges::min_element(each) - each.begin());
    return each;
  };
  std::vector<double> plain(configs.size());
  analytic_model().predict(v, arch(), configs, plain);
  const auto seen = corrected({}), unseen = corrected({"cpu_packed", "cpu_direct"});
  int by_columns = 0, dots = 0;
  for (size_t i = 0; i < configs.size(); ++i) {
    by_columns += packs_columns(configs[i]);
    EXPECT_NEAR(seen[i], plain[i] * (packs_columns(configs[i]) ? 1 : 0.5), 1e-6 * plain[i]);
    if (configs[i].family_id() != Family::cpu_dot) continue;
    ++dots;
    EXPECT_NEAR(unseen[i], plain[i] * 0.5, 1e-6 * plain[i]);  // as those that are asked about beside them
  }
  EXPECT_GT(dots, 0);
  EXPECT_GT(by_columns, dots);
}

// Of several cores: what the analytic model says of them, corrected as for one. Features are those of one.
TEST(LearnedModel, OneCoresTimesServeForMore) {
  const GemmView v = lower(kProblem);
  ArchSpec four = arch();
  four.compute_units = 4;
  const auto configs = legal_configs(v, four);
  Forest forest;  // a model that has seen one core would not know what to make of others
  forest.add_tree(
      std::vector<ForestNode>{{0.5F, 0, 2}, {0, ForestNode::kLeaf, 0}, {-0.6931472F, ForestNode::kLeaf, 0}});
  const LearnedModel model({"x86_avx512", "gemm", {"f32"}, {1}}, {"parallel_efficiency"}, forest, {});
  ASSERT_EQ(arch().compute_units, 1);
  EXPECT_EQ(model.scope().serving_units(four), 1);
  std::vector<double> plain(configs.size()), corrected(configs.size()), each(configs.size());
  analytic_model().predict(v, four, configs, plain);
  model.predict(v, four, configs, corrected);
  model.predict_each(v, four, configs, each);
  const auto best = static_cast<size_t>(std::min_element(plain.begin(), plain.end()) - plain.begin());
  EXPECT_NEAR(corrected[best], plain[best] * 0.5, 1e-6 * plain[best]);
  for (size_t i = 0; i < configs.size(); ++i) EXPECT_NEAR(each[i], plain[i] * 0.5, 1e-6 * plain[i]);
}

TEST(LearnedModel, TheNearestNumberOfUnitsServes) {
  const ModelScope scope{"x86_amx", "gemm", {"f32"}, {1, 16}};
  ArchSpec a = find_arch("x86_amx");
  for (const auto& [count, serving] :
       std::vector<std::pair<int, int>>{{1, 1}, {2, 1}, {4, 1}, {5, 16}, {16, 16}, {17, 16}, {128, 16}}) {
    a.compute_units = count;
    EXPECT_EQ(scope.serving_units(a), serving) << count;
  }
  const ModelScope gpu{"sm_90a", "gemm", {"bf16"}, {132}};
  ArchSpec g = find_arch("sm_90a");
  g.compute_units = 114;
  EXPECT_EQ(gpu.serving_units(g), 0) << "another chip, not fewer of its units";
  EXPECT_EQ(gpu.title(), "sm_90a/gemm");
  EXPECT_EQ((ModelScope{"x86_amx", "gemm", {}, {1}}.title()), "x86_amx/gemm");
  EXPECT_EQ((ModelScope{"x86_amx", "gemm", {}, {16}}.title()), "x86_amx/gemm.16");
}

// A model trained when a family was not there yet has nothing to say of it: the analytic model has, beside
// what the trees choose among the others.
TEST(LearnedModel, FamiliesItHasNotSeenAreCorrectedAsTheChoiceIs) {
  const GemmView v = lower(Problem::parse("gemm m=8 n=64 k=64 dtype=f32"));
  const auto configs = legal_configs(v, arch());
  const LearnedModel all = halving();
  ModelScope scope = all.scope();
  scope.families = {"cpu_dot", "cpu_packed"};
  const LearnedModel some(scope, all.feature_names(), all.forest(), {});
  const auto read = LearnedModel::parse(some.bytes(), "here");
  EXPECT_EQ(read->scope().families, scope.families);

  const size_t count = configs.size();
  std::vector<double> plain(count), expected(count), few(count), each(count);
  analytic_model().predict(v, arch(), configs, plain);
  all.predict_each(v, arch(), configs, expected);
  read->predict(v, arch(), configs, few);
  read->predict_each(v, arch(), configs, each);
  size_t asked = 0, best = count;  // of those it has seen
  const auto seen = [&](size_t i) { return configs[i].family_id() != Family::cpu_direct; };
  for (size_t i = 0; i < count; ++i) {
    if (!seen(i)) continue;
    EXPECT_EQ(each[i], expected[i]);
    if (best == count || each[i] < each[best]) best = i;
    ++asked;
  }
  ASSERT_TRUE(asked > LearnedModel::kMostAsked && asked < count);
  EXPECT_EQ(few[best], each[best]);
  for (size_t i = 0; i < count; ++i) {
    if (seen(i)) continue;
    EXPECT_NEAR(each[i], plain[i] * each[best] / plain[best], 1e-9 * plain[i]);
    EXPECT_EQ(few[i], each[i]);
  }

  // Where there is nothing else it says what its trees say.
  scope.families = {"cpu_groups"};
  LearnedModel(scope, all.feature_names(), all.forest(), {}).predict_each(v, arch(), configs, each);
  EXPECT_EQ(each, expected);
}

// A tree that adds `value` where the tile has more rows than `rows`.
std::vector<ForestNode> above(float rows, float value) {
  return {{rows, 0, 2}, {0, ForestNode::kLeaf, 0}, {value, ForestNode::kLeaf, 0}};
}

TEST(LearnedModel, TheTreesAreAskedOfTheMostPromising) {
  // On a GPU, where block_m is what varies. The first trees tell blocks apart, the others move all alike.
  const ArchSpec& gpu = find_arch("sm_90a");
  const GemmView v = lower(Problem::parse("gemm m=4096 n=4096 k=4096 dtype=bf16"));
  const auto configs = legal_configs(v, gpu);
  const size_t begun = LearnedModel::most_begun(gpu), asked = LearnedModel::kMostAsked;
  ASSERT_GT(configs.size(), begun);
  Forest forest;
  for (size_t t = 0; t < LearnedModel::kFirstTrees; ++t)
    forest.add_tree(above(t % 2 ? 100.F : 200.F, t % 2 ? -0.02F : 0.01F));
  forest.add_tree(above(0, -1.F));
  const LearnedModel model({"sm_90a", "gemm", {"bf16"}, {1}}, {"block_m"}, forest, {});
  const size_t count = configs.size();
  std::vector<double> plain(count), each(count), us(count), begun_us;
  analytic_model().predict(v, gpu, configs, plain);
  model.predict_each(v, gpu, configs, each);
  model.predict(v, gpu, configs, us);

  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t x, size_t y) { return plain[x] < plain[y]; });
  order.resize(begun);
  std::sort(order.begin(), order.end());
  // The last tree is the same for all, so that the first ones order as all do.
  std::stable_sort(order.begin(), order.end(), [&](size_t x, size_t y) { return each[x] < each[y]; });
  double last = 0;
  std::vector<bool> exact(count);
  for (size_t i = 0; i < asked; ++i) {
    EXPECT_EQ(us[order[i]], each[order[i]]);
    last = std::max(last, us[order[i]]);
    exact[order[i]] = true;
  }
  size_t behind = 0;
  for (size_t i = 0; i < count; ++i) {
    if (exact[i]) continue;
    EXPECT_GE(us[i], last);
    behind += us[i] > each[i];
  }
  EXPECT_GT(behind, count / 2) << "nobody else was asked the last tree";
}

TEST(LearnedModel, OfEqualsTheFirstAreAsked) {
  const ArchSpec& gpu = find_arch("sm_90a");
  const GemmView v = lower(Problem::parse("gemm m=512 n=512 k=512 dtype=bf16"));
  const std::vector<KernelConfig> configs(300, legal_configs(v, gpu)[0]);
  Forest forest;
  forest.add_tree(above(0, -1.F));
  for (size_t t = 0; t < LearnedModel::kFirstTrees; ++t) forest.add_tree(above(0, 0.F));
  forest.add_tree(above(0, -1.F));
  const LearnedModel model({"sm_90a", "gemm", {"bf16"}, {1}}, {"block_m"}, forest, {});
  std::vector<double> us(configs.size()), each(configs.size());
  model.predict(v, gpu, configs, us);
  model.predict_each(v, gpu, configs, each);
  for (size_t i = 0; i < configs.size(); ++i) {
    if (i < LearnedModel::kMostAsked) {
      EXPECT_EQ(us[i], each[i]);
    } else {
      EXPECT_GT(us[i], each[i]);
    }
  }
}

TEST(LearnedModel, ImportanceCountsQuestionsByTheirDepth) {
  constexpr uint16_t leaf = ForestNode::kLeaf;
  Forest forest;  // asks feature 1, then on its right feature 0; a second tree asks feature 1
  forest.add_tree(std::vector<ForestNode>{{1, 1, 2}, {0, leaf, 0}, {2, 0, 4}, {0, leaf, 0}, {1, leaf, 0}});
  forest.add_tree(std::vector<ForestNode>{{3, 1, 2}, {0, leaf, 0}, {1, leaf, 0}});
  const LearnedModel model({"x86_avx512", "gemm", {"f32"}, {1}}, {"tile_m", "log2_m", "log2_k"}, forest, {});
  const auto shares = model.importance();
  ASSERT_EQ(shares.size(), 2u);
  EXPECT_EQ(shares[0].name, "log2_m");
  EXPECT_DOUBLE_EQ(shares[0].share, 0.8);
  EXPECT_EQ(shares[1].name, "tile_m");
  EXPECT_DOUBLE_EQ(shares[1].share, 0.2);
}

TEST(LearnedModel, FileRoundTripAndAnyDamageIsRefused) {
  const std::string bytes = halving().bytes();
  const auto read = LearnedModel::parse(bytes, "test");
  EXPECT_EQ(read->bytes(), bytes);
  for (size_t i = 0; i < bytes.size(); i += 7) {
    std::string bad = bytes;
    bad[i] = static_cast<char>(bad[i] ^ 0x20);
    EXPECT_THROW(LearnedModel::parse(bad, "test"), Error) << i;
    EXPECT_THROW(LearnedModel::parse(bytes.substr(0, i), "test"), Error) << i;
  }
}

TEST(LearnedModel, AFeatureOfAnotherProgramIsRefusedByName) {
  try {
    LearnedModel({"x86_avx512", "gemm", {"f32"}, {1}}, {"tile_m", "phase_of_the_moon"}, {}, {});
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("'phase_of_the_moon'"), std::string::npos);
  }
}

TEST(LearnedModel, HoldsForItsScopeOnly) {
  const TempDir dir(temp_directory());
  const std::string path = dir.path() + "/m.model";
  write_file(path, halving().bytes());
  EXPECT_EQ(model_for(path, arch(), kProblem).name(), "x86_avx512/gemm");
  EXPECT_EQ(model_for(path, find_arch("x86_avx2"), kProblem).name(), "analytic");
  // An architecture without models of its own has another's; a file of its own comes first (above).
  EXPECT_EQ(model_for("", arch(), kProblem).name(), arch().models + "/gemm");
  EXPECT_NE(arch().models, arch().name);
  std::string said;
  set_log_sink([&](LogLevel, std::string_view text) { said = text; });
  EXPECT_EQ(model_for(path, arch(), Problem::parse("gemm m=8 n=8 k=8 dtype=bf16")).name(), "analytic");
  set_log_sink({});
  EXPECT_NE(said.find("m.model' is for gemm, f32, on x86_avx512: the analytic model ranks gemm, bf16"),
            std::string::npos)
      << said;
  // The times of one core serve for more, and those of several for other numbers.
  ArchSpec two = arch(), three = arch();
  two.compute_units = 2;
  three.compute_units = 3;
  EXPECT_EQ(model_for(path, two, kProblem).name(), "x86_avx512/gemm");
  ModelScope scope = halving().scope();
  scope.units = {2};
  write_file(dir.path() + "/two.model",
             LearnedModel(scope, halving().feature_names(), halving().forest(), {}).bytes());
  for (const ArchSpec& a : {arch(), two, three})
    EXPECT_EQ(model_for(dir.path() + "/two.model", a, kProblem).name(), "x86_avx512/gemm.2");
  EXPECT_EQ(model_for("analytic", arch(), kProblem).name(), "analytic");
  EXPECT_THROW(model_for(dir.path() + "/none", arch(), kProblem), Error);
}

}  // namespace
}  // namespace tessera
