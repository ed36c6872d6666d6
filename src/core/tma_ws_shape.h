// The layout of a tma_ws kernel's shared memory, as the kernel computes it.
#pragma once

#include "core/gemm_view.h"
#include "cuda/tma_ws_shape.h"
#include "tessera/kernel_config.h"

namespace tessera {

tsr::TmaWsShape tma_ws_shape(const GemmView& v, const KernelConfig& c);

// Its bytes: stages, the buffer of C, barriers. More than any device has where the knobs are no kernel's.
int64_t tma_ws_smem(const GemmView& v, const KernelConfig& c);

}  // namespace tessera
