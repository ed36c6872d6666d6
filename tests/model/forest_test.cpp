#include "model/forest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <random>
#include <type_traits>

#include "base/isa.h"
#include "model/forest_rows.h"
#include "tessera/error.h"

namespace tessera {
namespace {

constexpr size_t kFeatures = 7;

// A tree of random shape, in preorder.
void grow(std::mt19937& engine, int depth, std::vector<ForestNode>& out) {
  const auto draw = [&] { return static_cast<float>(static_cast<int>(engine() % 2001) - 1000) / 250; };
  const size_t self = out.size();
  out.push_back({draw(), ForestNode::kLeaf, 0});
  if (depth == 0 || engine() % 8 == 0) return;
  out[self].feature = static_cast<uint16_t>(engine() % kFeatures);
  grow(engine, depth - 1, out);
  out[self].right = static_cast<uint16_t>(out.size());
  grow(engine, depth - 1, out);
}

Forest random_forest(unsigned seed, int trees, int depth) {
  std::mt19937 engine(seed);
  Forest forest;
  for (int t = 0; t < trees; ++t) {
    std::vector<ForestNode> nodes;
    grow(engine, depth, nodes);
    forest.add_tree(nodes);
  }
  return forest;
}

// A walk of one row, the plain way.
float walk_of(const Forest& forest, const std::array<float, kFeatures>& row) {
  float sum = 0;
  for (uint32_t root : forest.roots()) {
    const ForestNode* tree = forest.nodes().data() + root;
    uint32_t at = 0;
    while (tree[at].feature != ForestNode::kLeaf)
      at = row[tree[at].feature] < tree[at].value ? at + 1 : tree[at].right;
    sum += tree[at].value;
  }
  return sum;
}

// Every way that this processor has of walking rows.
std::vector<WalkRows*> walks() {
  std::vector<WalkRows*> out = {plain_walk_rows()};
  if (has_avx512() && avx512_walk_rows()) out.push_back(avx512_walk_rows());
  return out;
}

struct Rows {
  std::vector<float> matrix = std::vector<float>(kFeatures * Forest::kRows);
  std::vector<const float*> columns;
  std::vector<uint8_t> same = std::vector<uint8_t>(kFeatures);

