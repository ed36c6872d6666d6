// The gradient of a convolution's bias, beside that of its filter.
#pragma once

#include <memory>

#include "tessera/kernel.h"

namespace tessera {

// Runs `kernel`, then sums A over images and positions into Buffers::bias_grad in one pass.
std::unique_ptr<Kernel> make_bias_gradient(const Problem& problem, int threads,
                                           std::unique_ptr<Kernel> kernel);

}  // namespace tessera
