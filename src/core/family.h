// The kernel families: which backend runs each, where its source is, and which knobs reach that source.
#pragma once

#include <span>
#include <string_view>

#include "tessera/kernel_config.h"

namespace tessera {

enum class BackendKind : int { cpu, cuda, hip };
std::string_view to_string(BackendKind b);

struct FamilyInfo {
  Family family;
  BackendKind backend;
  std::string_view header;  // in kernels/; "" while no kernel exists: such a family can be planned, not emitted
  std::string_view doc;
  // Knobs that only the launching driver reads. They are left out of the generated unit, so that configs which differ
  // in them alone share one binary.
  std::span<const std::string_view> launch_only;
};

const FamilyInfo& info(Family f);
std::span<const FamilyInfo> families();

// `c` with the launch-only knobs of its family at their defaults: what the generated unit depends on.
KernelConfig source_config(const KernelConfig& c);

}  // namespace tessera
