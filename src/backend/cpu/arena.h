// Scratch memory of the calling thread: grows, is reused by every kernel of the thread, is freed when the
// thread ends.
#pragma once

#include <cstddef>

namespace tessera {

// At least `bytes`, 64-byte aligned, contents undefined; valid until the thread's next call.
void* thread_arena(size_t bytes);

// Asks the system to hold `data`, already written, in large pages. For memory that is written once and
// streamed by every later run; a system that cannot or may not keeps it as it is.
void prefer_large_pages(void* data, size_t bytes);

}  // namespace tessera
