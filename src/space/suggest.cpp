// The legal configuration nearest to an illegal one: best first over the family's knobs, each of which may
// also keep the value it was given.
#include <algorithm>
#include <cmath>
#include <limits>

#include "space/enumerate.h"
#include "space/space.h"

namespace tessera {
namespace {

// How far a knob may move for the price of one doubling of a block extent.
struct Weight {
  std::string_view key;
  double weight;
};
constexpr Weight kWeights[] = {{"inst", 2.0}, {"swap_ab", 4.0}, {"preshuffle", 4.0}, {"pipeline", 2.0},
                               {"vec", 0.25}, {"pad", 0.25},    {"persistent", 0.5}};

double weight_of(const ConfigField& f) {
  for (const Weight& w : kWeights) {
    if (w.key == f.key) return w.weight;
  }
  return 1.0;
}

double distance(const ConfigField& f, int from, int to) {
  if (from == to) return 0;
  if (!f.names.empty() || from < 0) return weight_of(f);
  return weight_of(f) * (0.01 + std::fabs(std::log2((to + 1.0) / (from + 1.0))));
}

class Search {
 public:
  Search(const GemmView& v, const KernelConfig& wanted, const ArchSpec& a)
      : v_(v), a_(a), wanted_(wanted), plan_(family_plan(wanted.family_id())) {
    config_.family = wanted.family;
  }

  bool run(KernelConfig* nearest) {
    if (!allowed(plan_.at_start)) return false;
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

  std::vector<Step> steps(const KnobSpace& knob) const {
    std::vector<KnobValue> values;
    knob.source->values(v_, a_, *plan_.space, knob, config_, values);
    values.insert(values.end(), knob.listed.begin(), knob.listed.end());
    KnobValue own{};
    for (size_t i = 0; i < knob.fields.size(); ++i) own[i] = wanted_.*knob.fields[i]->member;
    values.push_back(own);
    std::vector<Step> out;
    for (const KnobValue& value : values) {
      double total = 0;
      for (size_t i = 0; i < knob.fields.size(); ++i) total += distance(*knob.fields[i], own[i], value[i]);
      out.push_back({total, value});
    }
    std::stable_sort(out.begin(), out.end(),
                     [](const Step& x, const Step& y) { return x.distance < y.distance; });
    return out;
  }

  void level(size_t k, double so_far) {
    if (k == plan_.ready.size()) {
      best_ = config_;
      best_distance_ = so_far;
      return;
    }
    const KnobSpace& knob = plan_.space->knobs[k];
    for (const Step& step : steps(knob)) {
      if (so_far + step.distance >= best_distance_) break;
      for (size_t i = 0; i < knob.fields.size(); ++i) config_.*knob.fields[i]->member = step.value[i];
      if (allowed(plan_.ready[k])) level(k + 1, so_far + step.distance);
    }
    for (const ConfigField* f : knob.fields) config_.*f->member = f->default_value;
  }

  const GemmView& v_;
  const ArchSpec& a_;
  const KernelConfig& wanted_;
  const FamilyPlan& plan_;
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
