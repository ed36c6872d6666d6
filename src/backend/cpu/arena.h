// Scratch memory of the calling thread: grows, is reused by every kernel of the thread, is freed when the
// thread ends.
#pragma once

#include <cstddef>

namespace tessera {

// At least `bytes`, 64-byte aligned, contents undefined; valid until the thread's next call.
void* thread_arena(size_t bytes);

}  // namespace tessera
