#include "runtime/plan_table.h"

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

std::atomic<PlanTable::Node*>& PlanTable::slot_of(Slots& slots, const Node* node) {
  size_t i = node->hash;
  while (slots.nodes[i & slots.mask].load(std::memory_order_relaxed) != node) ++i;
  return slots.nodes[i & slots.mask];
}

const Kernel& PlanTable::replace(std::unique_ptr<Kernel> kernel) {
  std::lock_guard lock(mutex_);
  auto node = std::make_unique<Node>(Node{hash(kernel->problem()), std::move(kernel)});
  for (auto& there : nodes_) {
    if (there->hash != node->hash || !(there->kernel->problem() == node->kernel->problem())) continue;
    slot_of(*tables_.back(), there.get()).store(node.get(), std::memory_order_release);
    std::swap(there, node);
    replaced_.push_back(std::move(node));
    return *there->kernel;
  }
  throw Error(ErrorCode::internal, "no kernel to replace for " + to_string(node->kernel->problem()));
}

size_t PlanTable::size() const { return size_.load(std::memory_order_acquire); }

}  // namespace tessera
