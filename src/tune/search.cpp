#include "tune/search.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "backend/backend.h"
#include "base/fs.h"
#include "base/interrupt.h"
#include "base/text.h"
#include "core/family.h"
#include "core/gemm_view.h"
#include "model/learned.h"
#include "space/space.h"
#include "tessera/error.h"

namespace tessera {
namespace {

constexpr size_t kRounds = 4;            // of evolution
constexpr double kParents = 0.25;        // share of what was measured that has children
constexpr double kSharePredicted = 0.5;  // of the first round; the others are drawn

// What is known of each legal configuration. They are in the order of their predicted times.
struct Space {
  std::vector<KernelConfig> configs;
  std::vector<double> predicted;
  std::vector<double> us;  // measured; 0: not yet, or not right
  std::vector<bool> measured;
  std::mt19937_64 random;

  std::vector<size_t> open() const {
    std::vector<size_t> out;
    for (size_t i = 0; i < configs.size(); ++i) {
      if (!measured[i]) out.push_back(i);
    }
    return out;
  }
  size_t draw(size_t count) { return static_cast<size_t>(random() % count); }
};

using Picks = std::vector<size_t>;

Picks best_predicted(Space& s, size_t count) {
  Picks open = s.open();
  open.resize(std::min(count, open.size()));
  return open;
}

Picks drawn(Space& s, size_t count) {
  Picks open = s.open(), out;
  while (out.size() < count && !open.empty()) {
    std::swap(open[s.draw(open.size())], open.back());
    out.push_back(open.back());
    open.pop_back();
  }
  return out;
}

int differing_knobs(const KernelConfig& x, const KernelConfig& y) {
  int count = 0;
  for (const ConfigField& f : config_fields()) count += x.*f.member != y.*f.member;
  return count;
}

// Knobs of either parent, now and then one of any legal configuration; of what was not measured, the nearest
// to that, and of equally near ones the best predicted.
Picks children(Space& s, size_t count) {
  Picks parents;
  for (size_t i = 0; i < s.configs.size(); ++i) {
    if (s.us[i] > 0) parents.push_back(i);
  }
  if (parents.empty()) return drawn(s, count);
  std::stable_sort(parents.begin(), parents.end(), [&](size_t x, size_t y) { return s.us[x] < s.us[y]; });
  parents.resize(std::max<size_t>(1, static_cast<size_t>(static_cast<double>(parents.size()) * kParents)));
  Picks open = s.open(), out;
  while (out.size() < count && !open.empty()) {
    const KernelConfig &one = s.configs[parents[s.draw(parents.size())]],
                       &other = s.configs[parents[s.draw(parents.size())]];
    KernelConfig child = one;
    for (const ConfigField& f : config_fields()) {
      if (s.random() % 2) child.*f.member = other.*f.member;
    }
    const ConfigField& changed = config_fields()[s.draw(config_fields().size())];
    child.*changed.member = s.configs[s.draw(s.configs.size())].*changed.member;
    const auto nearest = std::min_element(open.begin(), open.end(), [&](size_t x, size_t y) {
      return differing_knobs(s.configs[x], child) < differing_knobs(s.configs[y], child);
    });
    out.push_back(*nearest);
    open.erase(nearest);  // stays in the order of predicted times
  }
  return out;
}

Picks evolution(Space& s, size_t count) {
  if (std::any_of(s.us.begin(), s.us.end(), [](double us) { return us > 0; })) return children(s, count);
  Picks first =
      best_predicted(s, static_cast<size_t>(std::llround(static_cast<double>(count) * kSharePredicted)));
  for (size_t i : first) s.measured[i] = true;  // not drawn again
  const Picks rest = drawn(s, count - first.size());
  first.insert(first.end(), rest.begin(), rest.end());
  return first;
}

struct Row {
  SearchStrategy shown;
  size_t rounds;
  Picks (*pick)(Space&, size_t count);
};
constexpr Row kSearches[] = {
    {{"model", "the best predicted"}, 1, best_predicted},
    {{"random", "evenly drawn"}, 1, drawn},
    {{"evolution", "in rounds, between and beside the fastest so far"}, kRounds, evolution},
};

const Row& find_strategy(const std::string& name) {
  std::vector<std::string_view> names;
  for (const Row& r : kSearches) {
    if (r.shown.name == name) return r;
    names.push_back(r.shown.name);
  }
  throw Error(ErrorCode::bad_input, "unknown search strategy '" + name + "'", "one of " + join(names, " "));
}

// One round: a sweep of these configurations.
class Rounds {
 public:
  Rounds(const Problem& problem, const SearchOptions& o, const ArchSpec& arch,
         const std::function<void(const SweepProgress&)>& progress)
      : problem_(problem), o_(o), arch_(arch), progress_(progress), directory_(temp_directory()) {}

