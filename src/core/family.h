// The kernel families: which backend runs each, where its source is, and which knobs reach that source.
#pragma once

#include <span>
#include <string_view>

#include "tessera/kernel_config.h"

namespace tessera {

enum class BackendKind : int { cpu, cuda, hip };
std::span<const std::string_view> backend_names();  // in the order of BackendKind
std::string_view to_string(BackendKind b);

struct FamilyInfo {
  Family family;
  BackendKind backend;
  // In kernels/; "" while no kernel exists: such a family can be planned, not emitted.
  std::string_view header{};
  std::string_view doc{};
  // Knobs the kernel's source reads; only the launching driver reads the others. The generated unit names
  // these alone, so that configs which differ elsewhere share one binary.
  std::span<const std::string_view> kernel_knobs{};
  // The driver hands the source operands that are in the instruction's compute type already (packed, or
  // needing no conversion), so that memory types with the same compute type share one binary.
  bool compute_types = false;
  // The source is told how far apart steps of k lie wherever layout and knobs fix it.
  bool fixed_steps = false;
  // The source is told the shape of a convolution's filter and the channels of a group.
  bool walks_window = false;
  // It transforms its operands: how far its results may lie from the right ones depends on the values of a
  // whole tile (tune/minimal_filtering.h).
  bool transforms = false;
  // The source is told how many elements of the result neighbouring taps of the filter meet.
  bool scatters = false;
  // The source is told whether it computes the gradient of a filter.
  bool sums_places = false;
};

const FamilyInfo& info(Family f);
std::span<const FamilyInfo> families();

}  // namespace tessera
