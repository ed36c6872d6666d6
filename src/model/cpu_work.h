// What a kernel of a CPU family costs.
#pragma once

#include "model/work.h"

namespace tessera {

// Adds to a Work that has the shape what one core spends on it, and what the cores do together.
void add_cpu_work(const GemmView& v, const KernelConfig& c, const ArchSpec& a, const CostTable& costs,
                  const Instruction& inst, ViewMemo& memo, Work& w);

}  // namespace tessera
