// Preselected kernel sets: sets/*.json of the source tree, which this binary carries.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/registry.h"

namespace tessera {

struct KernelSet {
  std::string name, doc;
  std::string variant;                      // see generate.h
  std::string sizes;                        // "m=1024 n=1024 k=1024": the problem the set is meant for
  std::vector<std::string> epilogues;       // text forms; each kernel comes with every one of them
  std::shared_ptr<const Registry> kernels;  // exact declarations
};

// Every set, ordered by name. Loaded and checked on first use.
std::span<const KernelSet> kernel_sets();

// Error(bad_input) with the known names (and the nearest one).
const KernelSet& find_kernel_set(std::string_view name);

// One file of sets/. Unknown keys and words are refused: Error(bad_input).
KernelSet parse_kernel_set(std::string_view json_text, std::string_view origin);

}  // namespace tessera
