#include "tune/xgboost.h"

#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>

#include "tessera/error.h"
#include "tessera/json.h"

namespace tessera {
namespace {

constexpr const char* kLibraries[] = {"libxgboost.so", "libxgboost.so.0"};
constexpr const char* kInstall = "apt install libxgboost0";

using Handle = void*;

// The part of XGBoost's C API that training takes.
#define TESSERA_XGBOOST(X)                                                           \
  X(XGBGetLastError, const char*, ())                                                \
  X(XGBoostVersion, void, (int*, int*, int*))                                        \
  X(XGDMatrixCreateFromMat, int, (const float*, uint64_t, uint64_t, float, Handle*)) \
  X(XGDMatrixSetFloatInfo, int, (Handle, const char*, const float*, uint64_t))       \
  X(XGDMatrixFree, int, (Handle))                                                    \
  X(XGBoosterCreate, int, (const Handle*, uint64_t, Handle*))                        \
  X(XGBoosterFree, int, (Handle))                                                    \
  X(XGBoosterSetParam, int, (Handle, const char*, const char*))                      \
  X(XGBoosterUpdateOneIter, int, (Handle, int, Handle))                              \
  X(XGBoosterBoostOneIter, int, (Handle, Handle, float*, float*, uint64_t))          \
  X(XGBoosterPredictFromDMatrix, int,                                                \
    (Handle, Handle, const char*, const uint64_t**, uint64_t*, const float**))       \
  X(XGBoosterSaveModelToBuffer, int, (Handle, const char*, uint64_t*, const char**))

struct Api {
#define TESSERA_FUNCTION(name, result, arguments) result(*name) arguments = nullptr;
  TESSERA_XGBOOST(TESSERA_FUNCTION)
#undef TESSERA_FUNCTION
  std::string missing;  // "" or why it cannot be used
};

const Api& api() {
  static const Api loaded = [] {
    Api a;
    void* library = nullptr;
    for (const char* name : kLibraries) {
      if (!library) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    }
    if (!library) {
      a.missing = "XGBoost's library is not there";
      return a;
    }
    const auto find = [&](auto*& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      if (!function) a.missing = std::string("XGBoost's library lacks ") + name;
    };
#define TESSERA_FIND(name, result, arguments) find(a.name, #name);
    TESSERA_XGBOOST(TESSERA_FIND)
#undef TESSERA_FIND
    return a;
  }();
  return loaded;
}

void check(int status) {
  if (status != 0) throw Error(ErrorCode::internal, std::string("XGBoost: ") + api().XGBGetLastError());
}

using Owned = std::unique_ptr<void, int (*)(Handle)>;

Owned matrix(const TrainingMatrix& m) {
  Handle h = nullptr;
  check(api().XGDMatrixCreateFromMat(m.features.data(), m.rows(), m.columns, __builtin_nanf(""), &h));
  Owned out(h, api().XGDMatrixFree);
  const std::pair<const char*, const std::vector<float>*> fields[] = {
      {"label", &m.target}, {"weight", &m.weight}, {"base_margin", &m.start}};
  for (const auto& [name, values] : fields) {
    if (!values->empty()) check(api().XGDMatrixSetFloatInfo(h, name, values->data(), values->size()));
  }
  return out;
}

std::vector<float> predictions(Handle booster, Handle data) {
  const uint64_t* shape = nullptr;
  uint64_t dimensions = 0;
  const float* values = nullptr;
  check(api().XGBoosterPredictFromDMatrix(
      booster, data,
      R"({"type":1,"training":false,"iteration_begin":0,"iteration_end":0,"strict_shape":false})", &shape,
      &dimensions, &values));
  uint64_t count = 1;
  for (uint64_t d = 0; d < dimensions; ++d) count *= shape[d];
  return {values, values + count};
}

// Nodes of the subtree at `at` of one of XGBoost's trees, in preorder.
void flatten(const Json& tree, size_t at, std::vector<ForestNode>& out) {
  const int64_t left = tree.at("left_children").at(at).as_int();
  const auto value = static_cast<float>(tree.at("split_conditions").at(at).as_double());
  const size_t self = out.size();
  out.push_back({value, ForestNode::kLeaf, 0});
  if (left < 0) return;
  out[self].feature = static_cast<uint16_t>(tree.at("split_indices").at(at).as_int());
  flatten(tree, static_cast<size_t>(left), out);
  out[self].right = static_cast<uint16_t>(out.size());
  flatten(tree, static_cast<size_t>(tree.at("right_children").at(at).as_int()), out);
}

Forest forest_of(Handle booster) {
  uint64_t length = 0;
  const char* text = nullptr;
  check(api().XGBoosterSaveModelToBuffer(booster, R"({"format":"json"})", &length, &text));
  const Json model = Json::parse(std::string_view(text, length), "XGBoost's model");
  Forest forest;
  for (const Json& tree : model.at("learner").at("gradient_booster").at("model").at("trees").items()) {
    std::vector<ForestNode> nodes;
    flatten(tree, 0, nodes);
    forest.add_tree(nodes);
  }
  return forest;
}

// Derivatives of what training makes least, by the prediction of each row: the weighted squares of errors,
// those of a group less (1 - level) of their mean, and the expected losses of choices.
class Gradient {
 public:
  std::vector<float> first, second;  // of each row

