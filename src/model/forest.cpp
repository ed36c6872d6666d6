#include "model/forest.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "model/forest_rows.h"
#include "tessera/error.h"

namespace tessera {
namespace {

constexpr size_t kMaxDepth = 64;

// Nodes of the subtree at `at`; 0 when it does not fit.
size_t subtree(std::span<const ForestNode> nodes, size_t at, size_t depth) {
  if (at >= nodes.size() || depth > kMaxDepth) return 0;
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

Forest Forest::first(size_t trees) const {
  Forest out;
  for (size_t t = 0; t < std::min(trees, roots_.size()); ++t) {
    const size_t end = t + 1 < roots_.size() ? roots_[t + 1] : nodes_.size();
    out.add_tree(std::span(nodes_).subspan(roots_[t], end - roots_[t]));
  }
  return out;
}

void Forest::append(const Forest& more) {
  for (uint32_t root : more.roots_) roots_.push_back(root + static_cast<uint32_t>(nodes_.size()));
  nodes_.insert(nodes_.end(), more.nodes_.begin(), more.nodes_.end());
  features_ = std::max(features_, more.features_);
}

void Forest::add(std::span<const float* const> columns, std::span<const uint8_t> same, size_t rows,
                 float* sums) const {
  static const RowFunctions& f = row_functions();
  struct Pending {
    uint32_t node;
    RowMask rows;
  };
  std::array<Pending, kMaxDepth + 2> stack;
  RowMask all{};
  for (size_t r = 0; r < rows; ++r) all.words[r / 64] |= uint64_t{1} << (r % 64);
  const size_t words = (rows + 63) / 64;
  for (uint32_t root : roots_) {
    const ForestNode* tree = nodes_.data() + root;
    size_t top = 0;
    stack[top++] = {0, all};
    while (top > 0) {
      Pending here = stack[--top];
      // Down to a leaf; the other side of each fork waits on the stack.
      for (;;) {
        const ForestNode& n = tree[here.node];
        if (n.feature == ForestNode::kLeaf) {
          f.add(n.value, here.rows, words, sums);
          break;
        }
        const float* column = columns[n.feature];
        if (same[n.feature]) {
          here.node = column[0] < n.value ? here.node + 1 : n.right;
          continue;
        }
        RowMask right;
        const int sides = f.split(column, n.value, words, here.rows, right);
        if (sides == 1) {
          ++here.node;
        } else {
          if (sides == 3) stack[top++] = {n.right, right};
          if (sides == 2) {
            here = {n.right, right};
          } else {
            ++here.node;
          }
        }
      }
    }
  }
}

}  // namespace tessera
