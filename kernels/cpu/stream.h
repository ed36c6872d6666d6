// Runs of bytes on their way between memory and the caches: asked for ahead, or written past them.
#pragma once

#include "cpu/vec.h"

namespace tsr {

// What was streamed is seen by every processor from here on.
TSR_INLINE void fence_streams() { asm volatile("sfence" ::: "memory"); }

// Memory that is met soon, of one plane or several, brought into L2 bit by bit where the hardware does not
// see it coming.
template <bool kWrite>
struct Stream {
  const char *next = nullptr, *end = nullptr;  // of the plane that is asked for
  long long step = 0;                          // bytes
  long long planes = 0, plane = 0, size = 0;   // behind this one; bytes from one to the next, and of each

  Stream() = default;
  TSR_INLINE Stream(const char* begin, const char* behind, long long turns, long long count = 1,
                    long long apart = 0)
      : next(begin),
        end(behind),
        step(((behind - begin) * count / turns / kLineBytes + 1) * kLineBytes),
        planes(count - 1),
        plane(apart),
        size(behind - begin) {}
  TSR_INLINE void fetch() {
    for (long long rest = step; rest > 0;) {
      const long long part = least(end - next, rest);
      const char* to = next + part;
      for (; next < to; next += kLineBytes) __builtin_prefetch(next, kWrite, 2);
      if (next < end || planes == 0) return;
      --planes;
      end += plane;
      next = end - size;
      rest -= part;
    }
  }
};

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