  explicit Gradient(const TrainingMatrix& m) : first(m.rows()), second(m.rows()), m_(m) {}

  void at(std::span<const float> predicted) {
    const std::vector<uint32_t>& group = m_.choices.group;
    for (size_t begin = 0, end = 0; begin < group.size(); begin = end) {
      while (end < group.size() && group[end] == group[begin]) ++end;
      squares(predicted, begin, end);
      if (m_.choices.weight > 0) losses(predicted, begin, end);
    }
  }

 private:
  double error(std::span<const float> predicted, size_t i) const {
    return static_cast<double>(predicted[i]) - static_cast<double>(m_.target[i]);
  }

  void squares(std::span<const float> predicted, size_t begin, size_t end) {
    double sum = 0, weight = 0;
    for (size_t i = begin; i < end; ++i) {
      sum += static_cast<double>(m_.weight[i]) * error(predicted, i);
      weight += static_cast<double>(m_.weight[i]);
    }
    const double apart = (1 - m_.choices.level) * sum / weight;
    for (size_t i = begin; i < end; ++i) {
      first[i] = static_cast<float>(static_cast<double>(m_.weight[i]) * (error(predicted, i) - apart));
      second[i] = m_.weight[i];
    }
  }

  // A row is chosen with a probability that falls with its prediction.
  void losses(std::span<const float> predicted, size_t begin, size_t end) {
    const Choices& c = m_.choices;
    const auto score = [&](size_t i) {
      return -(static_cast<double>(predicted[i]) + static_cast<double>(c.offset[i])) / c.softness;
    };
    double best = score(begin), total = 0, loss = 0;
    for (size_t i = begin + 1; i < end; ++i) best = std::max(best, score(i));
    chosen_.resize(end - begin);
    for (size_t i = begin; i < end; ++i) {
      const double p = std::exp(score(i) - best);
      chosen_[i - begin] = p;
      total += p;
      loss += p * static_cast<double>(c.loss[i]);
    }
    loss /= total;
    // The second derivative has either sign; half of the probability keeps steps short where there is much of
    // it.
    constexpr double kCurvature = 0.5;
    for (size_t i = begin; i < end; ++i) {
      const double p = c.weight * chosen_[i - begin] / total;
      first[i] += static_cast<float>(p * (loss - static_cast<double>(c.loss[i])) / c.softness);
      second[i] += static_cast<float>(p * kCurvature);
    }
  }

  const TrainingMatrix& m_;
  std::vector<double> chosen_;
};

}  // namespace

std::string xgboost_version(std::string* why) {
  if (!api().missing.empty()) {
    if (why) *why = api().missing + ": " + kInstall;
    return "";
  }
  int major = 0, minor = 0, patch = 0;
  api().XGBoostVersion(&major, &minor, &patch);
  return std::to_string(major) + '.' + std::to_string(minor) + '.' + std::to_string(patch);
}

Trained train_forest(const TrainingMatrix& data, const TrainingMatrix& watched,
                     const TrainingParameters& parameters, int rounds, int every,
                     const std::function<bool(int, std::span<const float>)>& judge) {
  if (!api().missing.empty()) throw Error(ErrorCode::unsupported, api().missing, kInstall);
  const Owned train = matrix(data), watch = matrix(watched);
  const Handle both[] = {train.get(), watch.get()};
  Handle h = nullptr;
  check(api().XGBoosterCreate(both, 2, &h));
  const Owned booster(h, api().XGBoosterFree);
  for (const auto& [name, value] : parameters) check(api().XGBoosterSetParam(h, name.c_str(), value.c_str()));
  Gradient gradient(data);
  for (int round = 0; round < rounds; ++round) {
    if (data.choices.group.empty()) {
      check(api().XGBoosterUpdateOneIter(h, round, train.get()));
    } else {
      gradient.at(predictions(h, train.get()));
      check(api().XGBoosterBoostOneIter(h, train.get(), gradient.first.data(), gradient.second.data(),
                                        data.rows()));
    }
    const int trees = round + 1;
    const bool judged = trees % every == 0 || trees == rounds;
    if (judged && !judge(trees, predictions(h, watch.get()))) break;
  }
  return {forest_of(h), predictions(h, watch.get())};
}

}  // namespace tessera
