// Crossing the values of a family's knobs, with the rules applied as soon as the knobs they read are decided.
#include "space/enumerate.h"

#include <algorithm>
#include <map>
#include <span>

#include "core/family.h"
#include "core/tile_math.h"
#include "space/rule_row.h"
#include "space/space.h"

namespace tessera {
namespace {

uint64_t knobs_of(const KnobSpace& k) {
  uint64_t set = 0;
  for (const ConfigField* f : k.fields) set |= uint64_t{1} << (f - config_fields().data());
  return set;
}

// Of the first `among` knobs, so many as hold all of them that are in `reads`.
size_t decided(std::span<const KnobSpace* const> knobs, uint64_t reads, size_t among) {
  while (among > 0 && !(knobs_of(*knobs[among - 1]) & reads)) --among;
  return among;
}

std::vector<const KnobSpace*> order_of_crossing(std::span<const KnobSpace> knobs) {
  std::vector<const KnobSpace*> out;
  for (const KnobSpace& k : knobs) {
    size_t at = out.size();
    if (k.source->one || (k.source->reads == 0 && k.listed.size() == 1)) {
      // A source that reads this knob at its default stays before it.
      const auto passes = [&](const KnobSpace& other) {
        return !(other.source->reads & knobs_of(k)) && !(k.source->reads & knobs_of(other));
      };
      while (at > 0 && passes(*out[at - 1])) --at;
    }
    out.insert(out.begin() + static_cast<std::ptrdiff_t>(at), &k);
  }
  return out;
}

}  // namespace

FamilyPlan::FamilyPlan(Family f) : space(&family_space(f)), ready(space->knobs.size()) {
  std::vector<const KnobSpace*> listed;
  for (const KnobSpace& k : space->knobs) listed.push_back(&k);
  const std::vector<const KnobSpace*> order = order_of_crossing(space->knobs);
  std::vector<std::map<size_t, std::vector<const Rule*>>> stages(order.size());
  for (const Rule& rule : rules()) {
    if (rule.families != ~uint32_t{0} && !rule.speaks_of(static_cast<int>(f))) continue;
    const size_t level = decided(listed, rule.reads, listed.size());
    (level == 0 ? at_start : ready[level - 1]).push_back(&rule);
    if (level == 0 || rule.each) continue;
    const size_t last = decided(order, rule.reads, order.size()) - 1;
    stages[last][decided(order, rule.reads, last)].push_back(&rule);
  }
  for (size_t k = 0; k < order.size(); ++k) {
    Knob knob{order[k], {}, {}, {}, decided(order, order[k]->source->reads, k), {}};
    for (size_t i = 0; i < order[k]->fields.size(); ++i) {
      const ConfigField& field = *order[k]->fields[i];
      knob.members[i] = field.member;
      std::tie(knob.low[i], knob.high[i]) = knob_bounds(static_cast<size_t>(&field - config_fields().data()));
    }
    for (auto& [first, rules] : stages[k]) knob.stages.push_back({first, std::move(rules)});
    crossed.push_back(std::move(knob));
  }
  for (const std::string& name : space->leading) {
    const auto at =
        std::find_if(order.begin(), order.end(), [&](const KnobSpace* k) { return k->name == name; });
    leading.push_back(static_cast<size_t>(at - order.begin()) + 1);
  }
}

const FamilyPlan& family_plan(Family f) {
  static const auto& plans = *[] {  // for threads while the process ends
    auto* out = new std::vector<FamilyPlan>;
    for (const FamilyInfo& row : families()) out->emplace_back(row.family);
    return out;
  }();
  return plans[static_cast<size_t>(f)];
}

namespace {

bool all_allow(std::span<const Rule* const> list, const GemmView& v, const KernelConfig& c,
               const ArchSpec& a) {
  return std::all_of(list.begin(), list.end(), [&](const Rule* r) { return r->allows(v, c, a); });
}

// What goes by the knobs decided so far is worked out again only when one of those that it reads has changed.
template <class Visit>
class Walk {
 public:
  Walk(const GemmView& v, const ArchSpec& a, Family f, bool prune, const Visit& visit)
      : v_(v),
        a_(a),
        plan_(family_plan(f)),
        prune_(prune),
        visit_(visit),
        each_(plan_.crossed.size()),
        knobs_(plan_.crossed.size()),
        changed_(plan_.crossed.size() + 1) {
    config_.family = static_cast<int>(f);
    for (size_t k = 0; k < knobs_.size(); ++k) knobs_[k].stages.resize(plan_.crossed[k].stages.size());
  }

