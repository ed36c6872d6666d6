#include "tune/renew_times.h"

#include <algorithm>
#include <map>
#include <optional>

#include "tessera/error.h"
#include "tune/measure.h"

namespace tessera {
namespace {

// Ratios of new times to old ones.
class Levels {
 public:
  void add(const MeasuredProblem& old, const std::map<std::string, double>& fresh) {
    for (size_t i = 0; i < old.configs.size(); ++i) {
      const auto found = fresh.find(to_string(old.configs[i]));
      if (found == fresh.end()) continue;
      const double ratio = found->second / old.us[i];
      all_.push_back(ratio);
      families_[old.configs[i].family_id()].push_back(ratio);
    }
  }
  std::optional<double> of(Family f) const {
    const auto own = families_.find(f);
    return own == families_.end() ? all() : median(own->second);
  }
  std::optional<double> all() const { return all_.empty() ? std::nullopt : std::optional(median(all_)); }

 private:
  std::vector<double> all_;
  std::map<Family, std::vector<double>> families_;
};

// A problem that was measured again.
struct Twice {
  MeasuredProblem* old;
  const MeasuredProblem* newer;
  std::map<std::string, double> fresh;  // times by configuration
  Levels levels;

  Twice(MeasuredProblem& before, const MeasuredProblem& now) : old(&before), newer(&now) {
    for (size_t i = 0; i < now.configs.size(); ++i) fresh.emplace(to_string(now.configs[i]), now.us[i]);
    levels.add(before, fresh);
  }

  // Without `everywhere` what `newer` lacks stays as it was. Counts what does not.
  size_t merge(const Levels* everywhere) {
    MeasuredProblem merged = *newer;
    for (size_t i = 0; i < old->configs.size(); ++i) {
      const KernelConfig& config = old->configs[i];
      if (fresh.count(to_string(config))) continue;
      std::optional<double> level;
      if (everywhere) level = levels.of(config.family_id());
      if (everywhere && !level) level = everywhere->of(config.family_id());
      merged.configs.push_back(config);
      merged.us.push_back(old->us[i] * level.value_or(1));
    }
    merged.best_us = *std::min_element(merged.us.begin(), merged.us.end());
    *old = std::move(merged);
    return everywhere ? old->us.size() - fresh.size() : 0;
  }
};

void refuse_unlike(const std::string& what, const std::string& old, const std::string& now) {
  if (old != now)
    throw Error(ErrorCode::bad_input, "times of another " + what + ": " + old + ", and now " + now);
}

}  // namespace

Renewal renew(TrainingData& data, const TrainingData& newer, bool level) {
  refuse_unlike("architecture", data.arch.name, newer.arch.name);
  refuse_unlike("operation", data.operation, newer.operation);
  refuse_unlike("number of units", std::to_string(data.arch.compute_units),
                std::to_string(newer.arch.compute_units));
  std::map<std::string, MeasuredProblem*> known;
  for (MeasuredProblem& p : data.problems) known.emplace(to_string(p.problem), &p);
  std::vector<Twice> twice;
  std::vector<const MeasuredProblem*> more;
  Levels everywhere;
  for (const MeasuredProblem& p : newer.problems) {
    const auto old = known.find(to_string(p.problem));
    if (old == known.end()) {
      more.push_back(&p);
      continue;
    }
    twice.emplace_back(*old->second, p);
    everywhere.add(*old->second, twice.back().fresh);
  }
  Renewal done{more.size(), twice.size(), 0, everywhere.all().value_or(1)};
  for (Twice& t : twice) done.levelled += t.merge(level ? &everywhere : nullptr);
  for (const MeasuredProblem* p : more) data.add(p->problem, p->configs, p->us);
  std::sort(data.problems.begin(), data.problems.end(),
            [](const auto& x, const auto& y) { return to_string(x.problem) < to_string(y.problem); });
  return done;
}

}  // namespace tessera
