// Runs of bytes that go to memory past the caches.
#pragma once

#include "cpu/vec.h"

namespace tsr {

// What was streamed is seen by every processor from here on.
TSR_INLINE void fence_streams() { asm volatile("sfence" ::: "memory"); }

// Bytes that are put together apart and leave for where they belong: whole lines go past the caches a few at
// a time, between other work, since a processor has few stores of that kind under way; lines that hold other
// bytes too are stored as ever.
template <int L>
struct Leaving {
  typedef typename Vec<L>::U U;
  typedef typename Vec<L>::B B;
  char* to = nullptr;
  const char* from = nullptr;  // at the same place of a line of memory
  long long bytes = 0, lines = 0, step = 0;

  Leaving() = default;
  // They are put together in `room`, at the beginning of a line, with that of one more.
  Leaving(char* at, char* room, long long size)
      : to(at), from(room + reinterpret_cast<unsigned long long>(at) % kLineBytes), bytes(size) {}
  // They are there, and leave in so many turns.
  void begin(long long turns) {
    const long long head = least(bytes, -reinterpret_cast<unsigned long long>(to) % kLineBytes);
    store(0, head);
    to += head;
    from += head;
    lines = (bytes - head) / kLineBytes;
    store(lines * kLineBytes, bytes - head);
    step = lines / turns + 1;
  }
  TSR_INLINE void turn() { go(least(step, lines)); }
  TSR_INLINE void finish() { go(lines); }

 private:
  TSR_INLINE void go(long long count) {
    lines -= count;
    for (; count > 0; --count, to += kLineBytes, from += kLineBytes) {
      for (int i = 0; i < kLineBytes; i += static_cast<int>(sizeof(U)))
        stream_whole(to + i, load_whole<U>(from + i));
    }
  }
  void store(long long begin, long long end) {
    for (; begin < end; begin += static_cast<int>(sizeof(B))) {
      const int live = static_cast<int>(least(end - begin, sizeof(B)));
      store_part(reinterpret_cast<unsigned char*>(to + begin), live,
                 load_part(reinterpret_cast<const unsigned char*>(from + begin), live, B{}));
    }
  }
};

}  // namespace tsr