  void run() {
    if (prune_ && !all_allow(plan_.at_start, v_, config_, a_)) return;
    changed_[0] = ++clock_;
    level(0);
  }

  // One candidate of each combination of the knobs that lead in this step.
  void run_leading(size_t step) {
    each_ = plan_.led(step);
    run();
  }
  // The same of those whose knobs leading in the step before are the ones of `c`, which is legal.
  void run_like(const KernelConfig& c, size_t step) {
    const size_t same = plan_.led(step - 1);
    each_ = plan_.led(step);
    config_ = c;
    for (size_t k = same; k < knobs_.size(); ++k) reset(plan_.crossed[k]);
    ++clock_;
    std::fill(changed_.begin(), changed_.end(), clock_);
    level(same);
  }

 private:
  struct Answer {
    KnobValue value;
    bool allowed;
  };
  // What the rules of a stage said, since the knobs that they read last changed.
  struct Stage {
    std::vector<Answer> answers;
    uint64_t since = 0;
  };
  struct Knob {
    std::vector<KnobValue> offered, allowed;
    uint64_t since = 0, allowed_since = 0;  // of the values offered, and of those allowed
    std::vector<Stage> stages;
  };

  void set(const FamilyPlan::Knob& plan, const KnobValue& value) {
    for (size_t i = 0; i < plan.space->fields.size(); ++i) config_.*plan.members[i] = value[i];
  }
  void reset(const FamilyPlan::Knob& plan) {
    for (const ConfigField* f : plan.space->fields) config_.*f->member = f->default_value;
  }

  static bool in_bounds(const FamilyPlan::Knob& plan, const KnobValue& x) {
    bool inside = true;
    for (size_t i = 0; i < plan.space->fields.size(); ++i)
      inside &= x[i] >= plan.low[i] && x[i] <= plan.high[i];
    return inside;
  }

  bool allowed(const FamilyPlan::Knob& plan, const FamilyPlan::Stage& stage, const KnobValue& x) {
    set(plan, x);
    return all_allow(stage.rules, v_, config_, a_);
  }
  bool allowed(const FamilyPlan::Knob& plan, const FamilyPlan::Stage& stage, Stage& known,
               const KnobValue& x) {
    for (const Answer& a : known.answers) {
      if (same_knobs(a.value, x)) return a.allowed;
    }
    known.answers.push_back({x, allowed(plan, stage, x)});
    return known.answers.back().allowed;
  }

  const std::vector<KnobValue>& offered(size_t k) {
    const FamilyPlan::Knob& plan = plan_.crossed[k];
    Knob& knob = knobs_[k];
    if (knob.since == changed_[plan.decided]) return knob.offered;
    knob.since = changed_[plan.decided];
    knob.allowed_since = 0;
    knob.offered.clear();
    plan.space->source->values(v_, a_, *plan_.space, *plan.space, config_, knob.offered);
    if (prune_) std::erase_if(knob.offered, [&](const KnobValue& x) { return !in_bounds(plan, x); });
    return knob.offered;
  }

  // The knobs before this one of which the last change may change what is allowed.
  static size_t most_decided(const FamilyPlan::Knob& plan) {
    return std::max(plan.stages.back().decided, plan.decided);
  }

  // What has changed since the values of a knob were last asked for has no answers.
  void forget(size_t k) {
    for (size_t s = 0; s < knobs_[k].stages.size(); ++s) {
      Stage& known = knobs_[k].stages[s];
      const uint64_t now = changed_[plan_.crossed[k].stages[s].decided];
      if (known.since != now) known.answers.clear();
      known.since = now;
    }
  }
  bool passes(size_t k, const KnobValue& x) {
    const FamilyPlan::Knob& plan = plan_.crossed[k];
    for (size_t s = 0; s < plan.stages.size(); ++s) {
      const FamilyPlan::Stage& stage = plan.stages[s];
      const bool first = stage.decided == most_decided(plan);  // asked once of each value
      if (!(first ? allowed(plan, stage, x) : allowed(plan, stage, knobs_[k].stages[s], x))) return false;
    }
    return true;
  }

