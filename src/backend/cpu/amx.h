// The driver of cpu_amx: which operand is the left one, blocks, packing, threads.
#pragma once

#include <memory>

#include "backend/cpu/cpu_kernel.h"

namespace tessera {

std::unique_ptr<Kernel> make_amx_kernel(std::shared_ptr<CpuModule> module, const ArchSpec& arch,
                                        const Problem& problem, const Choice& choice);

}  // namespace tessera
