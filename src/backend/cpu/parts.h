// A product that a driver computes in parts (strided_parts), one after another.
#pragma once

#include <memory>

#include "backend/cpu/cpu_module.h"
#include "core/arch_spec.h"
#include "core/gemm_view.h"
#include "tessera/kernel.h"

namespace tessera {

using MakePart = std::unique_ptr<Kernel> (*)(std::shared_ptr<CpuModule>, const ArchSpec&, StridedPart,
                                             const Problem&, const Choice&);

// The kernel of the problem: the only part's own, or one that runs all of them.
std::unique_ptr<Kernel> make_in_parts(std::shared_ptr<CpuModule> module, const ArchSpec& arch,
                                      const Problem& problem, const Choice& choice, MakePart make);

}  // namespace tessera
