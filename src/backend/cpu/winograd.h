// The driver of cpu_winograd: transforms the filter, and deals out blocks of tiles.
#pragma once

#include <memory>

#include "backend/cpu/cpu_kernel.h"

namespace tessera {

std::unique_ptr<Kernel> make_winograd_kernel(std::shared_ptr<CpuModule> module, const ArchSpec& arch,
                                             const Problem& problem, const Choice& choice);

}  // namespace tessera
