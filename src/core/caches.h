// What several kernels ask of an architecture's caches.
#pragma once

#include "core/arch_spec.h"

namespace tessera {

// Whether the last-level cache gives one core more than a quarter of a vector a cycle.
inline bool last_level_is_fast(const ArchSpec& arch) {
  return arch.l3.bytes_per_cycle > arch.vector_bits / 8 / 4;
}

// Whether so many bytes are more than the last-level cache keeps of one operand beside the others.
inline bool past_caches(int64_t bytes, const ArchSpec& arch) { return bytes > arch.l3.bytes / 2; }

}  // namespace tessera
