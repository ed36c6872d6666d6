#include "tune/train.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "base/fs.h"
#include "base/text.h"
#include "core/json_values.h"
#include "model/features.h"
#include "tessera/error.h"

namespace tessera {
namespace {

constexpr double kLeastWeight = 0.03;  // of a row, in relation to the best
constexpr int kJudgeEvery = 10;        // trees

std::vector<double> analytic(const TrainingData& data, const MeasuredProblem& p) {
  std::vector<double> us(p.configs.size());
  analytic_model().predict(p.view, data.arch, p.configs, us);
  return us;
}

// Rows of the folds, in the order of problems and configurations.
TrainingMatrix matrix_of(const TrainingData& data, Fold fold, const LearnedModel& shape,
                         const LearnedModel* start, const TrainOptions& o) {
  TrainingMatrix m;
  m.choices.weight = o.choices;
  m.choices.softness = o.softness;
  m.choices.level = o.level;
  const bool compared = o.choices > 0 || o.level != 1;
  m.columns = shape.feature_names().size();
  std::vector<float> columns(m.columns * Forest::kRows);
  uint32_t problem = 0;
  for (const MeasuredProblem& p : data.problems) {
    if (p.fold != fold) continue;
    ++problem;
    const std::vector<double> us = analytic(data, p);
    std::vector<double> started = us;
    if (start) start->predict_each(p.view, data.arch, p.configs, started);
    double total = 0;
    const size_t first_weight = m.weight.size();
    for (size_t first = 0; first < p.configs.size(); first += Forest::kRows) {
      const size_t rows = std::min(Forest::kRows, p.configs.size() - first);
      shape.inputs(p.view, data.arch, std::span(p.configs).subspan(first, rows), columns.data());
      for (size_t r = 0; r < rows; ++r) {
        for (size_t f = 0; f < m.columns; ++f) m.features.push_back(columns[f * Forest::kRows + r]);
        const size_t i = first + r;
        m.target.push_back(static_cast<float>(std::log(p.us[i] / us[i])));
        if (compared) {
          m.choices.group.push_back(problem);
          m.choices.offset.push_back(static_cast<float>(std::log(us[i])));
          m.choices.loss.push_back(static_cast<float>(1 - p.best_us / p.us[i]));
        }
        if (start) m.start.push_back(static_cast<float>(std::log(started[i] / us[i])));
        const double near = p.best_us / p.us[i];
        double weight = near;
        for (int power = 1; power < o.focus; ++power) weight *= near;
        m.weight.push_back(static_cast<float>(std::max(weight, kLeastWeight)));
        total += m.weight.back();
      }
    }
    for (size_t i = first_weight; i < m.weight.size(); ++i)
      m.weight[i] = static_cast<float>(m.weight[i] * static_cast<double>(p.configs.size()) / total);
  }
  return m;
}

double at_share(const std::vector<double>& ascending, double share) {
  return ascending[static_cast<size_t>(share * static_cast<double>(ascending.size()))];
}

Json scores(const TrainingData& data, Fold fold, const Model& model) {
  return Json::object({{"problems", static_cast<int64_t>(data.count(fold))},
                       {"rows", static_cast<int64_t>(data.rows(fold))},
                       {"model", to_json(score(data, fold, predictor(model, data.arch)))},
                       {"analytic", to_json(score(data, fold, predictor(analytic_model(), data.arch)))}});
}

// Of the configurations that are trained on.
std::vector<std::string> families_of(const TrainingData& data) {
  std::set<std::string> names;
  for (const MeasuredProblem& p : data.problems) {
    if (p.fold != Fold::train) continue;
    for (const KernelConfig& c : p.configs) names.emplace(to_string(c.family_id()));
  }
  return {names.begin(), names.end()};
}

}  // namespace

Json efficiency_json(const ModelScore& s) {
  return Json::object({{"problems", static_cast<int64_t>(s.problems)},
                       {"mean", s.mean},
                       {"median", s.median},
                       {"p10", s.p10},
                       {"p1", s.p1},
                       {"min", s.least},
                       {"geomean", s.geomean}});
}

Json to_json(const ModelScore& s) {
  return efficiency_json(s)
      .set("top3_mean", s.top3)
      .set("top5_mean", s.top5)
      .set("hit1", s.hit1)
      .set("hit3", s.hit3)
      .set("hit5", s.hit5);
}

Predictor predictor(const Model& model, const ArchSpec& arch) {
  return [&model, &arch](const MeasuredProblem& p, std::span<double> us) {
    model.predict(p.view, arch, p.configs, us);
  };
}

double error_band(const TrainingData& data, Fold fold, const Predictor& predict) {
  std::vector<double> shares;
  for (const MeasuredProblem& p : data.problems) {
    if (p.fold != fold) continue;
    std::vector<double> us(p.configs.size());
    predict(p, us);
    const auto best = static_cast<size_t>(std::min_element(p.us.begin(), p.us.end()) - p.us.begin());
    shares.push_back(us[best] / *std::min_element(us.begin(), us.end()) - 1);
  }
  std::sort(shares.begin(), shares.end());
  return shares.empty() ? 0 : at_share(shares, 0.9);
}

ModelScore score_of(std::span<const double> efficiency) {
  ModelScore s{.problems = efficiency.size()};
  if (efficiency.empty()) return s;
  std::vector<double> e(efficiency.begin(), efficiency.end());
  std::sort(e.begin(), e.end());
  const auto n = static_cast<double>(e.size());
  double logs = 0;
  for (double x : e) {
    s.mean += x / n;
    logs += std::log(x) / n;
  }
  s.geomean = std::exp(logs);
  s.median = at_share(e, 0.5);
  s.p10 = at_share(e, 0.1);
  s.p1 = at_share(e, 0.01);
  s.least = e[0];
  return s;
}

ModelScore score(const TrainingData& data, Fold fold, const Predictor& predict) {
  std::vector<double> first;
  double top3 = 0, top5 = 0;
  size_t hit1 = 0, hit3 = 0, hit5 = 0;
  for (const MeasuredProblem& p : data.problems) {
    if (p.fold != fold) continue;
    std::vector<double> us(p.configs.size());
    predict(p, us);
    std::vector<size_t> order(us.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t x, size_t y) { return us[x] < us[y]; });
    const auto least_of = [&](size_t count) {
      double least = HUGE_VAL;
      for (size_t i = 0; i < std::min(count, order.size()); ++i) least = std::min(least, p.us[order[i]]);
      return least;
    };
    first.push_back(p.best_us / least_of(1));
    top3 += p.best_us / least_of(3);
    top5 += p.best_us / least_of(5);
    hit1 += least_of(1) == p.best_us;
    hit3 += least_of(3) == p.best_us;
    hit5 += least_of(5) == p.best_us;
  }
  ModelScore s = score_of(first);
  if (first.empty()) return s;
  const auto n = static_cast<double>(first.size());
  s.top3 = top3 / n;
  s.top5 = top5 / n;
  s.hit1 = static_cast<double>(hit1) / n;
  s.hit3 = static_cast<double>(hit3) / n;
  s.hit5 = static_cast<double>(hit5) / n;
  return s;
}

