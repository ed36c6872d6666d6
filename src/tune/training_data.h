// Measurements as a model is trained and judged on them: by problem, and by the network family it comes from.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/arch_spec.h"
#include "core/gemm_view.h"
#include "tune/database.h"

namespace tessera {

// Which fold a problem belongs to. Problems of the suites go with their network family, so that no network is
// in two folds, by models/splits.json; others are drawn by their shape, one in eight for validation.
enum class Fold : int { train, valid, test };
std::string_view to_string(Fold f);
Fold parse_fold(std::string_view text);  // Error(bad_input) for another word
std::span<const std::string_view> fold_names();
Fold fold_of(const Problem& p);

// The first piece of the name that the suites have for the shape, whatever its element types; "" when they
// lack it.
std::string network_family(const Problem& p);

// One problem with the configurations that ran right, and their times.
struct MeasuredProblem {
  Problem problem;
  GemmView view;
  Fold fold = Fold::train;
  std::vector<KernelConfig> configs;
  std::vector<double> us;
  double best_us = 0;
  std::string measured{};  // what TrainingData::hash says of the times, where some were left out
};

struct TrainingData {
  ArchSpec arch;  // with the units of the measurements
  std::string operation;
  std::vector<std::string> types;         // of the problems, ordered
  std::vector<MeasuredProblem> problems;  // ordered by text; each has at least two configurations
  std::string processor{};                // its name, or names, where the measurements were made

  // Another problem with the configurations that ran right, at least two, and their times; all else follows.
  // What was legal when it was measured and is no longer is left out, as no model can say anything of it, and
  // so is a problem that loses all but one to that. One that several cores leave to a single one is, too.
  void add(const Problem& p, std::vector<KernelConfig> configs, std::vector<double> us);

  size_t rows(Fold f) const;
  size_t count(Fold f) const;
  // What a model is judged on: the fold for tests, or where only problems of one's own were measured, which
  // no network that is set aside has, that for validation.
  Fold judging_fold() const { return count(Fold::test) > 0 ? Fold::test : Fold::valid; }
  std::string hash() const;  // of everything that was measured on these problems, and of their folds
};

// The latest right measurements of one operation on one device, by their least samples, the least of those
// made within a few hours; those of groups that shared their core, as the anchor kernel tells, are left out.
// Error(bad_input) when there are none, or when `units` is 0 and there are several numbers of units.
TrainingData training_data(const Database& db, const std::string& arch, const std::string& operation,
                           int units = 0);

}  // namespace tessera
