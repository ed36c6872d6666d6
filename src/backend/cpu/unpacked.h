// The driver of cpu_direct and cpu_dot: operands where they lie, no workspace unless k is split.
#pragma once

#include <memory>

#include "backend/cpu/cpu_kernel.h"

namespace tessera {

std::unique_ptr<Kernel> make_unpacked_kernel(std::shared_ptr<CpuModule> module, const ArchSpec& arch,
                                             const Problem& problem, const Choice& choice);

}  // namespace tessera
