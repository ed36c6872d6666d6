// A forest arranged to be asked of many rows of one problem at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "model/forest.h"

namespace tessera {

// What a walk of rows goes by. Tests are the distinct pairs of a feature and a threshold, by feature and then
// ascending. A node is 32 bits, trees in preorder: of a leaf its value; of a fork its test, how far on the
// right child is, and which of its children are leaves.
//
// First every test is answered for all rows at once, by one mask. Then the masks of rows go down the trees of
// one group after the other; each leaf leaves its value with the rows that arrive there, and values are added
// up tree by tree.
struct ForestTables {
  static constexpr int kLeftLeaf = 30;
  static constexpr uint32_t kLeafRoot = uint32_t{1} << 31, kMostTests = 0xfffe, kMostRight = 0x3fff;
  static uint32_t fork(uint32_t test, uint32_t right, bool left_leaf, bool right_leaf) {
    return test | right << 16 | uint32_t{left_leaf} << kLeftLeaf | uint32_t{right_leaf} << (kLeftLeaf + 1);
  }
  static uint32_t test(uint32_t fork) { return fork & 0xffff; }
  static uint32_t right(uint32_t fork) { return fork >> 16 & kMostRight; }
  static uint32_t left_is_leaf(uint32_t fork) { return fork >> kLeftLeaf & 1; }
  static uint32_t right_is_leaf(uint32_t fork) { return fork >> 31; }

  // Where rows arrive: in which tree of a group, and at which node from the group's first one on.
  static constexpr int kTree = 24;
  static uint32_t arrival(uint32_t tree, uint32_t root, uint32_t first) {
    return tree << kTree | ((root & ~kLeafRoot) - first);
  }
  static uint32_t tree(uint32_t arrival) { return arrival >> kTree; }
  static uint32_t node(uint32_t arrival) { return arrival & ((uint32_t{1} << kTree) - 1); }

  // Masks have a bit for each row, and of all of them these words.
  static constexpr size_t kMostWords = Forest::kRows / 64;
  static uint64_t word(size_t rows, size_t w) {
    const size_t left = rows > w * 64 ? rows - w * 64 : 0;
    return left >= 64 ? ~uint64_t{0} : (uint64_t{1} << left) - 1;
  }

  const uint32_t* nodes;
  const uint32_t* roots;  // of the trees, with kLeafRoot where that is all of one
  const float* thresholds;
  const uint32_t* first_test;  // of each feature, and their number
  uint32_t count, features;    // of trees
};

constexpr uint32_t kForestGroup = 64;  // trees walked side by side
static_assert(kForestGroup * (size_t{1} << 16) <= size_t{1} << ForestTables::kTree);
constexpr size_t kForestSlack = 16;  // written beyond the last before it is known how many there are

// Memory of a walk.
struct ForestScratch {
  uint64_t* masks;  // of each test, rows whose feature is less
  // Arrivals at forks and at leaves, and which rows arrive there.
  uint32_t* fork_nodes;
  uint64_t* fork_rows;
  size_t most_forks;
  uint32_t* leaf_nodes;
  uint64_t* leaf_rows;
  size_t most_leaves;
  float* values;  // of each tree of a group, what each row gets
};

using WalkRows = void(const ForestTables& f, const ForestScratch& s, const float* const* columns,
                      const uint8_t* same, size_t rows, float* sums);
WalkRows* plain_walk_rows();
WalkRows* avx512_walk_rows();  // null where the build lacks it; for processors that have it

// What a walk reads, as a model file has it; see ForestTables.
struct ForestArrays {
  std::vector<uint32_t> first_test;  // of each feature, and their number
  std::vector<float> thresholds;
  std::vector<uint32_t> roots, nodes;
};

class ForestRows {
 public:
  // Error(unsupported) beyond 65534 tests, and where a fork's left side has more than 16382 nodes.
  explicit ForestRows(const Forest& forest);
  explicit ForestRows(ForestArrays arrays);  // Error(corrupt) when they are no trees

  const ForestArrays& arrays() const { return arrays_; }
  size_t features() const { return arrays_.first_test.size() - 1; }  // one more than the largest one tested
  bool tests(size_t feature) const {
    return feature < features() && arrays_.first_test[feature] < arrays_.first_test[feature + 1];
  }
  Forest forest() const;

  // sums[r] += the sum of all trees for row r < rows <= Forest::kRows, tree by tree in their order, in float:
  // bit for bit what a walk of each row through each tree adds up to. columns[f] points to feature f of
  // kRows rows; no value is NaN. Where same[f], all rows have the value of row 0. No allocation after a
  // thread's first call. `walk`: null for the quickest one here.
  void add(std::span<const float* const> columns, std::span<const uint8_t> same, size_t rows, float* sums,
           WalkRows* walk = nullptr) const;

 private:
  void check();                                    // fills what is below
  std::pair<size_t, size_t> tree(size_t t) const;  // its first node, and one past its last
  ForestArrays arrays_;
  size_t most_forks_ = 0, most_leaves_ = 0;  // of a tree
};

}  // namespace tessera
