// cpu_amx over patches whose taps are read from copies of the images' lines.
#pragma once

#include "backend/cpu/parts.h"

namespace tessera {

// Of a view that reads_lines().
std::unique_ptr<PartKernel> make_amx_lines(std::shared_ptr<CpuModule> module, const ArchSpec& arch,
                                           StridedPart part, const Problem& problem, const Choice& choice);

}  // namespace tessera