ModelScope scope_of(const TrainingData& data) {
  return {data.arch.name, data.operation, data.types, {data.arch.compute_units}, families_of(data)};
}

TrainResult train(const TrainingData& data, const TrainOptions& o,
                  const std::function<void(int, double)>& progress) {
  for (Fold f : {Fold::train, Fold::valid}) {
    if (data.count(f) == 0) {
      throw Error(
          ErrorCode::bad_input, "no problem is in the fold '" + std::string(to_string(f)) + "'",
          "measure more problems; of generated ones (sweep plan --generate) one in eight is for validation");
    }
  }
  const ModelScope scope = scope_of(data);
  std::vector<std::string> names;
  for (const Feature& f : features()) {
    if (tells(f, data.arch.backend)) names.emplace_back(f.name);
  }
  if (o.start) names = o.start->feature_names();  // old trees and new ones test the same columns
  const LearnedModel shape(scope, names, {}, {});
  const TrainingMatrix rows = matrix_of(data, Fold::train, shape, o.start.get(), o);
  const TrainingMatrix watched = matrix_of(data, Fold::valid, shape, o.start.get(), o);

  // Mean loss of the choices on the fold for validation.
  const auto regret = [&](std::span<const float> predicted) {
    double loss = 0;
    size_t row = 0;
    for (const MeasuredProblem& p : data.problems) {
      if (p.fold != Fold::valid) continue;
      const std::vector<double> us = analytic(data, p);
      size_t choice = 0;
      double least = HUGE_VAL;
      for (size_t i = 0; i < us.size(); ++i, ++row) {
        const double t = us[i] * std::exp(static_cast<double>(predicted[row]));
        if (t < least) {
          least = t;
          choice = i;
        }
      }
      loss += 1 - p.best_us / p.us[choice];
    }
    return loss / static_cast<double>(data.count(Fold::valid));
  };
  int best_trees = 0;
  double best = HUGE_VAL;
  const TrainingParameters parameters = {{"objective", "reg:squarederror"},
                                         {"tree_method", "hist"},
                                         {"max_depth", std::to_string(o.depth)},
                                         {"eta", number_text(o.rate)},
                                         {"subsample", "0.8"},
                                         {"colsample_bytree", "0.7"},
                                         {"min_child_weight", number_text(o.least)},
                                         {"lambda", "1"},
                                         {"base_score", "0"},
                                         {"seed", std::to_string(o.seed)},
                                         {"nthread", std::to_string(o.threads)},
                                         {"verbosity", "0"}};
  const Trained trained =
      train_forest(rows, watched, parameters, o.rounds, kJudgeEvery, [&](int trees, auto predicted) {
        const double loss = regret(predicted);
        if (progress) progress(trees, loss);
        if (loss < best) {
          best = loss;
          best_trees = trees;
        }
        return trees - best_trees < o.patience;
      });
  Forest forest = o.start ? o.start->forest() : Forest{};
  forest.append(trained.forest.first(static_cast<size_t>(std::max(best_trees, 1))));

  std::string why;
  Json used = Json::object();
  for (const auto& [name, value] : parameters) used.set(name, value);
  Json made = Json::object({{"data", data.hash()},
                            {"xgboost", xgboost_version(&why)},
                            {"target", "log(measured / analytic)"},
                            {"parameters", std::move(used)},
                            {"trees", static_cast<int64_t>(forest.trees())},
                            {"started_from", o.start ? o.start->made() : Json()}});
  if (o.focus != TrainOptions{}.focus) made.set("focus", o.focus);
  if (o.level != TrainOptions{}.level) made.set("level", o.level);
  if (o.choices > 0) made.set("choices", o.choices).set("softness", o.softness);
  made.set("band",
           error_band(data, Fold::valid, predictor(LearnedModel(scope, names, forest, made), data.arch)));
  auto model = std::make_shared<const LearnedModel>(scope, names, std::move(forest), made);
  Json folds = Json::object();
  for (Fold f : {Fold::train, Fold::valid, Fold::test})
    folds.set(std::string(to_string(f)), scores(data, f, *model));
  return {model, Json::object({{"version", 1},
                               {"arch", data.arch.name},
                               {"units", data.arch.compute_units},
                               {"operation", data.operation},
                               {"types", write_strings(data.types)},
                               {"families", write_strings(scope.families)},
                               {"made", made},
                               {"folds", std::move(folds)},
                               {"features", write_strings(names)}})};
}

void write_model(const TrainResult& result, const std::string& path) {
  if (const size_t slash = path.find_last_of('/'); slash != path.npos && slash > 0)
    make_directories(path.substr(0, slash));
  write_file_whole(path, result.model->bytes());
  write_file_whole(path + ".json", result.manifest.dump(2) + "\n");
}

}  // namespace tessera
