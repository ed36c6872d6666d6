// Learned models: trees that correct the analytic model's prediction. Trained by `tessera train`.
//
// A model file, all little-endian: "TSRMODEL", version, length of the header, header (JSON: what the model is
// for, the features by name, how it was made), the first trees and then the others as ForestArrays (the
// length of each array, then its 32-bit items), and 32 hex digits of checksum over all before.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/forest.h"
#include "model/forest_rows.h"
#include "model/model.h"
#include "tessera/json.h"
#include "tessera/problem.h"

namespace tessera {

// What a learned model holds for: other problems are the analytic model's.
struct ModelScope {
  std::string arch;  // and those that it serves (ArchSpec::models)
  std::string operation;
  std::vector<std::string> types;  // as types_text() gives them
  std::vector<int> units;          // cores or compute units
  // Of the configurations whose times it has seen; empty: all. Others get the choice's correction.
  std::vector<std::string> families{};

  bool covers(const ArchSpec& a, const Problem& p) const;
  // The number of units whose times serve an architecture with a.compute_units: that number where it has seen
  // it; else, of cores, the nearest by ratio, the fewer of two that are as near; 0: it serves no such.
  int serving_units(const ArchSpec& a) const;
  // "ARCH/OPERATION", of several cores "ARCH/OPERATION.CORES": where a shipped model lies under models/.
  std::string title() const;
};

// What share of a model's questions is about one feature: a question at depth d of a tree counts 2^-d.
struct FeatureShare {
  std::string name;
  double share;
};

// predicted time = analytic prediction * exp(sum of the trees). Where an architecture has another number of
// cores than those whose times serve it, the trees are asked about these: what they correct of their time
// they correct of others' too, and how much less or more time those take is the analytic model's word.
class LearnedModel : public Model {
 public:
  // `made`: free words about the training, kept in the header. Error(unsupported) naming a feature that this
  // program does not have.
  LearnedModel(ModelScope scope, std::vector<std::string> features, const Forest& forest, Json made);

  // Error(corrupt) when the bytes are no whole model. `origin` goes into errors.
  static std::shared_ptr<const LearnedModel> parse(std::string_view bytes, std::string_view origin);
  std::string bytes() const;

  std::string_view name() const override { return name_; }
  const ModelScope& scope() const { return scope_; }
  const std::vector<std::string>& feature_names() const { return names_; }
  Forest forest() const;
  // sums[r] += the sum of all trees for row r, as ForestRows::add adds it up.
  void add_trees(std::span<const float* const> columns, std::span<const uint8_t> same, size_t rows,
                 float* sums) const;
  const Json& made() const { return made_; }
  std::vector<FeatureShare> importance() const;  // largest first, features never asked for left out

  // Who is asked, so that a new problem is selected soon: of the configurations with the least analytic
  // predictions the first trees, and of those that then look best all others. The rest is put behind them.
  // Of a family that the model has not seen it says what the analytic model does, corrected as its choice
  // among the others is.
  // Analytic predictions of GPU kernels are nearer to what the trees make of them; those of a CPU's families
  // may be three times apart from one another, and of what shares memory and units with other cores the
  // analytic model knows too little to leave any out.
  static size_t most_begun(const ArchSpec& a) {
    if (a.backend != BackendKind::cpu) return 128;
    return a.compute_units == 1 ? 320 : std::numeric_limits<size_t>::max();
  }
  static constexpr size_t kFirstTrees = 48, kMostAsked = 64;

  void predict(const GemmView& v, const ArchSpec& a, std::span<const KernelConfig> configs,
               std::span<double> us) const override;
  // The trees' word on every one, however many they are.
  void predict_each(const GemmView& v, const ArchSpec& a, std::span<const KernelConfig> configs,
                    std::span<double> us) const;
  double band() const override { return band_; }

  // The trees' input for up to Forest::kRows configs, for `a` as it is: feature i of config r at
  // out[i * kRows + r].
  void inputs(const GemmView& v, const ArchSpec& a, std::span<const KernelConfig> configs, float* out) const;

 private:
  class Asking;
  LearnedModel(ModelScope scope, std::vector<std::string> features, ForestRows first, ForestRows rest,
               Json made);

  // Whether the trees are asked about a problem with packed B as if nothing were packed, and what they
  // correct there holds for it: those of convolutions know few others.
  bool asks_unpacked(const GemmView& v) const;
  // ask_of(Asking&) for each view that configurations have.
  template <class Ask>
  void ask(const GemmView& v, const ArchSpec& a, std::span<const KernelConfig> configs, std::span<double> us,
           const Ask& ask_of) const;

  ModelScope scope_;
  std::vector<std::string> names_;
  ForestRows first_, rest_;  // kFirstTrees of the forest, and the others
  Json made_;
  std::string name_;
  double band_;
  std::vector<uint16_t> chosen_;  // indices into features()
  std::vector<uint8_t> same_;     // those that depend on the problem alone
  std::vector<uint16_t> asked_;   // indices into chosen_: those that some tree tests
  uint64_t seen_ = 0;             // families, as bits
};

// Cores or compute units that take part in a problem: of several cores a single one, where it is so small.
int units_at_work(const ArchSpec& a, const GemmView& v);

// `choice` as DispatcherOptions::model. "": of this program's models under models/ARCH/, ARCH being a.models,
// that cover the problem the one whose units are nearest to those at work, else the analytic model. A file
// covers what it says; for other problems the analytic model is used, and a warning says so once. Read once
// per process and file. Error(io) or Error(corrupt) when a file does not serve.
const Model& model_for(const std::string& choice, const ArchSpec& a, const Problem& p);

}  // namespace tessera
