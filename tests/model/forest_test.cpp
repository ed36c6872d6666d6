#include "model/forest.h"

#include <gtest/gtest.h>

#include <array>
#include <random>

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
float walk(const Forest& forest, const std::array<float, kFeatures>& row) {
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

TEST(Forest, AddsUpWhatAWalkOfEachRowGives) {
  std::mt19937 engine(3);
  std::vector<float> matrix(kFeatures * Forest::kRows);
  std::vector<const float*> columns;
  for (size_t f = 0; f < kFeatures; ++f) columns.push_back(matrix.data() + f * Forest::kRows);
  for (size_t rows : {1u, 15u, 16u, 63u, 64u, 65u, 200u, 511u, 512u}) {
    const Forest forest = random_forest(static_cast<unsigned>(rows), 40, 6);
    std::vector<uint8_t> same(kFeatures);
    for (size_t f = 0; f < kFeatures; ++f) {
      same[f] = f < 3;
      for (size_t r = 0; r < Forest::kRows; ++r) {
        const float value = static_cast<float>(static_cast<int>(engine() % 2001) - 1000) / 250;
        matrix[f * Forest::kRows + r] = same[f] && r ? matrix[f * Forest::kRows] : value;
      }
    }
    std::vector<float> sums(Forest::kRows);
    forest.add(columns, same, rows, sums.data());
    for (size_t r = 0; r < rows; ++r) {
      std::array<float, kFeatures> row;
      for (size_t f = 0; f < kFeatures; ++f) row[f] = columns[f][r];
      ASSERT_EQ(sums[r], walk(forest, row)) << rows << ' ' << r;
    }
    for (size_t r = rows; r < Forest::kRows; ++r) ASSERT_EQ(sums[r], 0);
  }
}

TEST(Forest, BothRowFunctionsDoTheSame) {
  if (!has_avx512_rows() || !avx512_row_functions()) GTEST_SKIP() << "no AVX-512";
  std::mt19937 engine(5);
  std::vector<float> column(Forest::kRows);
  for (float& x : column) x = static_cast<float>(engine() % 100);
  for (int trial = 0; trial < 200; ++trial) {
    RowMask rows{};
    for (uint64_t& word : rows.words)
      word = (uint64_t{engine()} << 32 | engine()) & (engine() % 3 ? ~0ull : 0);
    const auto threshold = static_cast<float>(engine() % 110);
    RowMask a = rows, b = rows, a_right, b_right;
    EXPECT_EQ(plain_row_functions().split(column.data(), threshold, 8, a, a_right),
              avx512_row_functions()->split(column.data(), threshold, 8, b, b_right));
    std::vector<float> x(Forest::kRows, 0.5F), y = x;
    plain_row_functions().add(0.1F, a, 8, x.data());
    avx512_row_functions()->add(0.1F, b, 8, y.data());
    EXPECT_EQ(x, y);
    for (size_t w = 0; w < 8; ++w) {
      EXPECT_EQ(a.words[w], b.words[w]);
      EXPECT_EQ(a_right.words[w], b_right.words[w]);
    }
  }
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

TEST(Forest, FirstAndAppendKeepTheOrder) {
  const Forest all = random_forest(9, 10, 4);
  Forest two = all.first(4);
  EXPECT_EQ(two.trees(), 4u);
  two.append(all);
  EXPECT_EQ(two.trees(), 14u);
  EXPECT_EQ(two.nodes().size(), all.first(4).nodes().size() + all.nodes().size());
  std::array<float, kFeatures> row{};
  EXPECT_FLOAT_EQ(walk(two, row), walk(all.first(4), row) + walk(all, row));
}

}  // namespace
}  // namespace tessera