  // Of `values` different numbers, on a grid that thresholds lie on too; the first features are the same for
  // all rows.
  Rows(std::mt19937& engine, unsigned values) {
    for (size_t f = 0; f < kFeatures; ++f) {
      columns.push_back(matrix.data() + f * Forest::kRows);
      same[f] = f < 3;
      for (size_t r = 0; r < Forest::kRows; ++r) {
        const float value =
            static_cast<float>(static_cast<int>(engine() % values * 2000 / values) - 1000) / 250;
        matrix[f * Forest::kRows + r] = same[f] && r ? matrix[f * Forest::kRows] : value;
      }
    }
  }
};

TEST(Forest, AddsUpWhatAWalkOfEachRowGives) {
  std::mt19937 engine(3);
  for (size_t rows : {1u, 15u, 16u, 63u, 64u, 65u, 128u, 129u, 200u, 256u, 257u, 400u, 511u, 512u}) {
    // Fewer trees than go side by side, and more; a lone leaf; paths of all lengths.
    const int trees = rows % 2 ? 5 : 40;
    Forest forest = random_forest(static_cast<unsigned>(rows), trees, rows % 3 ? 6 : 12);
    forest.add_tree(std::vector<ForestNode>{{0.25F, ForestNode::kLeaf, 0}});
    const ForestRows asked(forest);
    const Rows data(engine, rows % 5 ? 2001 : 4);
    for (WalkRows* walk : walks()) {
      std::vector<float> sums(Forest::kRows);
      asked.add(data.columns, data.same, rows, sums.data(), walk);
      for (size_t r = 0; r < rows; ++r) {
        std::array<float, kFeatures> row;
        for (size_t f = 0; f < kFeatures; ++f) row[f] = data.columns[f][r];
        ASSERT_EQ(sums[r], walk_of(forest, row)) << rows << ' ' << r;
      }
      for (size_t r = rows; r < Forest::kRows; ++r) ASSERT_EQ(sums[r], 0);
    }
  }
}

TEST(Forest, WalksOfSmallAndLargeForestsShareAThreadsMemory) {
  std::mt19937 engine(5);
  const Rows data(engine, 50);
  const Forest small = random_forest(1, 3, 2), large = random_forest(2, 60, 10);
  std::vector<float> before(Forest::kRows), after(Forest::kRows), other(Forest::kRows);
  ForestRows(small).add(data.columns, data.same, 300, before.data());
  ForestRows(large).add(data.columns, data.same, 512, other.data());
  ForestRows(small).add(data.columns, data.same, 300, after.data());
  EXPECT_EQ(before, after);
}

TEST(Forest, MoreTestsThanAMaskCanBeNamedForAreRefused) {
  Forest forest;
  for (int i = 0; i < 65535; ++i) {
    const auto leaf = ForestNode{1, ForestNode::kLeaf, 0};
    forest.add_tree(std::vector<ForestNode>{{static_cast<float>(i), 0, 2}, leaf, leaf});
    if (i == 65533) { EXPECT_NO_THROW(ForestRows{forest}); }
  }
  EXPECT_THROW(ForestRows{forest}, Error);
}

// Rows that part at every fork, so that they arrive at more leaves of a tree than its walk looks up at once.
TEST(Forest, RowsMayArriveAtMoreLeavesThanFitARegister) {
  for (int depth : {4, 5, 6, 9}) {
    std::vector<ForestNode> nodes;
    const std::function<void(int, int)> halve = [&](int first, int rows) {
      const size_t self = nodes.size();
      nodes.push_back({static_cast<float>(first) + 0.125F, ForestNode::kLeaf, 0});
      if (rows == static_cast<int>(Forest::kRows) >> depth) return;
      nodes[self] = {static_cast<float>(first + rows / 2), 0, 0};
      halve(first, rows / 2);
      nodes[self].right = static_cast<uint16_t>(nodes.size());
      halve(first + rows / 2, rows / 2);
    };
    halve(0, static_cast<int>(Forest::kRows));
    Forest forest;
    forest.add_tree(nodes);
    forest.add_tree(nodes);
    std::vector<float> column(Forest::kRows);
    for (size_t r = 0; r < column.size(); ++r) column[r] = static_cast<float>(r);
    const std::vector<const float*> columns = {column.data()};
    const std::vector<uint8_t> same = {0};
    for (WalkRows* walk : walks()) {
      std::vector<float> sums(Forest::kRows);
      ForestRows(forest).add(columns, same, Forest::kRows, sums.data(), walk);
      for (size_t r = 0; r < sums.size(); ++r) {
        const size_t leaf = r >> (9 - depth) << (9 - depth);
        ASSERT_EQ(sums[r], 2 * (static_cast<float>(leaf) + 0.125F)) << depth << ' ' << r;
      }
    }
  }
}

TEST(Forest, SidesOfMoreNodesThanAForkCountsAreRefused) {
  const ForestNode leaf{1, ForestNode::kLeaf, 0};
  const auto full = [&](int depth) {
    std::vector<ForestNode> nodes;
    const std::function<void(int)> grow = [&](int left) {
      const size_t self = nodes.size();
      nodes.push_back(leaf);
      if (left == 0) return;
      grow(left - 1);
      nodes[self] = {0.5F, 0, static_cast<uint16_t>(nodes.size())};
      grow(left - 1);
    };
    grow(depth);
    return nodes;
  };
  Forest most, more;
  most.add_tree(full(13));
  EXPECT_NO_THROW(ForestRows{most});
  more.add_tree(full(14));  // 16383 nodes to the left of the root
  EXPECT_THROW(ForestRows{more}, Error);
}

TEST(Forest, NodesThatDoNotFitAreRefused) {
  const ForestNode leaf{1, ForestNode::kLeaf, 0};
  Forest forest;
  EXPECT_THROW(forest.add_tree({}), Error);
  EXPECT_THROW(forest.add_tree(std::vector<ForestNode>{leaf, leaf}), Error);
  EXPECT_THROW(forest.add_tree(std::vector<ForestNode>{{0, 1, 2}, leaf}), Error);
  EXPECT_THROW(forest.add_tree(std::vector<ForestNode>{{0, 1, 1}, leaf, leaf}), Error);
  EXPECT_NO_THROW(forest.add_tree(std::vector<ForestNode>{{0, 1, 2}, leaf, leaf}));
  EXPECT_EQ(forest.features(), 2u);
}

TEST(Forest, ArraysGiveTheForestBack) {
  Forest forest = random_forest(3, 7, 6);
  forest.add_tree(std::vector<ForestNode>{{1, ForestNode::kLeaf, 0}});
  const Forest back = ForestRows(ForestRows(forest).arrays()).forest();
  EXPECT_TRUE(std::ranges::equal(back.nodes(), forest.nodes()));
  EXPECT_TRUE(std::ranges::equal(back.roots(), forest.roots()));
  EXPECT_EQ(back.features(), forest.features());
  EXPECT_EQ(ForestRows(ForestRows(Forest{}).arrays()).forest().trees(), 0u);
}

// What a file may say: it is refused, or walked within its arrays (a sanitizer sees that).
TEST(Forest, ArraysWithAnyWordChangedAreRefusedOrTrees) {
  const ForestArrays good = ForestRows(random_forest(5, 3, 4)).arrays();
  size_t refused = 0, walked = 0;
  std::mt19937 engine(11);
  const Rows data(engine, 50);
  const auto attempt = [&](const ForestArrays& arrays) {
    try {
      const ForestRows rows(arrays);
      if (rows.features() > kFeatures) return;
      for (WalkRows* walk : walks()) {
        std::vector<float> sums(Forest::kRows);
        rows.add(data.columns, data.same, 100, sums.data(), walk);
      }
      EXPECT_NO_THROW(rows.forest());
      ++walked;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::corrupt);
      ++refused;
    }
  };
  const auto change = [&](auto member) {
    for (size_t i = 0; i < (good.*member).size(); ++i) {
      for (int bit = 0; bit < 32; ++bit) {
        ForestArrays bad = good;
        auto& word = (bad.*member)[i];
        using Word = std::remove_reference_t<decltype(word)>;
        word = std::bit_cast<Word>(std::bit_cast<uint32_t>(word) ^ (uint32_t{1} << bit));
        attempt(bad);
      }
    }
    for (size_t size = 0; size < (good.*member).size(); ++size) {
      ForestArrays bad = good;
      (bad.*member).resize(size);
      attempt(bad);
    }
  };
  change(&ForestArrays::first_test);
  change(&ForestArrays::thresholds);
  change(&ForestArrays::roots);
  change(&ForestArrays::nodes);
  EXPECT_GT(refused, 500u);
  EXPECT_GT(walked, 500u);  // another value of a leaf, another threshold, another test
}

TEST(Forest, FirstAndAppendKeepTheOrder) {
  const Forest all = random_forest(9, 10, 4);
  Forest two = all.first(4);
  EXPECT_EQ(two.trees(), 4u);
  two.append(all);
  EXPECT_EQ(two.trees(), 14u);
  EXPECT_EQ(two.nodes().size(), all.first(4).nodes().size() + all.nodes().size());
  std::array<float, kFeatures> row{};
  EXPECT_FLOAT_EQ(walk_of(two, row), walk_of(all.first(4), row) + walk_of(all, row));
}

}  // namespace
}  // namespace tessera
