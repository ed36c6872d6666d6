#include "backend/cpu/arena.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <string>

#include "tessera/error.h"

namespace tessera {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
// MADV_COLLAPSE of Linux 6.1, which C libraries of its time do not name; older systems refuse it.
constexpr int kCollapse = 25;

struct Arena {
  void* data = nullptr;
  size_t bytes = 0;

  ~Arena() { release(); }
  void release() {
    if (data) munmap(data, bytes);
    data = nullptr;
    bytes = 0;
  }
};

thread_local Arena arena;

}  // namespace

void* thread_arena(size_t bytes) {
  if (bytes <= arena.bytes) return arena.data;
  arena.release();
  const size_t page = bytes >= kHugePage ? kHugePage : size_t{4096};
  const size_t rounded = (bytes + page - 1) / page * page;
  void* data = mmap(nullptr, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    throw Error(ErrorCode::device,
                "out of memory: cannot get " + std::to_string(rounded) + " bytes to work in",
                "free memory, use fewer threads or a smaller problem");
  }
  // Packed panels are walked over and over: fewer TLB misses where the system grants large pages.
  if (rounded >= kHugePage) madvise(data, rounded, MADV_HUGEPAGE);
  arena.data = data;
  arena.bytes = rounded;
  return data;
}

void prefer_large_pages(void* data, size_t bytes) {
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(data) + kHugePage - 1) / kHugePage * kHugePage;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(data) + bytes) / kHugePage * kHugePage;
  // Memory packed anew keeps its pages: asking again would cost as much as the packing.
  static thread_local uintptr_t last_begin = 0, last_end = 0;
  if (begin >= end || (begin == last_begin && end == last_end)) return;
  last_begin = begin;
  last_end = end;
  const int error = errno;
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
  madvise(reinterpret_cast<void*>(begin), end - begin, kCollapse);
  errno = error;
}

}  // namespace tessera
