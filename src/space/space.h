// The candidates: knob values per family (space/*.json) crossed with what the architecture offers.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/arch_spec.h"
#include "core/gemm_view.h"
#include "tessera/kernel_config.h"

namespace tessera {

// Every candidate of every family of `a`, legal or not, in a fixed order, each once. A family that has no
// candidate at all for this view (no instruction for its types, say) shows itself by one config without
// knobs, which a rule rejects.
void for_each_candidate(const GemmView& v, const ArchSpec& a,
                        const std::function<void(const KernelConfig&)>& visit);

// The candidates no rule rejects, in the same order. Well under a millisecond on a CPU architecture: values
// that no completion can make legal are dropped before they are crossed with the rest.
std::vector<KernelConfig> legal_configs(const GemmView& v, const ArchSpec& a);

// Of those, what has a kernel: a family without a source can be planned, and no more.
std::vector<KernelConfig> runnable_configs(const GemmView& v, const ArchSpec& a);

// The legal configuration of the same family nearest to `c`, with what was changed ("tile_n: 48 -> 64 (rule):
// reason"). The result is checked against every rule again. `config` is empty when the family has no legal
// configuration for this view. A long search settles for the nearest it has found.
struct Suggestion {
  std::vector<KernelConfig> config;  // none or one
  std::vector<std::string> changes;  // empty when `c` was legal
};
Suggestion suggest(const GemmView& v, const KernelConfig& c, const ArchSpec& a);

}  // namespace tessera
