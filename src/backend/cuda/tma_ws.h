// Driver of the tma_ws family.
#pragma once

#include <memory>

#include "backend/cuda/cuda_driver.h"
#include "backend/gpu/gpu_kernel.h"
#include "core/arch_spec.h"
#include "tessera/kernel.h"

namespace tessera::cuda {

std::unique_ptr<GpuKernel> make_tma_ws_kernel(std::shared_ptr<CudaDriver> driver,
                                              std::shared_ptr<GpuModule> module, const Problem& problem,
                                              const Choice& choice);

}  // namespace tessera::cuda
