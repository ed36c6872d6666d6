// The driver of cpu_groups: turns the filter into panels, or sums its gradient from them.
#pragma once

#include <memory>

#include "backend/cpu/cpu_kernel.h"

namespace tessera {

std::unique_ptr<Kernel> make_groups_kernel(std::shared_ptr<CpuModule> module, const ArchSpec& arch,
                                           const Problem& problem, const Choice& choice);

}  // namespace tessera
