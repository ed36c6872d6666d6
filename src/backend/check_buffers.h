// Whether the buffers of a run are usable, for the backends.
#pragma once

#include "core/gemm_view.h"
#include "tessera/kernel.h"

namespace tessera {

// Error(bad_input) unless every buffer the problem needs is there and aligned to its elements, and C overlaps
// no input.
void check_buffers(const GemmView& view, const Buffers& buffers, size_t packed_b_bytes);

// What pack_b reads, its leading dimension `ldb` elements or Problem::kPacked; one B of all groups has group
// stride 0. Error(unsupported) where B is not prepacked.
Operand b_to_pack(const GemmView& view, int64_t ldb);

}  // namespace tessera
