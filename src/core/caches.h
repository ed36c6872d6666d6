// What several kernels ask of an architecture's caches.
#pragma once

#include <algorithm>

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

// Bytes of the last-level cache that a core can count on: those of others use it too, and they may be of
// other virtual machines.
inline int64_t own_last_level(const ArchSpec& arch) {
  return arch.l3.bytes_per_core ? std::min(arch.l3.bytes_per_core, arch.l3.bytes) : arch.l3.bytes;
}

// Whether so many bytes of one operand are more than a cache keeps of it beside the others.
inline bool past_cache(int64_t bytes, int64_t cache) { return bytes > cache / 2; }

// The same of all of the last-level cache.
inline bool past_caches(int64_t bytes, const ArchSpec& arch) { return past_cache(bytes, arch.l3.bytes); }

// Whether the result is not worth reading its lines before they are written: it is more than the last-level
// cache keeps, or is driven out of that cache by the operands. A slow one is shared by many cores.
inline bool result_past_caches(const GemmView& v, const ArchSpec& arch) {
  const int64_t own = own_last_level(arch);
  return past_cache(v.c.extent * bytes_of(v.c.type), own) ||
         v.bytes_met() > static_cast<double>(own) / (last_level_is_fast(arch) ? 1 : 2);
}

}  // namespace tessera
