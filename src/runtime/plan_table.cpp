#include "runtime/plan_table.h"

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
    const Node* node = slots.nodes[i & slots.mask].load(std::memory_order_acquire);
    if (!node) return nullptr;
    if (node->hash == h && node->kernel->problem() == problem) return node->kernel.get();
  }
}

void PlanTable::place(Slots& slots, Node* node) {
  size_t i = node->hash;
  while (slots.nodes[i & slots.mask].load(std::memory_order_relaxed)) ++i;
  slots.nodes[i & slots.mask].store(node, std::memory_order_release);
}

const Kernel& PlanTable::insert(std::unique_ptr<Kernel> kernel) {
  std::lock_guard lock(mutex_);
  if (const Kernel* there = find(kernel->problem())) return *there;
  nodes_.push_back(std::make_unique<Node>(Node{hash(kernel->problem()), std::move(kernel)}));
  if (nodes_.size() * 2 > tables_.back()->nodes.size()) {
    auto larger = std::make_unique<Slots>(tables_.back()->nodes.size() * 2);
    for (const auto& node : nodes_) place(*larger, node.get());
    tables_.push_back(std::move(larger));
    current_.store(tables_.back().get(), std::memory_order_release);
  } else {
    place(*tables_.back(), nodes_.back().get());
  }
  size_.store(nodes_.size(), std::memory_order_release);
  return *nodes_.back()->kernel;
}

size_t PlanTable::size() const { return size_.load(std::memory_order_acquire); }

}  // namespace tessera
