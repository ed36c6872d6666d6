// Memory that is asked for before it is read, in equal shares.
#pragma once

#include <cstdint>

#include "core/cache_line.h"

namespace tessera {

// Of fewer shares each is more lines than wait for memory at once.
inline constexpr int64_t kLeastShares = 8;

struct Ahead {
  const char *begin = nullptr, *end = nullptr;
  void fetch(int64_t share, int64_t shares) const {
    const int64_t lines = (end - begin) / kCacheLine;
    for (int64_t i = lines * share / shares; i < lines * (share + 1) / shares; ++i)
      __builtin_prefetch(begin + i * kCacheLine, 0, 2);
  }
};

}  // namespace tessera
