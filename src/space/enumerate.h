// The order in which a family's knobs are decided and its rules applied.
#pragma once

#include <array>
#include <vector>

#include "space/family_space.h"
#include "space/rules.h"

namespace tessera {

struct FamilyPlan {
  explicit FamilyPlan(Family f);

  const FamilySpace* space;
  // In the order of the space.
  std::vector<const Rule*> at_start;            // decided before any knob
  std::vector<std::vector<const Rule*>> ready;  // [k]: decided with knob k

  // In the order in which knobs are crossed: that of the space, but what never has more than one value comes
  // as soon as that is known. The candidates and their order are the same.
  struct Stage {
    size_t decided;  // the rules read this knob and of those crossed before it the first so many
    std::vector<const Rule*> rules;
  };
  struct Knob {
    const KnobSpace* space;
    std::array<int KernelConfig::*, KnobValue{}.size()> members;
    KnobValue low, high;
    size_t decided;             // of the knobs before, the source reads the first so many
    std::vector<Stage> stages;  // all rules decided with this knob but those that ask of each knob alone
  };
  std::vector<Knob> crossed;
  // [s]: of `crossed`, so many hold the knobs up to the s-th leading one of the space.
  std::vector<size_t> leading;
  size_t led(size_t step) const { return step < leading.size() ? leading[step] : crossed.size(); }
};
const FamilyPlan& family_plan(Family f);

}  // namespace tessera
