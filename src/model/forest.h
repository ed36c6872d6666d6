// Regression trees as a learned model keeps them: evaluated for many rows of one problem at once.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

// Trees one after the other, nodes of a tree in preorder: the left child of a node is the next one.
struct ForestNode {
  float value;       // threshold: left when the feature is less; of a leaf what it adds
  uint16_t feature;  // kLeaf of a leaf
  uint16_t right;    // index of the right child, from the root of the tree
  static constexpr uint16_t kLeaf = 0xffff;
  bool operator==(const ForestNode&) const = default;
};

class Forest {
 public:
  // Rows that one call of `add` takes.
  static constexpr size_t kRows = 512;
  static constexpr size_t kMostDepth = 64;  // of forks below one another

  void add_tree(std::span<const ForestNode> nodes);  // Error(corrupt) when they are no tree
  size_t trees() const { return roots_.size(); }
  std::span<const ForestNode> nodes() const { return nodes_; }
  std::span<const uint32_t> roots() const { return roots_; }
  size_t features() const { return features_; }  // one more than the largest one tested
  Forest first(size_t trees) const;
  Forest after(size_t trees) const;  // all but the first
  std::span<const ForestNode> tree(size_t t) const;
  void append(const Forest& more);

 private:
  std::vector<ForestNode> nodes_;
  std::vector<uint32_t> roots_;
  size_t features_ = 0;
};

}  // namespace tessera
