// A forest arranged to be asked of many rows of one problem at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/forest.h"

namespace tessera {

// What a walk of rows goes by. Tests are the distinct pairs of a feature and a threshold, by feature and then
// ascending. A child is a fork's index in its tree or, with kLeaf, a leaf's.
struct ForestFork {
  uint32_t test;
  uint16_t left, right;
};
struct ForestTree {
  uint32_t forks, leaves;  // the first of each
  uint16_t root;           // as a child
};
struct ForestTables {
  static constexpr uint32_t kLeaf = 0x8000;
  const ForestTree* trees;
  const ForestFork* forks;
  const float* leaves;
  const float* thresholds;
  const uint32_t* first_test;  // of each feature, and their number
  uint32_t count, features;    // of trees
};

constexpr uint32_t kForestSideBySide = 16;  // trees walked at a time
constexpr uint32_t kForestSharedMasks = 2;

// Memory of a walk. A place is a tree's number, from 16 bits up, and a child of it; forks come first, leaves
// from `most_forks` on.
struct ForestScratch {
  uint16_t* answers;     // of each test, the number of a mask
  uint64_t* masks;       // rows whose feature is less
  uint32_t* places;      // where rows have arrived
  uint64_t* place_rows;  // which rows
  uint32_t most_forks;
  uint32_t* order;  // of leaves
  float* values;    // theirs, in that order
};

using WalkRows = void(const ForestTables& f, const ForestScratch& s, const float* const* columns,
                      const uint8_t* same, size_t rows, float* sums);
WalkRows* plain_walk_rows();
WalkRows* avx512_walk_rows();  // null where the build lacks it; for processors that have it
bool has_avx512_rows();        // whether the processor has it

class ForestRows {
 public:
  explicit ForestRows(const Forest& forest);  // Error(unsupported) beyond 65534 tests

  // sums[r] += the sum of all trees for row r < rows <= Forest::kRows, tree by tree in their order, in float:
  // bit for bit what a walk of each row through each tree adds up to. columns[f] points to feature f of
  // kRows rows; no value is NaN. Where same[f], all rows have the value of row 0. No allocation after a
  // thread's first call. `walk`: null for the quickest one here.
  void add(std::span<const float* const> columns, std::span<const uint8_t> same, size_t rows, float* sums,
           WalkRows* walk = nullptr) const;

 private:
  std::vector<ForestTree> trees_;
  std::vector<ForestFork> forks_;
  std::vector<float> leaves_, thresholds_;
  std::vector<uint32_t> first_test_;
  size_t most_forks_ = 0, most_leaves_ = 0;  // of a tree
};

}  // namespace tessera
