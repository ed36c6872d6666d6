// Crossing the values of a family's knobs, with the rules applied as soon as the knobs they read are decided.
#include "space/enumerate.h"

#include <algorithm>

#include "core/family.h"
#include "space/space.h"

namespace tessera {

FamilyPlan::FamilyPlan(Family f) : space(&family_space(f)), ready(space->knobs.size()) {
  const auto fields = config_fields();
  for (const Rule& rule : rules()) {
    if (rule.families != ~uint32_t{0} && !rule.speaks_of(static_cast<int>(f))) continue;
    size_t level = 0;
    for (size_t k = 0; k < space->knobs.size(); ++k) {
      for (const ConfigField* field : space->knobs[k].fields) {
        if (rule.reads >> (field - fields.data()) & 1) level = k + 1;
      }
    }
    (level == 0 ? at_start : ready[level - 1]).push_back(&rule);
  }
}

const FamilyPlan& family_plan(Family f) {
  static const std::vector<FamilyPlan> plans = [] {
    std::vector<FamilyPlan> out;
    for (const FamilyInfo& row : families()) out.emplace_back(row.family);
    return out;
  }();
  return plans[static_cast<size_t>(f)];
}

namespace {

bool all_allow(std::span<const Rule* const> list, const GemmView& v, const KernelConfig& c,
               const ArchSpec& a) {
  return std::all_of(list.begin(), list.end(), [&](const Rule* r) { return r->allows(v, c, a); });
}

class Walk {
 public:
  Walk(const GemmView& v, const ArchSpec& a, Family f, bool prune,
       std::function<void(const KernelConfig&)> visit)
      : v_(v),
        a_(a),
        plan_(family_plan(f)),
        prune_(prune),
        visit_(std::move(visit)),
        values_(plan_.space->knobs.size()) {
    config_.family = static_cast<int>(f);
  }

  void run() {
    if (prune_ && !all_allow(plan_.at_start, v_, config_, a_)) return;
    for (size_t k = 0; k < values_.size(); ++k) {
      if (!plan_.space->knobs[k].source->uses_config) fill(k);
    }
    level(0);
  }

 private:
  void fill(size_t k) {
    values_[k].clear();
    const KnobSpace& knob = plan_.space->knobs[k];
    knob.source->values(v_, a_, *plan_.space, knob, config_, values_[k]);
  }

  void level(size_t k) {
    if (k == values_.size()) return visit_(config_);
    const KnobSpace& knob = plan_.space->knobs[k];
    if (knob.source->uses_config) fill(k);
    for (const KnobValue& value : values_[k]) {
      for (size_t i = 0; i < knob.fields.size(); ++i) config_.*knob.fields[i]->member = value[i];
      if (!prune_ || all_allow(plan_.ready[k], v_, config_, a_)) level(k + 1);
    }
    // Knobs not decided are at their default, for the sources and rules of the knobs before them.
    for (const ConfigField* f : knob.fields) config_.*f->member = f->default_value;
  }

  const GemmView& v_;
  const ArchSpec& a_;
  const FamilyPlan& plan_;
  bool prune_;
  std::function<void(const KernelConfig&)> visit_;
  std::vector<std::vector<KnobValue>> values_;
  KernelConfig config_;
};

}  // namespace

void for_each_candidate(const GemmView& v, const ArchSpec& a,
                        const std::function<void(const KernelConfig&)>& visit) {
  for (Family f : a.families) {
    if (!family_space(f).offers(v)) continue;
    bool any = false;
    Walk(v, a, f, false, [&](const KernelConfig& c) {
      any = true;
      visit(c);
    }).run();
    KernelConfig bare;
    bare.family = static_cast<int>(f);
    if (!any) visit(bare);
  }
}

std::vector<KernelConfig> legal_configs(const GemmView& v, const ArchSpec& a) {
  std::vector<KernelConfig> out;
  out.reserve(4096);  // what is not used is never touched
  for (Family f : a.families) {
    if (family_space(f).offers(v))
      Walk(v, a, f, true, [&](const KernelConfig& c) { out.push_back(c); }).run();
  }
  return out;
}

std::vector<KernelConfig> runnable_configs(const GemmView& v, const ArchSpec& a) {
  std::vector<KernelConfig> configs = legal_configs(v, a);
  std::erase_if(configs, [](const KernelConfig& c) { return info(c.family_id()).header.empty(); });
  return configs;
}

}  // namespace tessera
