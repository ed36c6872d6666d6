// Driver of the families whose blocks each compute one tile of C: gemv, simt, cp_async.
#pragma once

#include <memory>

#include "backend/cuda/cuda_driver.h"
#include "backend/gpu/gpu_kernel.h"
#include "tessera/kernel.h"

namespace tessera::cuda {

std::unique_ptr<GpuKernel> make_block_kernel(std::shared_ptr<CudaDriver> driver,
                                             std::shared_ptr<GpuModule> module, const Problem& problem,
                                             const Choice& choice);

}  // namespace tessera::cuda
