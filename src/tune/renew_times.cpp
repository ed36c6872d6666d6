#include "tune/renew_times.h"

#include <algorithm>
#include <map>

#include "base/text.h"
#include "tessera/error.h"

namespace tessera {
namespace {

// Ratios of the new times to the old ones.
class Levels {
 public:
  Levels(const MeasuredProblem& old, const std::map<std::string, double>& fresh) {
    for (size_t i = 0; i < old.configs.size(); ++i) {
      const auto found = fresh.find(to_string(old.configs[i]));
      if (found == fresh.end()) continue;
      const double ratio = found->second / old.us[i];
      all_.push_back(ratio);
      families_[old.configs[i].family_id()].push_back(ratio);
    }
  }

  // 0: nothing is known.
  double of(Family f) const {
    const auto own = families_.find(f);
    return median(own == families_.end() ? all_ : own->second);
  }

 private:
  static double median(std::vector<double> ratios) {
    if (ratios.empty()) return 0;
    const auto middle = ratios.begin() + static_cast<ptrdiff_t>(ratios.size() / 2);
    std::nth_element(ratios.begin(), middle, ratios.end());
    return *middle;
  }

  std::vector<double> all_;
  std::map<Family, std::vector<double>> families_;
};

void renew(MeasuredProblem& old, const MeasuredProblem& newer, Renewal& done) {
  std::map<std::string, double> fresh;
  for (size_t i = 0; i < newer.configs.size(); ++i) fresh.emplace(to_string(newer.configs[i]), newer.us[i]);
  const Levels levels(old, fresh);
  MeasuredProblem merged = newer;
  for (size_t i = 0; i < old.configs.size(); ++i) {
    const KernelConfig& config = old.configs[i];
    if (fresh.count(to_string(config))) continue;
    const double ratio = levels.of(config.family_id());
    ++(ratio > 0 ? done.levelled : done.dropped);
    if (ratio <= 0) continue;
    merged.configs.push_back(config);
    merged.us.push_back(old.us[i] * ratio);
  }
  merged.best_us = *std::min_element(merged.us.begin(), merged.us.end());
  old = std::move(merged);
}

}  // namespace

Renewal renew(TrainingData& data, const TrainingData& newer) {
  const auto refuse_unlike = [](const std::string& what, const std::string& old, const std::string& now) {
    if (old != now)
      throw Error(ErrorCode::bad_input, "times of another " + what + ": " + old + ", and now " + now);
  };
  refuse_unlike("architecture", data.arch.name, newer.arch.name);
  refuse_unlike("operation", data.operation, newer.operation);
  refuse_unlike("number of units", std::to_string(data.arch.compute_units),
                std::to_string(newer.arch.compute_units));
  std::map<std::string, MeasuredProblem*> known;
  for (MeasuredProblem& p : data.problems) known.emplace(to_string(p.problem), &p);
  Renewal done;
  std::vector<const MeasuredProblem*> more;
  for (const MeasuredProblem& p : newer.problems) {
    const auto old = known.find(to_string(p.problem));
    if (old == known.end()) {
      more.push_back(&p);
    } else {
      renew(*old->second, p, done);
      ++done.renewed;
    }
  }
  for (const MeasuredProblem* p : more) data.add(p->problem, p->configs, p->us);
  done.added = more.size();
  std::sort(data.problems.begin(), data.problems.end(),
            [](const auto& x, const auto& y) { return to_string(x.problem) < to_string(y.problem); });
  return done;
}

}  // namespace tessera