  std::vector<Measurement> measure(const Space& s, const Picks& picks) {
    const std::string place = directory_.path() + "/" + std::to_string(count_++);
    SweepPlan plan{
        .device = o_.device, .threads = o_.threads, .arch = arch_.name, .configs = {}, .problems = {}};
    SweepProblem row{"search", problem_, {}};
    for (size_t i : picks) {
      row.configs.push_back(plan.configs.size());
      plan.configs.push_back(s.configs[i]);
    }
    plan.problems.push_back(std::move(row));
    write_sweep_plan(plan, place);
    SweepOptions sweep = o_.sweep;
    if (sweep.cache_dir.empty()) sweep.cache_dir = directory_.path() + "/kernels";
    stopped_ |= run_sweep(place, sweep, progress_).stopped;
    return measurements_of_sweep(place);
  }
  bool stopped() const { return stopped_ || stop_requested(); }

 private:
  const Problem& problem_;
  const SearchOptions& o_;
  const ArchSpec& arch_;
  const std::function<void(const SweepProgress&)>& progress_;
  TempDir directory_;
  int count_ = 0;
  bool stopped_ = false;
};

Space legal_space(const Problem& p, const SearchOptions& o, const ArchSpec& arch) {
  const GemmView view = lower(p);
  const std::vector<KernelConfig> legal = runnable_configs(view, arch);
  if (legal.empty())
    throw Error(ErrorCode::unsupported, "no configuration is legal",
                "tessera explain says which rules refuse");
  std::vector<double> us(legal.size());
  model_for(o.model, arch, p).predict(view, arch, legal, us);
  std::vector<size_t> order(legal.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t x, size_t y) { return us[x] < us[y]; });
  Space s;
  for (size_t i : order) {
    s.configs.push_back(legal[i]);
    s.predicted.push_back(us[i]);
  }
  s.us.assign(legal.size(), 0);
  s.measured.assign(legal.size(), false);
  s.random.seed(o.seed ^ hash(p));
  return s;
}

size_t index_of(const Space& s, const std::string& config) {
  size_t i = 0;
  while (i < s.configs.size() && to_string(s.configs[i]) != config) ++i;
  return i;
}

}  // namespace

std::span<const SearchStrategy> search_strategies() {
  static const std::vector<SearchStrategy> shown = [] {
    std::vector<SearchStrategy> out;
    for (const Row& r : kSearches) out.push_back(r.shown);
    return out;
  }();
  return shown;
}

SearchResult search(const Problem& problem, const SearchOptions& o,
                    const std::function<void(const SweepProgress&)>& progress) {
  const Row& strategy = find_strategy(o.strategy);
  if (o.budget == 0) throw Error(ErrorCode::bad_input, "a budget of 0 configurations", "at least 1");
  const auto backend = make_backend(o.device, o.threads);
  Space space = legal_space(problem, o, backend->arch());
  Rounds rounds(problem, o, backend->arch(), progress);
  SearchResult result{.legal = space.configs.size(),
                      .measured = {},
                      .best = {},
                      .model = space.configs[0],
                      .predicted_us = space.predicted[0]};
  const size_t total = std::min(o.budget, space.configs.size());
  for (size_t round = 0, done = 0; done < total && !rounds.stopped(); ++round) {
    // What is left, evenly over the rounds that are left.
    const size_t left = strategy.rounds - std::min(round, strategy.rounds - 1);
    size_t count = (total - done + left - 1) / left;
    Picks picks;
    if (done == 0) {  // the model's choice is always among them
      picks = {0};
      space.measured[0] = true;
      --count;
    }
    for (size_t i : strategy.pick(space, count)) picks.push_back(i);
    for (size_t i : picks) space.measured[i] = true;
    done += picks.size();
    for (Measurement& m : rounds.measure(space, picks)) {
      const size_t i = index_of(space, m.record.config);
      if (i < space.us.size() && m.record.outcome == SweepOutcome::ok) space.us[i] = m.record.median_us;
      result.measured.push_back(std::move(m));
    }
  }
  size_t best = space.configs.size();
  for (size_t i = 0; i < space.configs.size(); ++i) {
    if (space.us[i] > 0 && (best == space.configs.size() || space.us[i] < space.us[best])) best = i;
  }
  if (best == space.configs.size()) {
    throw_if_stopped();
    throw Error(ErrorCode::device,
                "none of " + std::to_string(result.measured.size()) + " configurations ran right");
  }
  if (best != 0 && space.us[0] > 0 && !rounds.stopped()) {
    for (const Measurement& m : rounds.measure(space, {0, best})) {
      const size_t i = index_of(space, m.record.config);
      if (i < space.us.size() && m.record.outcome == SweepOutcome::ok) space.us[i] = m.record.median_us;
    }
    if (space.us[0] <= space.us[best]) best = 0;
  }
  result.best = space.configs[best];
  result.best_us = space.us[best];
  result.model_us = space.us[0];
  result.stopped = rounds.stopped();
  return result;
}

}  // namespace tessera
