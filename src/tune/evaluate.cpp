#include "tune/evaluate.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <random>

#include "base/fs.h"
#include "base/interrupt.h"
#include "base/text.h"
#include "space/rules.h"
#include "space/space.h"
#include "tessera/dispatcher.h"
#include "tessera/error.h"
#include "tune/bench.h"

namespace tessera {
namespace {

constexpr size_t kStoredBest = 3, kChoices = 3;
constexpr int kDraws = 1000, kTimedRounds = 9;

std::vector<size_t> first_of(const std::vector<double>& us, size_t count) {
  std::vector<size_t> order(us.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t x, size_t y) { return us[x] < us[y]; });
  order.resize(std::min(order.size(), count));
  return order;
}

// The configuration with the highest mean efficiency over the problems for training; where it does not serve
// it counts as 0.
std::string fixed_choice(const TrainingData& data) {
  std::map<std::string, double> sums;
  for (const MeasuredProblem& p : data.problems) {
    if (p.fold != Fold::train) continue;
    for (size_t i = 0; i < p.configs.size(); ++i) sums[to_string(p.configs[i])] += p.best_us / p.us[i];
  }
  const auto best =
      std::max_element(sums.begin(), sums.end(), [](auto& x, auto& y) { return x.second < y.second; });
  return best == sums.end() ? "" : best->first;
}

std::vector<double> efficiencies(const Evaluation& e, double EvaluatedProblem::*us) {
  std::vector<double> out;
  for (const EvaluatedProblem& p : e.problems) {
    if (p.*us > 0) out.push_back(p.best_us / (p.*us));
  }
  return out;
}

Json interval(const std::vector<double>& e, double ModelScore::*figure) {
  std::mt19937_64 engine(1);
  std::vector<double> figures;
  std::vector<double> drawn(e.size());
  for (int i = 0; i < kDraws && !e.empty(); ++i) {
    for (double& x : drawn) x = e[engine() % e.size()];
    figures.push_back(score_of(drawn).*figure);
  }
  std::sort(figures.begin(), figures.end());
  if (figures.empty()) return Json::array();
  return Json::array().push(figures[kDraws / 40]).push(figures[kDraws - 1 - kDraws / 40]);
}

Json figures(const std::vector<double>& e) { return efficiency_json(score_of(e)); }

bool strided(const Problem& p) {
  return std::any_of(p.conv.stride.begin(), p.conv.stride.end(), [](int64_t s) { return s > 1; });
}
bool unaligned(const GemmView& v) { return v.n % 16 != 0 || v.k % 16 != 0; }

constexpr Regime kRegimes[] = {
    {"m <= 16", [](const Problem&, const GemmView& v) { return v.m <= 16; }},
    {"k <= 64", [](const Problem&, const GemmView& v) { return v.k <= 64; }},
    {"unaligned", [](const Problem&, const GemmView& v) { return unaligned(v); }},
    {"grouped", [](const Problem&, const GemmView& v) { return v.groups > 1; }},
    {"depthwise",
     [](const Problem& p, const GemmView&) { return is_conv(p.op) && p.conv.g > 1 && p.conv.c == 1; }},
    {"strided", [](const Problem& p, const GemmView&) { return is_conv(p.op) && strided(p); }},
    {"3-D", [](const Problem& p, const GemmView&) { return is_conv(p.op) && p.conv.dims == 3; }},
    {"others",
     [](const Problem& p, const GemmView& v) {
       return v.m > 16 && v.k > 64 && !unaligned(v) && v.groups == 1 &&
              !(is_conv(p.op) && (strided(p) || p.conv.dims == 3));
     }},
};

// What the peer takes in relation to the choice, both in turns; 0 where one of them does not run.
double peer_ratio(const EvaluatedProblem& row, const std::string& cache_dir, const EvaluateOptions& o,
                  int threads) {
  DispatcherOptions d{.device = o.device, .threads = threads, .policy = Policy::explicit_config};
  d.config = row.choice;
  d.cache_dir = cache_dir;
  Dispatcher dispatcher(d);
  const BenchRow timed = bench_problem(dispatcher, {row.family, row.problem}, {o.peer},
                                       {.threads = threads, .measure = {.min_rounds = kTimedRounds}});
  return timed.time_us > 0 && !timed.peers.empty() ? timed.peers[0].time_us / timed.time_us : 0;
}

// Shards write the same plan, whoever is first.
void keep_plan(const SweepPlan& plan, const std::string& directory) {
  if (!create_sweep_plan(plan, directory) &&
      to_json(read_sweep_plan(directory)).dump() != to_json(plan).dump()) {
    throw Error(ErrorCode::bad_input, "'" + directory + "' holds the times of another evaluation",
                "name another directory");
  }
}

// Share of the problems whose best is as fast.
double hit(const Evaluation& e, double EvaluatedProblem::*us) {
  const auto hits = std::count_if(e.problems.begin(), e.problems.end(),
                                  [&](const EvaluatedProblem& p) { return p.*us > 0 && p.*us <= p.best_us; });
  return e.problems.empty() ? 0 : static_cast<double>(hits) / static_cast<double>(e.problems.size());
}

}  // namespace

