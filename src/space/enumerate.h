// The order in which a family's knobs are decided and its rules applied.
#pragma once

#include <vector>

#include "space/family_space.h"
#include "space/rules.h"

namespace tessera {

struct FamilyPlan {
  explicit FamilyPlan(Family f);

  const FamilySpace* space;
  std::vector<const Rule*> at_start;            // decided before any knob
  std::vector<std::vector<const Rule*>> ready;  // [k]: decided with knob k of the space
};
const FamilyPlan& family_plan(Family f);

}  // namespace tessera
