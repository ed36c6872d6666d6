// What several kernels ask of an architecture's caches.
#pragma once

#include "core/arch_spec.h"
#include "core/gemm_view.h"

namespace tessera {

// Whether the last-level cache gives one core more than a quarter of a vector a cycle.
inline bool last_level_is_fast(const ArchSpec& arch) {
  return arch.l3.bytes_per_cycle > arch.vector_bits / 8 / 4;
}

// Cycles in which a thread reads a float that another one has just written: what cores share through a slow
// last-level cache comes at some two bytes a cycle (measured between cores of an Emerald Rapids).
inline double cycles_of_others(const ArchSpec& arch) { return last_level_is_fast(arch) ? 0.5 : 2; }

// Whether so many bytes are more than the last-level cache keeps of one operand beside the others.
inline bool past_caches(int64_t bytes, const ArchSpec& arch) { return bytes > arch.l3.bytes / 2; }

// Whether the result is not worth reading its lines before they are written: it is more than the last-level
// cache keeps, or is driven out of that cache by the operands. A slow one is shared by many cores.
inline bool result_past_caches(const GemmView& v, const ArchSpec& arch) {
  const double own = static_cast<double>(arch.l3.bytes) / (last_level_is_fast(arch) ? 1 : 2);
  return past_caches(v.c.extent * bytes_of(v.c.type), arch) || v.bytes_met() > own;
}

}  // namespace tessera
