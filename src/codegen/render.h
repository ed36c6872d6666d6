// Generated text: the prelude with named values, one include and one extern "C" entry.
#pragma once

#include "core/arch_spec.h"
#include "core/artifact.h"
#include "core/gemm_view.h"
#include "tessera/kernel_config.h"

namespace tessera {

// Deterministic: equal arguments give equal text. Knobs, types and epilogue steps the family's kernel does
// not depend on are left out, so that many problems share one unit. Error(unsupported) when the family has no
// kernel yet.
Source render(const GemmView& v, const KernelConfig& c, const ArchSpec& a);

}  // namespace tessera
