// Training of a learned model from stored measurements.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "model/learned.h"
#include "tune/training_data.h"
#include "tune/xgboost.h"

namespace tessera {

// How close a model's choices come to the best measured, over problems.
struct ModelScore {
  size_t problems = 0;
  // best time / time of the choice: first choice, and best of the first three and five
  double mean = 0, median = 0, p10 = 0, p1 = 0, least = 0, geomean = 0, top3 = 0, top5 = 0;
  double hit1 = 0, hit3 = 0, hit5 = 0;  // share of problems whose best is among the first so many
};
Json to_json(const ModelScore& s);
Json efficiency_json(const ModelScore& s);  // of the first choice, without hits

// Order of a problem's configurations by predicted time.
using Predictor = std::function<void(const MeasuredProblem&, std::span<double> us)>;
ModelScore score(const TrainingData& data, Fold fold, const Predictor& predict);
Predictor predictor(const Model& model, const ArchSpec& arch);
// Model::band() by these problems; 0 when there are none.
double error_band(const TrainingData& data, Fold fold, const Predictor& predict);
ModelScore score_of(std::span<const double> efficiency);  // top3, top5 and hits left out

// What a model trained on this holds for.
ModelScope scope_of(const TrainingData& data);

struct TrainOptions {
  int rounds = 300;  // trees at most
  int depth = 7;
  double rate = 0.04;
  int focus = 2;          // power with which a row's weight falls with its distance from the best
  double level = 1;       // of a problem's mean error, so much counts: choices only depend on differences
  double choices = 0;     // weight of the expected loss of choices beside the squares of errors
  double softness = 0.1;  // configurations predicted so far apart (in log) are chosen e times as often
  double least = 2;       // weight of the rows of a leaf, at least
  int patience = 60;      // trees without a better choice on the fold for validation, then training ends
  uint64_t seed = 1;
  int threads = 2;
  std::shared_ptr<const LearnedModel> start;  // its trees come first
};

struct TrainResult {
  std::shared_ptr<const LearnedModel> model;
  Json manifest;  // data hash, rows, problems, parameters, scores of each fold beside the analytic model's
};

// The target is log(measured / analytic), a row's weight falls with a power of its distance from the best,
// each problem weighs the same. Ends where the choices on the fold for validation were best. The same data
// and options give the same model. Error(unsupported) without XGBoost.
TrainResult train(const TrainingData& data, const TrainOptions& options,
                  const std::function<void(int trees, double regret)>& progress = {});

// The model file, and PATH.json with its manifest. Directories are made. Error(io).
void write_model(const TrainResult& result, const std::string& path);

}  // namespace tessera
