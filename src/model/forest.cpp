#include "model/forest.h"

#include <algorithm>

#include "tessera/error.h"

namespace tessera {
namespace {

// Nodes of the subtree at `at`; 0 when it does not fit.
size_t subtree(std::span<const ForestNode> nodes, size_t at, size_t depth) {
  if (at >= nodes.size() || depth > Forest::kMostDepth) return 0;
  if (nodes[at].feature == ForestNode::kLeaf) return 1;
  const size_t left = subtree(nodes, at + 1, depth + 1);
  if (left == 0 || nodes[at].right != at + 1 + left) return 0;
  const size_t right = subtree(nodes, at + 1 + left, depth + 1);
  return right == 0 ? 0 : 1 + left + right;
}

}  // namespace

void Forest::add_tree(std::span<const ForestNode> nodes) {
  if (nodes.empty() || subtree(nodes, 0, 0) != nodes.size())
    throw Error(ErrorCode::corrupt, "a regression tree whose nodes do not fit together");
  roots_.push_back(static_cast<uint32_t>(nodes_.size()));
  nodes_.insert(nodes_.end(), nodes.begin(), nodes.end());
  for (const ForestNode& n : nodes) {
    if (n.feature != ForestNode::kLeaf) features_ = std::max(features_, size_t{n.feature} + 1);
  }
}

std::span<const ForestNode> Forest::tree(size_t t) const {
  const size_t end = t + 1 < roots_.size() ? roots_[t + 1] : nodes_.size();
  return std::span(nodes_).subspan(roots_[t], end - roots_[t]);
}

Forest Forest::first(size_t trees) const {
  Forest out;
  for (size_t t = 0; t < std::min(trees, roots_.size()); ++t) out.add_tree(tree(t));
  return out;
}

Forest Forest::after(size_t trees) const {
  Forest out;
  for (size_t t = trees; t < roots_.size(); ++t) out.add_tree(tree(t));
  return out;
}

void Forest::append(const Forest& more) {
  for (uint32_t root : more.roots_) roots_.push_back(root + static_cast<uint32_t>(nodes_.size()));
  nodes_.insert(nodes_.end(), more.nodes_.begin(), more.nodes_.end());
  features_ = std::max(features_, more.features_);
}

}  // namespace tessera