std::span<const Regime> regimes() { return kRegimes; }

Evaluation evaluate(const TrainingData& data, Fold fold, const Model& model, EvaluateOptions options,
                    const std::function<void(const SweepProgress&)>& progress) {
  if (data.count(fold) == 0)
    throw Error(
        ErrorCode::bad_input, "no measured problem is in the fold '" + std::string(to_string(fold)) + "'",
        "of shapes of your own one in eight is in the fold 'valid', the others in 'train': --fold names one");
  options.sweep.timing.min_rounds = kTimedRounds;
  options.sweep.timing.give_up_at = 0;
  const int threads = data.arch.compute_units;
  const std::string fixed = fixed_choice(data);
  SweepPlan plan{
      .device = options.device, .threads = threads, .arch = data.arch.name, .configs = {}, .problems = {}};
  std::map<std::string, size_t> index_of;
  struct Asked {
    const MeasuredProblem* problem;
    std::vector<std::string> choices;
    double predicted_us;
    std::string analytic;
  };
  std::vector<Asked> asked;
  for (const MeasuredProblem& p : data.problems) {
    if (p.fold != fold) continue;
    const std::vector<KernelConfig> legal = runnable_configs(p.view, data.arch);
    std::vector<double> us(legal.size()), plain(legal.size());
    model.predict(p.view, data.arch, legal, us);
    analytic_model().predict(p.view, data.arch, legal, plain);
    std::map<std::string, KernelConfig> timed;
    const auto time = [&](const KernelConfig& c) { return timed.emplace(to_string(c), c).first->first; };
    Asked a{&p, {}, 0, time(legal[first_of(plain, 1)[0]])};
    for (size_t i : first_of(us, kChoices)) {
      if (a.choices.empty()) a.predicted_us = us[i];
      a.choices.push_back(time(legal[i]));
    }
    // Rules may refuse by now what was measured once: no choice can come to it.
    const auto time_legal = [&](const KernelConfig& c) {
      if (!rejected_by(p.view, c, data.arch)) time(c);
    };
    for (size_t i : first_of(p.us, kStoredBest)) time_legal(p.configs[i]);
    for (const KernelConfig& c : p.configs) {
      if (to_string(c) == fixed) time_legal(c);
    }
    SweepProblem planned{network_family(p.problem), p.problem, {}};
    for (const auto& [text, config] : timed) {
      const auto [found, fresh] = index_of.try_emplace(text, plan.configs.size());
      if (fresh) plan.configs.push_back(config);
      planned.configs.push_back(found->second);
    }
    plan.problems.push_back(std::move(planned));
    asked.push_back(std::move(a));
  }
  std::optional<TempDir> temporary;
  if (options.directory.empty()) options.directory = temporary.emplace(temp_directory()).path();
  keep_plan(plan, options.directory);
  if (options.sweep.cache_dir.empty()) options.sweep.cache_dir = options.directory + "/kernels";
  run_sweep(options.directory, options.sweep, progress);
  options.sweep.retry.insert(SweepOutcome::ok);
  for (int pass = 1; pass < options.passes && !stop_requested(); ++pass)
    run_sweep(options.directory, options.sweep, progress);
  const SweepResults results = SweepResults::read(options.directory);
  Evaluation out{std::string(model.name()), {}, 0};
  if (const auto* learned = dynamic_cast<const LearnedModel*>(&model)) out.importance = learned->importance();
  for (size_t i = 0; i < asked.size(); ++i) {
    const Asked& a = asked[i];
    const std::string text = to_string(a.problem->problem);
    const auto fresh_us = [&](const std::string& config) {
      const SweepRecord* r = results.find(text, config);
      return r && r->outcome == SweepOutcome::ok ? r->best_us : 0;
    };
    EvaluatedProblem row{.problem = a.problem->problem,
                         .family = plan.problems[i].name,
                         .choice = a.choices[0],
                         .best = {},
                         .choice_us = fresh_us(a.choices[0]),
                         .analytic_us = fresh_us(a.analytic),
                         .fixed_us = fresh_us(fixed),
                         .predicted_us = a.predicted_us};
    const auto less = [](double us, double than) { return us > 0 && (than == 0 || us < than); };
    for (const std::string& c : a.choices) {
      if (less(fresh_us(c), row.top3_us)) row.top3_us = fresh_us(c);
    }
    for (size_t c : plan.problems[i].configs) {
      const std::string config = to_string(plan.configs[c]);
      if (!less(fresh_us(config), row.best_us)) continue;
      row.best_us = fresh_us(config);
      row.best = config;
    }
    if (row.choice_us > 0) {
      out.problems.push_back(std::move(row));
    } else {
      ++out.left_out;
    }
  }
  if (!options.peer) return out;
  out.peer = options.peer->name();
  for (size_t i = 0; i < out.problems.size() && !stop_requested(); ++i) {
    EvaluatedProblem& row = out.problems[i];
    if (progress) progress({"timing the peer", i, out.problems.size(), to_string(row.problem)});
    row.peer_us = row.choice_us * peer_ratio(row, options.sweep.cache_dir, options, threads);
  }
  return out;
}

