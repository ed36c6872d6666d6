// The candidates: knob values per family (space/*.json) crossed with what the architecture offers.
#pragma once

#include <functional>
#include <span>
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

// The candidates no rule rejects, in the same order. Values
// that no completion can make legal are dropped before they are crossed with the rest.
std::vector<KernelConfig> legal_configs(const GemmView& v, const ArchSpec& a);

// Of those, what has a kernel: a family without a source can be planned, and no more.
std::vector<KernelConfig> runnable_configs(const GemmView& v, const ArchSpec& a);

// For a choice among very many, in steps: the leading knobs of a space (FamilySpace::leading) are gone
// through one after the other, and what follows them is looked at only for the best of what they can be.
size_t leading_steps(const ArchSpec& a);  // of its families the most
// The first step: of each combination of the knobs up to the first leading one the last legal candidate. Of a
// family without leading knobs all candidates.
std::vector<KernelConfig> leading_configs(const GemmView& v, const ArchSpec& a, bool runnable);
// Step `step` (from 1 on, to leading_steps()): the same by the next leading one, in the last step all
// candidates; of those only that are like one of `some` in the knobs up to the leading one of the step
// before, which `some` are of.
std::vector<KernelConfig> configs_like(const GemmView& v, const ArchSpec& a,
                                       std::span<const KernelConfig> some, size_t step);

// The legal configuration of the same family nearest to `c`, with what was changed ("tile_n: 48 -> 64 (rule):
// reason"). The result is checked against every rule again. `config` is empty when the family has no legal
// configuration for this view. A long search settles for the nearest it has found.
struct Suggestion {
  std::vector<KernelConfig> config;  // none or one
  std::vector<std::string> changes;  // empty when `c` was legal
};
Suggestion suggest(const GemmView& v, const KernelConfig& c, const ArchSpec& a);

}  // namespace tessera
