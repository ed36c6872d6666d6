// The driver of cpu_scatter: packs the filter, and deals out images, or parts of them.
#pragma once

#include <memory>

#include "backend/cpu/cpu_kernel.h"

namespace tessera {

std::unique_ptr<Kernel> make_scatter_kernel(std::shared_ptr<CpuModule> module, const ArchSpec& arch,
                                            const Problem& problem, const Choice& choice);

}  // namespace tessera