Json to_json(const Evaluation& e) {
  const std::vector<double> choice = efficiencies(e, &EvaluatedProblem::choice_us);
  Json rows = Json::array(), by_regime = Json::array();
  for (const EvaluatedProblem& p : e.problems) {
    Json row = Json::object({{"problem", to_string(p.problem)},
                             {"family", p.family},
                             {"efficiency", p.best_us / p.choice_us},
                             {"choice", p.choice},
                             {"choice_us", p.choice_us},
                             {"predicted_us", p.predicted_us},
                             {"top3_us", p.top3_us},
                             {"analytic_us", p.analytic_us},
                             {"fixed_us", p.fixed_us},
                             {"best", p.best},
                             {"best_us", p.best_us}});
    if (!e.peer.empty()) row.set("peer_us", p.peer_us);
    rows.push(std::move(row));
  }
  for (const Regime& r : regimes()) {
    std::vector<double> some;
    for (const EvaluatedProblem& p : e.problems) {
      if (r.holds(p.problem, lower(p.problem))) some.push_back(p.best_us / p.choice_us);
    }
    if (!some.empty()) by_regime.push(figures(some).set("regime", r.name));
  }
  Json out = Json::object(
      {{"model", e.model},
       {"problems", static_cast<int64_t>(e.problems.size())},
       {"left_out", static_cast<int64_t>(e.left_out)},
       {"choice", figures(choice)
                      .set("hit", hit(e, &EvaluatedProblem::choice_us))
                      .set("mean_interval", interval(choice, &ModelScore::mean))
                      .set("p10_interval", interval(choice, &ModelScore::p10))},
       {"top3",
        figures(efficiencies(e, &EvaluatedProblem::top3_us)).set("hit", hit(e, &EvaluatedProblem::top3_us))},
       {"analytic", figures(efficiencies(e, &EvaluatedProblem::analytic_us))},
       {"fixed", figures(efficiencies(e, &EvaluatedProblem::fixed_us))},
       {"regimes", std::move(by_regime)},
       {"rows", std::move(rows)}});
  if (!e.peer.empty())
    out.set("peer", figures(efficiencies(e, &EvaluatedProblem::peer_us)).set("name", e.peer));
  if (!e.importance.empty()) {
    Json shares = Json::array();
    for (const FeatureShare& f : e.importance)
      shares.push(Json::object({{"feature", f.name}, {"share", f.share}}));
    out.set("importance", std::move(shares));
  }
  return out;
}

std::string to_csv(const Evaluation& e) {
  std::string out =
      "problem,family,efficiency,choice,choice_us,predicted_us,top3_us,analytic_us,fixed_us,best,best_us";
  out += e.peer.empty() ? "\n" : ",peer_us\n";
  for (const EvaluatedProblem& p : e.problems) {
    out += csv_cell(to_string(p.problem)) + ',' + p.family + ',' + format("%.4f", p.best_us / p.choice_us) +
           ',' + csv_cell(p.choice);
    for (double us : {p.choice_us, p.predicted_us, p.top3_us, p.analytic_us, p.fixed_us})
      out += format(",%.5g", us);
    out += ',' + csv_cell(p.best) + format(",%.5g", p.best_us);
    out += e.peer.empty() ? "\n" : format(",%.5g\n", p.peer_us);
  }
  return out;
}

}  // namespace tessera
