// Memory that is asked for before it is read, in equal shares.
#pragma once

#include <cstdint>
#include <utility>

#include "core/cache_line.h"

namespace tessera {

// Of fewer shares each is more lines than wait for memory at once.
inline constexpr int64_t kLeastShares = 8;

struct Ahead {
  const char *begin = nullptr, *end = nullptr;
  // One of so many shares: where it begins, and its bytes.
  std::pair<const char*, int64_t> share(int64_t i, int64_t shares) const {
    const int64_t lines = (end - begin) / kCacheLine, from = lines * i / shares;
    return {begin + from * kCacheLine, (lines * (i + 1) / shares - from) * kCacheLine};
  }
  void fetch(int64_t i, int64_t shares) const {
    const auto [from, bytes] = share(i, shares);
    for (int64_t at = 0; at < bytes; at += kCacheLine) __builtin_prefetch(from + at, 0, 2);
  }
};

}  // namespace tessera
