// Convolutions as products of matrices.
#pragma once

#include "core/gemm_view.h"

namespace tessera {

// What lower() does for a convolution but for what all operations have in common. One with a 1x1 filter,
// stride 1 and no padding has plain operands, channels being neighbours in memory; of the others the images
// are a matrix of patches.
GemmView lower_conv(const Problem& p);

// What a kernel computes of a channels_first problem, between the transforms of its operands and of its
// result. The gradient of a filter comes as sums in f32: alpha, beta and the type of C belong to the
// transform back.
Problem channels_last(Problem p);

}  // namespace tessera
