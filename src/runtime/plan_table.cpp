#include "runtime/plan_table.h"

#include <algorithm>

#include "tessera/error.h"

namespace tessera {

PlanTable::PlanTable() {
  tables_.push_back(std::make_unique<Slots>(256));
  current_.store(tables_.back().get(), std::memory_order_release);
}

PlanTable::~PlanTable() = default;

const Kernel* PlanTable::find(const Problem& problem) const {
  const uint64_t h = hash(problem);
  const Slots& slots = *current_.load(std::memory_order_acquire);
  for (size_t i = h;; ++i) {
    const Slot& slot = slots.items[i & slots.mask];
    const Kernel* const kernel = slot.kernel.load(std::memory_order_acquire);
    if (!kernel) return nullptr;
    if (slot.hash.load(std::memory_order_relaxed) == h && kernel->problem() == problem) return kernel;
  }
}

PlanTable::Slot& PlanTable::slot_with(Slots& slots, uint64_t hash, const Kernel* kernel) {
  size_t i = hash;
  while (slots.items[i & slots.mask].kernel.load(std::memory_order_relaxed) != kernel) ++i;
  return slots.items[i & slots.mask];
}

void PlanTable::place(Slots& slots, const Kernel& kernel) {
  const uint64_t h = hash(kernel.problem());
  Slot& slot = slot_with(slots, h, nullptr);
  slot.hash.store(h, std::memory_order_relaxed);
  slot.kernel.store(&kernel, std::memory_order_release);
}

const Kernel& PlanTable::insert(std::unique_ptr<Kernel> kernel) {
  std::lock_guard lock(mutex_);
  if (const Kernel* there = find(kernel->problem())) return *there;
  kernels_.push_back(std::move(kernel));
  if (kernels_.size() * 2 > tables_.back()->items.size()) {
    auto larger = std::make_unique<Slots>(tables_.back()->items.size() * 2);
    for (const auto& known : kernels_) place(*larger, *known);
    tables_.push_back(std::move(larger));
    current_.store(tables_.back().get(), std::memory_order_release);
  } else {
    place(*tables_.back(), *kernels_.back());
  }
  size_.store(kernels_.size(), std::memory_order_release);
  return *kernels_.back();
}

const Kernel& PlanTable::replace(std::unique_ptr<Kernel> kernel) {
  std::lock_guard lock(mutex_);
  const Kernel* const there = find(kernel->problem());
  if (!there) throw Error(ErrorCode::internal, "no kernel to replace for " + to_string(kernel->problem()));
  replaced_.reserve(replaced_.size() + 1);  // readers may hold the old kernel: it must find a place
  Slot& slot = slot_with(*tables_.back(), hash(there->problem()), there);
  slot.kernel.store(kernel.get(), std::memory_order_release);
  auto& known = *std::find_if(kernels_.begin(), kernels_.end(), [&](auto& k) { return k.get() == there; });
  std::swap(known, kernel);
  replaced_.push_back(std::move(kernel));
  return *known;
}

size_t PlanTable::size() const { return size_.load(std::memory_order_acquire); }

}  // namespace tessera
