// The legal configuration nearest to an illegal one: best first over the family's knobs, each of which may
// also keep the value it was given.
#include <algorithm>
#include <cmath>
#include <limits>

#include "space/enumerate.h"
#include "space/rule_row.h"
#include "space/space.h"

namespace tessera {
namespace {

// How far a knob may move for the price of one doubling of a block extent.
struct Weight {
  std::string_view key;
  double weight;
};
constexpr Weight kWeights[] = {{"inst", 2.0}, {"swap_ab", 4.0}, {"preshuffle", 4.0}, {"pipeline", 2.0},
                               {"vec", 0.25}, {"pad", 0.25},    {"persistent", 0.5}, {"split_k", 0.5}};

double weight_of(const ConfigField& f) {
  for (const Weight& w : kWeights) {
    if (w.key == f.key) return w.weight;
  }
  return 1.0;
}

bool plausible(const ConfigField& f, int value) {
  const auto [low, high] = knob_bounds(static_cast<size_t>(&f - config_fields().data()));
  return value >= low && value <= high;
}

// From a value that can never be right every way is equally far.
double distance(const ConfigField& f, int from, int to) {
  if (from == to) return 0;
  if (!f.names.empty() || !plausible(f, from)) return weight_of(f);
  return weight_of(f) * (0.01 + std::fabs(std::log2((to + 1.0) / (from + 1.0))));
}

// Partial configurations after which the search no longer looks for a nearer one than it has.
constexpr int kPatience = 100000;

class Search {
 public:
  Search(const GemmView& v, const KernelConfig& wanted, const ArchSpec& a)
      : v_(v),
        a_(a),
        wanted_(wanted),
        plan_(family_plan(wanted.family_id())),
        knobs_(plan_.space->knobs.size()) {
    config_.family = wanted.family;
  }

  bool run(KernelConfig* nearest) {
    if (!allowed(plan_.at_start)) return false;
    for (size_t k = knobs_.size(); k-- > 0;) {
      const KnobSpace& knob = plan_.space->knobs[k];
      if (knob.source->reads == 0) fill(k);
      // What the knobs from k on cost at the least; those whose values depend on others may cost nothing.
      const bool bounded = knob.source->reads == 0 && !knobs_[k].steps.empty();
      knobs_[k].least =
          (bounded ? knobs_[k].steps[0].distance : 0) + (k + 1 < knobs_.size() ? knobs_[k + 1].least : 0);
    }
    level(0, 0);
    if (std::isfinite(best_distance_)) *nearest = best_;
    return std::isfinite(best_distance_);
  }

 private:
  bool allowed(std::span<const Rule* const> list) const {
    return std::all_of(list.begin(), list.end(), [&](const Rule* r) { return r->allows(v_, config_, a_); });
  }

  struct Step {
    double distance;
    KnobValue value;
  };

  struct Knob {
    std::vector<Step> steps;  // nearest first
    double least = 0;         // cost of this and the later knobs, at the least
  };

  // The values of knob k: what its source offers, its list, and its own where that may be right.
  void fill(size_t k) {
    const KnobSpace& knob = plan_.space->knobs[k];
    values_.clear();
    knob.source->values(v_, a_, *plan_.space, knob, config_, values_);
    values_.insert(values_.end(), knob.listed.begin(), knob.listed.end());
    KnobValue own{};
    bool may_be_right = true;
    for (size_t i = 0; i < knob.fields.size(); ++i) {
      own[i] = wanted_.*knob.fields[i]->member;
      may_be_right &= plausible(*knob.fields[i], own[i]);
    }
    if (may_be_right) values_.push_back(own);
    std::vector<Step>& steps = knobs_[k].steps;
    steps.clear();
    for (const KnobValue& value : values_) {
      if (!possible(k, value)) continue;
      double total = 0;
      for (size_t i = 0; i < knob.fields.size(); ++i) total += distance(*knob.fields[i], own[i], value[i]);
      steps.push_back({total, value});
    }
    std::stable_sort(steps.begin(), steps.end(),
                     [](const Step& x, const Step& y) { return x.distance < y.distance; });
  }

  // Whether the rules that read nothing but knob k allow the value: what they refuse must not loosen the
  // bound.
  bool possible(size_t k, const KnobValue& value) {
    const KnobSpace& knob = plan_.space->knobs[k];
    uint64_t own = 1;
    for (const ConfigField* f : knob.fields) own |= uint64_t{1} << (f - config_fields().data());
    KernelConfig alone = config_;
    for (size_t i = 0; i < knob.fields.size(); ++i) alone.*knob.fields[i]->member = value[i];
    return std::all_of(plan_.ready[k].begin(), plan_.ready[k].end(),
                       [&](const Rule* r) { return (r->reads & ~own) != 0 || r->allows(v_, alone, a_); });
  }

  void level(size_t k, double so_far) {
    if (++visited_ > kPatience && std::isfinite(best_distance_)) return;
    if (k == knobs_.size()) {
      best_ = config_;
      best_distance_ = so_far;
      return;
    }
    const KnobSpace& knob = plan_.space->knobs[k];
    if (knob.source->reads != 0) fill(k);
    const double rest = k + 1 < knobs_.size() ? knobs_[k + 1].least : 0;
    for (const Step& step : knobs_[k].steps) {
      if (so_far + step.distance + rest >= best_distance_) break;
      for (size_t i = 0; i < knob.fields.size(); ++i) config_.*knob.fields[i]->member = step.value[i];
      if (allowed(plan_.ready[k])) level(k + 1, so_far + step.distance);
    }
    for (const ConfigField* f : knob.fields) config_.*f->member = f->default_value;
  }

  const GemmView& v_;
  const ArchSpec& a_;
  const KernelConfig& wanted_;
  const FamilyPlan& plan_;
  std::vector<Knob> knobs_;
  std::vector<KnobValue> values_;
  int visited_ = 0;
  KernelConfig config_, best_;
  double best_distance_ = std::numeric_limits<double>::infinity();
};

// The rule that refuses `fixed` with the knobs of `key` put back as they were in `wanted`.
const Rule* culprit(const GemmView& v, const KernelConfig& wanted, const KernelConfig& fixed,
                    std::string_view key, const ArchSpec& a) {
  KernelConfig back = fixed;
  for (const ConfigField& f : config_fields()) {
    if (f.key == key) back.*f.member = wanted.*f.member;
  }
  const Rule* rule = rejected_by(v, back, a);
  return rule ? rule : rejected_by(v, wanted, a);
}

}  // namespace

Suggestion suggest(const GemmView& v, const KernelConfig& c, const ArchSpec& a) {
  Suggestion out;
  if (!rejected_by(v, c, a)) {
    out.config.push_back(c);
    return out;
  }
  KernelConfig nearest;
  const bool known = c.family >= 0 && c.family < static_cast<int>(families().size());
  if (!known || !Search(v, c, a).run(&nearest) || rejected_by(v, nearest, a)) return out;
  out.config.push_back(nearest);
  for (const ConfigField& f : config_fields()) {
    if (c.*f.member == nearest.*f.member) continue;
    const Rule* rule = culprit(v, c, nearest, f.key, a);
    out.changes.push_back(std::string(f.name) + ": " + value_text(f, c.*f.member) + " -> " +
                          value_text(f, nearest.*f.member) + " (" + std::string(rule->name) +
                          "): " + std::string(rule->reason));
  }
  return out;
}

}  // namespace tessera
