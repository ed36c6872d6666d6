#include "backend/cpu/arena.h"

#include <sys/mman.h>

#include <new>

namespace tessera {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

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
  if (data == MAP_FAILED) throw std::bad_alloc();
  // Packed panels are walked over and over: fewer TLB misses where the system grants large pages.
  if (rounded >= kHugePage) madvise(data, rounded, MADV_HUGEPAGE);
  arena.data = data;
  arena.bytes = rounded;
  return data;
}

}  // namespace tessera
