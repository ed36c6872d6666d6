#pragma once

#include <cstdint>

namespace tessera {

// Bytes that x86-64 processors move between memory and caches at once.
inline constexpr int64_t kCacheLine = 64;

// Of memory as it is mapped; addresses so far apart share a set of L1.
inline constexpr int64_t kPageBytes = 4096;

// Bytes in whole lines, an odd number of them: what lies so far apart shares no sets of a cache.
constexpr int64_t odd_lines(int64_t bytes) {
  const int64_t lines = (bytes + kCacheLine - 1) / kCacheLine;
  return (lines + 1 - lines % 2) * kCacheLine;
}

}  // namespace tessera