  const std::vector<KnobValue>& values(size_t k) {
    const FamilyPlan::Knob& plan = plan_.crossed[k];
    const std::vector<KnobValue>& all = offered(k);
    if (!prune_ || plan.stages.empty()) return all;
    Knob& knob = knobs_[k];
    if (knob.allowed_since == changed_[most_decided(plan)]) return knob.allowed;
    knob.allowed_since = changed_[most_decided(plan)];
    knob.allowed = all;
    forget(k);
    std::erase_if(knob.allowed, [&](const KnobValue& x) { return !passes(k, x); });
    reset(plan);
    return knob.allowed;
  }

  bool visit(size_t k, const KnobValue& value) {
    set(plan_.crossed[k], value);
    changed_[k + 1] = ++clock_;
    return level(k + 1);
  }

  // Whether there was anything to visit.
  bool level(size_t k) {
    if (k == knobs_.size()) {
      visit_(config_);
      return true;
    }
    bool any = false;
    if (k < each_) {
      for (const KnobValue& value : values(k)) any |= visit(k, value);
    } else {
      // From the last on: the values that a space lists for their speed, or that fill the device.
      const std::vector<KnobValue>& all = offered(k);
      forget(k);
      for (size_t i = all.size(); i-- > 0 && !any;) any = passes(k, all[i]) && visit(k, all[i]);
    }
    // Knobs not decided are at their default, for the sources of the knobs before them.
    reset(plan_.crossed[k]);
    return any;
  }

  const GemmView& v_;
  const ArchSpec& a_;
  const FamilyPlan& plan_;
  bool prune_;
  const Visit& visit_;
  size_t each_;  // from this knob on the first candidate found will do
  std::vector<Knob> knobs_;
  std::vector<uint64_t> changed_;  // [n]: when one of the first n knobs last did
  uint64_t clock_ = 0;
  KernelConfig config_;
};

bool with_kernel(Family f) { return !info(f).header.empty(); }

// What a walk of each family visits, started by `run`.
template <class Run>
std::vector<KernelConfig> visited(const GemmView& v, const ArchSpec& a, bool runnable, const Run& run) {
  std::vector<KernelConfig> out;
  out.reserve(8192);  // what is not used is never touched
  const auto keep = [&](const KernelConfig& c) { out.push_back(c); };
  for (Family f : a.families) {
    if (runnable && !with_kernel(f)) continue;
    if (!family_space(f).offers(v)) continue;
    Walk<decltype(keep)> walk(v, a, f, true, keep);
    run(walk, f);
  }
  return out;
}

std::vector<KernelConfig> legal_of(const GemmView& v, const ArchSpec& a, bool runnable) {
  return visited(v, a, runnable, [](auto& walk, Family) { walk.run(); });
}

}  // namespace

void for_each_candidate(const GemmView& v, const ArchSpec& a,
                        const std::function<void(const KernelConfig&)>& visit) {
  for (Family f : a.families) {
    if (!family_space(f).offers(v)) continue;
    bool any = false;
    const auto seen = [&](const KernelConfig& c) {
      any = true;
      visit(c);
    };
    Walk<decltype(seen)>(v, a, f, false, seen).run();
    KernelConfig bare;
    bare.family = static_cast<int>(f);
    if (!any) visit(bare);
  }
}

std::vector<KernelConfig> legal_configs(const GemmView& v, const ArchSpec& a) {
  return legal_of(v, a, false);
}

std::vector<KernelConfig> runnable_configs(const GemmView& v, const ArchSpec& a) {
  return legal_of(v, a, true);
}

size_t leading_steps(const ArchSpec& a) {
  size_t steps = 0;
  for (Family f : a.families) steps = std::max(steps, family_space(f).leading.size());
  return steps;
}

std::vector<KernelConfig> leading_configs(const GemmView& v, const ArchSpec& a, bool runnable) {
  return visited(v, a, runnable, [](auto& walk, Family) { walk.run_leading(0); });
}

std::vector<KernelConfig> configs_like(const GemmView& v, const ArchSpec& a,
                                       std::span<const KernelConfig> some, size_t step) {
  return visited(v, a, false, [&](auto& walk, Family f) {
    for (const KernelConfig& c : some) {
      if (c.family_id() == f) walk.run_like(c, step);
    }
  });
}

}  // namespace tessera
