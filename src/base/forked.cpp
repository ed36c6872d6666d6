#include "base/forked.h"

#include <pthread.h>

#include <string>

#include "tessera/error.h"

namespace tessera {
namespace {

std::atomic<unsigned> forks{0};  // between this process and the first one that asked

}  // namespace

void ForkGuard::note() {
  if (used_.load(std::memory_order_relaxed)) return;
  static const int registered = pthread_atfork(nullptr, nullptr, [] { ++forks; });
  if (registered == 0) used_ = forks + 1;
}

void ForkGuard::refuse(std::string_view done, std::string_view remedy) const {
  const unsigned used = used_.load(std::memory_order_relaxed);
  if (used == 0 || used == forks.load(std::memory_order_relaxed) + 1) return;
  throw Error(ErrorCode::device, "this process was forked after its parent had " + std::string(done),
              std::string(remedy));
}

}  // namespace tessera
