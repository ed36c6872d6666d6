#pragma once

#include <cstdint>

namespace tessera {

// Bytes that x86-64 processors move between memory and caches at once.
inline constexpr int64_t kCacheLine = 64;

}  // namespace tessera
