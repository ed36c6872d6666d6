// Children of fork(): they have the memory of their parent and one thread.
#pragma once

#include <atomic>
#include <string_view>

namespace tessera {

// Of something that does not outlive a fork: threads, a device.
class ForkGuard {
 public:
  // It is used in this process from here on.
  void note();

  // Error(device), which says that the parent had `done` something, in a child that was forked after note().
  void refuse(std::string_view done, std::string_view remedy) const;

 private:
  std::atomic<unsigned> used_{0};  // one more than the forks before the first use; 0: not used yet
};

}  // namespace tessera
