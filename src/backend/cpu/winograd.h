// The drivers of cpu_winograd, which transforms the filter and deals out blocks of tiles, and of
// cpu_winograd_weight, the gradient of the filter.
#pragma once

#include <memory>

#include "backend/cpu/cpu_kernel.h"

namespace tessera {

std::unique_ptr<Kernel> make_winograd_kernel(std::shared_ptr<CpuModule> module, const ArchSpec& arch,
                                             const Problem& problem, const Choice& choice);
std::unique_ptr<Kernel> make_winograd_weight_kernel(std::shared_ptr<CpuModule> module, const ArchSpec& arch,
                                                    const Problem& problem, const Choice& choice);

}  // namespace tessera
