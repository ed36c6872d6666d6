// What follows the panels of a packed B in host memory: which kernels read them so.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tessera/kernel_config.h"
#include "tessera/problem.h"

namespace tessera {

inline constexpr size_t kPackedSealBytes = 16;

// Kernels of one configuration read the same panels whatever m (of a convolution the number of images), the
// epilogue and the factors are. Never 0.
uint64_t packed_readers(const Problem& problem, const KernelConfig& config);

void seal_packed(void* behind_panels, uint64_t readers);

// Error(bad_input) where another seal lies there, or none.
void check_packed_seal(const void* behind_panels, uint64_t readers);

}  // namespace tessera
