// Gradient-boosted trees by XGBoost, whose shared library is loaded when it is there: training needs it,
// nothing else does.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/forest.h"

namespace tessera {

// What rows are compared for: of each group the one with the least (prediction + offset) is chosen.
struct Choices {
  std::vector<uint32_t> group;  // of each row; rows of one group are neighbours
  std::vector<float> offset;
  std::vector<float> loss;  // what choosing the row loses
  double weight = 0;        // of the expected loss of a choice beside the square of a row's error
  double softness = 0.1;    // rows that are predicted so far apart are chosen e times as often
  double level = 1;         // of the mean error of a group, so much counts
};

// Rows of features, row-major, with what the trees are to give and how much each row counts. `start`: what is
// predicted before the first tree; empty = 0. Without choices the weighted squares of errors are made least.
struct TrainingMatrix {
  std::vector<float> features, target, weight, start;
  size_t columns = 0;
  Choices choices{};
  size_t rows() const { return columns ? features.size() / columns : 0; }
};

using TrainingParameters = std::vector<std::pair<std::string, std::string>>;  // as XGBoost names them

// "1.7.4"; "" with the reason in *why when the library is not there.
std::string xgboost_version(std::string* why);

struct Trained {
  Forest forest;
  std::vector<float> predictions;  // XGBoost's own, of all trees, for the watched rows
};

// Up to `rounds` trees. Every `every` trees `judge` sees the predictions for `watched` (start included) and
// the number of trees; false stops. Error(unsupported) without the library.
Trained train_forest(const TrainingMatrix& data, const TrainingMatrix& watched,
                     const TrainingParameters& parameters, int rounds, int every,
                     const std::function<bool(int trees, std::span<const float> predictions)>& judge);

}  // namespace tessera
