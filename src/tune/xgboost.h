// Gradient-boosted trees by XGBoost, whose shared library is loaded when it is there: training needs it,
// nothing else does.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/forest.h"

namespace tessera {

// Rows of features, row-major, with what the trees are to give and how much each row counts. `start`: what is
// predicted before the first tree; empty = 0.
struct TrainingMatrix {
  std::vector<float> features, target, weight, start;
  size_t columns = 0;
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
