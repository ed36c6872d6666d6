// Whether the buffers of a run are usable, for the backends.
#pragma once

#include "core/gemm_view.h"
#include "tessera/kernel.h"

namespace tessera {

// Error(bad_input) unless every buffer the problem needs is there and aligned to its elements, and C overlaps
// no input.
void check_buffers(const GemmView& view, const Buffers& buffers, size_t packed_b_bytes);

}  // namespace tessera
