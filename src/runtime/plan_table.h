// Problem -> loaded kernel: the in-process hit. Look-ups take no lock and allocate nothing; insertions take a
// mutex.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "tessera/kernel.h"

namespace tessera {

class PlanTable {
 public:
  PlanTable();
  ~PlanTable();

  const Kernel* find(const Problem& problem) const;

  // The kernel now in the table for its problem: `kernel`, or one that was there first.
  const Kernel& insert(std::unique_ptr<Kernel> kernel);

  // From now on `kernel` is the one for its problem, which is in the table. What find() gave before stays
  // alive.
  const Kernel& replace(std::unique_ptr<Kernel> kernel);

  size_t size() const;

 private:
  // The hash is there once the kernel is, and stays.
  struct Slot {
    std::atomic<uint64_t> hash{0};
    std::atomic<const Kernel*> kernel{nullptr};
  };
  // Open addressing, a power of two of slots, at most half full. Published whole: readers see an old table or
  // the new one, and old tables live as long as this object.
  struct Slots {
    explicit Slots(size_t count) : mask(count - 1), items(count) {}
    size_t mask;
    std::vector<Slot> items;
  };
  static void place(Slots& slots, const Kernel& kernel);
  // Of those that a hash leads to the first with this kernel, which is there; null: the first that is free.
  static Slot& slot_with(Slots& slots, uint64_t hash, const Kernel* kernel);

  std::atomic<Slots*> current_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Slots>> tables_;
  std::vector<std::unique_ptr<Kernel>> kernels_, replaced_;
  std::atomic<size_t> size_{0};
};

}  // namespace tessera
