// Judging a model: its choices against the best configurations, all timed afresh and in turn.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "model/learned.h"
#include "model/model.h"
#include "tune/peer.h"
#include "tune/sweep_run.h"
#include "tune/train.h"

namespace tessera {

struct EvaluatedProblem {
  Problem problem;
  std::string family;  // of networks; "" for none
  std::string choice, best;
  // Fresh microseconds, least samples: of the model's first choice, the best of its first three, the analytic
  // model's choice, the one configuration that serves all best, and the least of everything timed. 0: not
  // among them.
  double choice_us = 0, top3_us = 0, analytic_us = 0, fixed_us = 0, best_us = 0;
  double predicted_us = 0;  // of the choice
  // Of another library: how it compares to the choice when both run in turns in this process, times
  // choice_us. 0: it does not offer the problem.
  double peer_us = 0;
};

struct Evaluation {
  std::string model;
  std::vector<EvaluatedProblem> problems;
  size_t left_out = 0;                     // whose choice or best did not run right
  std::string peer{};                      // the library of peer_us
  std::vector<FeatureShare> importance{};  // of a learned model's features, most important first
};

struct EvaluateOptions {
  SweepOptions sweep;  // but its rounds, which are the evaluation's own: no candidate is given up early
  int passes = 1;      // over all problems, one after the other: what disturbs one pass spares another
  std::string device = "cpu";
  std::string directory{};             // of the fresh times, which are not taken again; "" = none stays
  std::shared_ptr<const Peer> peer{};  // timed beside the choices
};

// The problems of `fold`: the model chooses among all legal configurations. Its choices, the stored best
// three and the choices it is compared to are timed again in one child per problem, so the best is not the
// luckiest of many measurements. Error(bad_input) when no problem is in the fold.
Evaluation evaluate(const TrainingData& data, Fold fold, const Model& model, EvaluateOptions options,
                    const std::function<void(const SweepProgress&)>& progress = {});

// A share of problems by what makes them special.
struct Regime {
  std::string_view name;
  bool (*holds)(const Problem& p, const GemmView& v);
};
std::span<const Regime> regimes();

// {model, problems, choice: {mean, ..., hit, mean_interval, p10_interval}, top3, analytic, fixed, regimes,
// rows}, with a peer also its name and its figures, of a learned model "importance". hit: share of problems
// where it is the best. Intervals hold 95% of 1000 draws of the problems with replacement.
Json to_json(const Evaluation& e);
std::string to_csv(const Evaluation& e);
// One file that needs no other: distribution of efficiency, predicted against measured, regimes, worst cases,
// importance of features.
std::string to_html(const Evaluation& e);

}  // namespace tessera
