// cpu_groups: a convolution with few channels per group, channels-last. Vectors run over the channels of
// several groups side by side, so that lanes are full; each column of a line that is read feeds every tap it
// meets while it is in registers.
//
// "Out" is the operand that is walked, whose channels fill the lanes; "in" is read around its lines. outer
// and inner are their channels per group.
#pragma once

#include "cpu/groups_gradient.h"
#include "cpu/groups_lines.h"

namespace tsr {

template <class Config>
TSR_INLINE void cpu_groups(const void* p) {
  const GroupsArgs& args = *static_cast<const GroupsArgs*>(p);
  if constexpr (Config::gradient) {
    GroupsGradient<Config>::run(args);
  } else {
    GroupsLines<Config>::run(args);
  }
}

}  // namespace tsr
