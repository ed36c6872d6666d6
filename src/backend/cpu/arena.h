// Scratch memory of the calling thread: grows, is reused by every kernel of the thread, is freed when the
// thread ends.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/cache_line.h"
#include "core/tile_math.h"

namespace tessera {

// Bytes from one thread's share of a workspace to the next one's. What a processor fetches behind the end of
// a share, within its page, is not what another thread writes.
constexpr int64_t thread_share(int64_t bytes) {
  return bytes == 0 ? 0 : round_up(bytes, kCacheLine) + kPageBytes;
}

// At least `bytes`, 64-byte aligned, contents undefined; valid until the thread's next call.
void* thread_arena(size_t bytes);

// Asks the system to hold `data`, already written, in large pages. For memory that is written once and
// streamed by every later run; a system that cannot or may not keeps it as it is.
void prefer_large_pages(void* data, size_t bytes);

}  // namespace tessera
