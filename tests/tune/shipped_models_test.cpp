// The models in the tree are what their measurements made of them, and serve where they are better.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/embedded.h"
#include "base/fs.h"
#include "base/text.h"
#include "model/learned.h"
#include "space/space.h"
#include "tessera/dispatcher.h"
#include "tune/train.h"
#include "tune/training_file.h"

namespace tessera {
namespace {

// "models/ARCH/OPERATION", or "models/ARCH/OPERATION.CORES", of every shipped model.
std::vector<std::string> shipped() {
  std::vector<std::string> out;
  for (const EmbeddedFile& f : embedded_files()) {
    if (glob_match("models/*/*.model", f.path)) out.emplace_back(f.path.substr(0, f.path.size() - 6));
  }
  return out;
}

TrainingData times_of(const std::string& model) {
  const std::string path = TESSERA_SOURCE_DIR "/" + model + ".times";
  return parse_training_data(read_file(path), path);
}

TEST(ShippedModels, AreOfTheTimesBesideThem) {
  ASSERT_FALSE(shipped().empty());
  for (const std::string& name : shipped()) {
    const TrainingData data = times_of(name);
    const auto model = LearnedModel::parse(find_embedded_file(name + ".model")->text, name);
    EXPECT_EQ(model->made().at("data").as_string(), data.hash()) << name;
    EXPECT_EQ(model->scope().types, data.types) << name;
    EXPECT_GT(model->band(), 0) << name;
    EXPECT_EQ(name, "models/" + model->scope().title());
  }
}

TEST(ShippedModels, ChooseBetterThanTheAnalyticModelOnNetworksTheyNeverSaw) {
  for (const std::string& name : shipped()) {
    const TrainingData data = times_of(name);
    const auto model = LearnedModel::parse(find_embedded_file(name + ".model")->text, name);
    const ModelScore learned = score(data, Fold::test, predictor(*model, data.arch)),
                     analytic = score(data, Fold::test, predictor(analytic_model(), data.arch));
    EXPECT_GT(learned.mean, analytic.mean) << name;
    EXPECT_GE(learned.top3, analytic.top3) << name;
  }
}

// Asking all trees of a few alone, as is done for a new problem, finds what asking them of everything legal
// finds.
TEST(ShippedModels, WhatLooksBestToTheFirstTreesIsWhatLooksBestToAll) {
  for (const std::string& name : shipped()) {
    const TrainingData data = times_of(name);
    const auto model = LearnedModel::parse(find_embedded_file(name + ".model")->text, name);
    std::map<std::string, std::pair<size_t, size_t>> of_type;  // problems with so many candidates, and all
    for (const MeasuredProblem& p : data.problems) {
      if (p.fold != Fold::test) continue;
      const std::vector<KernelConfig> legal = legal_configs(p.view, data.arch);
      auto& [pruned, all] = of_type[types_text(p.problem)];
      pruned += legal.size() > LearnedModel::kMostAsked;
      ++all;
      std::vector<double> us(legal.size()), each(legal.size());
      model->predict(p.view, data.arch, legal, us);
      model->predict_each(p.view, data.arch, legal, each);
      const auto chosen = static_cast<size_t>(std::min_element(us.begin(), us.end()) - us.begin());
      EXPECT_LE(each[chosen], *std::min_element(each.begin(), each.end()) * 1.02)
          << name << ": " << to_string(p.problem);
    }
    // Types for which there are several instructions have that many candidates more often than not; with 16
    // vector registers few tiles are legal.
    const bool few_registers = data.arch.vector_bits == 256;
    EXPECT_TRUE(std::any_of(of_type.begin(), of_type.end(), [&](const auto& type) {
      const auto& [pruned, all] = type.second;
      return pruned > (few_registers ? 0 : all / 2);
    })) << name;
  }
}

TEST(ShippedModels, AreUsedUnasked) {
  for (const std::string& name : shipped()) {
    const TrainingData data = times_of(name);
    const Problem& p = data.problems[0].problem;
    const auto model_of = [&](int threads) {
      return Dispatcher({.device = "null:" + data.arch.name, .threads = threads}).explain(p).model;
    };
    const std::string model = name.substr(std::string_view("models/").size());
    EXPECT_EQ(model_of(data.arch.compute_units), model);
    if (data.arch.backend == BackendKind::cpu) {  // a GPU's units are not asked for
      EXPECT_EQ(model_of(data.arch.compute_units * 2), model) << "its times serve for more cores";
    }
  }
}

// Of a machine with models of several cores too.
TEST(ShippedModels, WhatOneCoreDoesAloneAsksTheModelOfOne) {
  const auto model_of = [](const char* problem) {
    return Dispatcher({.device = "null:x86_amx", .threads = 16}).explain(Problem::parse(problem)).model;
  };
  EXPECT_EQ(model_of("conv_fwd n=1 c=1 k=1 in=8x8 filter=2x2 dtype=bf16"), "x86_amx/conv_fwd");
  EXPECT_EQ(model_of("conv_fwd n=8 c=64 k=64 in=56x56 filter=3x3 pad=1x1 dtype=bf16"), "x86_amx/conv_fwd.16");
}

}  // namespace
}  // namespace tessera
