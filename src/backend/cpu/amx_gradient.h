// The driver of cpu_amx with pack_b=0: the gradient of a filter from copies of images' lines.
#pragma once

#include <memory>

#include "backend/cpu/parts.h"

namespace tessera {

std::unique_ptr<PartKernel> make_amx_gradient(std::shared_ptr<CpuModule> module, const ArchSpec& arch,
                                              StridedPart part, const Problem& problem, const Choice& choice);

}  // namespace tessera
