#include "model/forest_rows.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "tessera/error.h"

namespace tessera {
namespace {

// Rows that a threshold is above, 64 a word.
template <size_t W>
void less(const float* column, float threshold, uint64_t* mask) {
  for (size_t w = 0; w < W; ++w) {
    uint64_t word = 0;
    for (size_t i = 0; i < 64; ++i) word |= uint64_t{column[w * 64 + i] < threshold} << i;
    mask[w] = word;
  }
}

// The walk for any processor, of W words a mask.
template <size_t W>
class Walk {
 public:
  Walk(const ForestTables& f, const ForestScratch& s, size_t rows) : f_(f), s_(s), rows_(rows) {}

  void answer(const float* const* columns, const uint8_t* same) {
    for (uint32_t feature = 0; feature < f_.features; ++feature) {
      const float *const begin = f_.thresholds + f_.first_test[feature], *const end =
                                                                             f_.thresholds +
                                                                             f_.first_test[feature + 1];
      if (begin == end) continue;
      const float* const column = columns[feature];
      const auto [least, most] = std::minmax_element(column, column + (same[feature] ? 1 : rows_));
      const float *const none = std::upper_bound(begin, end, *least), *const all =
                                                                          std::upper_bound(none, end, *most);
      uint64_t* masks = s_.masks + f_.first_test[feature] * W;
      masks = std::fill_n(masks, static_cast<size_t>(none - begin) * W, uint64_t{0});
      for (const float* t = none; t < all; ++t, masks += W) less<W>(column, *t, masks);
      std::fill_n(masks, static_cast<size_t>(end - all) * W, ~uint64_t{0});
    }
  }

  void add(float* sums) {
    for (uint32_t first = 0; first < f_.count; first += kForestGroup) {
      const uint32_t count = std::min(f_.count - first, kForestGroup);
      descend(f_.roots + first, count);
      for (uint32_t t = 0; t < count; ++t) {
        const float* const values = s_.values + size_t{t} * 64 * W;
        for (size_t r = 0; r < rows_; ++r) sums[r] += values[r];
      }
    }
  }

 private:
  // Leaves leave their value with every row that arrives. Where rows arrive at forks waits in s_.fork_nodes,
  // the trees of a group taking turns; no branch decides on which of a fork's children any do.
  void descend(const uint32_t* roots, uint32_t count) {
    const uint32_t base = roots[0] & ~ForestTables::kLeafRoot;
    const uint32_t* const nodes = f_.nodes + base;
    size_t forks = 0, leaves = 0;
    const auto hand_on = [&](uint32_t node, const uint64_t* rows, bool leaf, bool any) {
      (leaf ? s_.leaf_nodes[leaves] : s_.fork_nodes[forks]) = node;
      uint64_t* const to = leaf ? s_.leaf_rows + leaves * W : s_.fork_rows + forks * W;
      for (size_t w = 0; w < W; ++w) to[w] = rows[w];
      forks += any && !leaf;
      leaves += any && leaf;
    };
    uint64_t all[W];
    for (size_t w = 0; w < W; ++w) all[w] = ForestTables::word(rows_, w);
    for (uint32_t t = 0; t < count; ++t)
      hand_on(ForestTables::arrival(t, roots[t], base), all, roots[t] & ForestTables::kLeafRoot, true);
    for (size_t at = 0; at < forks; ++at) {
      const uint32_t from = s_.fork_nodes[at], fork = nodes[ForestTables::node(from)];
      const uint64_t *const less = s_.masks + ForestTables::test(fork) * W, *const rows =
                                                                                s_.fork_rows + at * W;
      uint64_t left[W], right[W], lefts = 0, rights = 0;
      for (size_t w = 0; w < W; ++w) {
        left[w] = rows[w] & less[w];
        right[w] = rows[w] & ~less[w];
        lefts |= left[w];
        rights |= right[w];
      }
      hand_on(from + 1, left, ForestTables::left_is_leaf(fork), lefts);
      hand_on(from + ForestTables::right(fork), right, ForestTables::right_is_leaf(fork), rights);
    }
    for (size_t i = 0; i < leaves; ++i) {
      const float value = std::bit_cast<float>(nodes[ForestTables::node(s_.leaf_nodes[i])]);
      float* const to = s_.values + size_t{ForestTables::tree(s_.leaf_nodes[i])} * 64 * W;
      for (size_t w = 0; w < W; ++w) {
        for (uint64_t left = s_.leaf_rows[i * W + w]; left; left &= left - 1)
          to[w * 64 + static_cast<size_t>(std::countr_zero(left))] = value;
      }
    }
  }

  const ForestTables& f_;
  const ForestScratch& s_;
  size_t rows_;
};

template <size_t W>
void walk_of_words(const ForestTables& f, const ForestScratch& s, const float* const* columns,
                   const uint8_t* same, size_t rows, float* sums) {
  Walk<W> walk(f, s, rows);
  walk.answer(columns, same);
  walk.add(sums);
}

void walk_rows(const ForestTables& f, const ForestScratch& s, const float* const* columns,
               const uint8_t* same, size_t rows, float* sums) {
  const auto walk = rows <= 64    ? walk_of_words<1>
                    : rows <= 128 ? walk_of_words<2>
                    : rows <= 256 ? walk_of_words<4>
                                  : walk_of_words<ForestTables::kMostWords>;
  walk(f, s, columns, same, rows, sums);
}

// A thread's, grown on its first call and then kept.
struct Memory {
  std::vector<uint64_t> masks, fork_rows, leaf_rows;
  std::vector<uint32_t> fork_nodes, leaf_nodes;
  std::vector<float> values;

  // For trees of at most so many forks and leaves.
  ForestScratch take(size_t tests, size_t forks, size_t leaves) {
    constexpr size_t kWords = ForestTables::kMostWords;
    const auto grow = [](auto& list, size_t size) {
      if (list.size() < size) list.resize(size);
      return list.data();
    };
    const size_t most_forks = forks * kForestGroup + kForestSlack,
                 most_leaves = leaves * kForestGroup + kForestSlack;
    return {grow(masks, tests * kWords),
            grow(fork_nodes, most_forks),
            grow(fork_rows, most_forks * kWords),
            most_forks,
            grow(leaf_nodes, most_leaves),
            grow(leaf_rows, most_leaves * kWords),
            most_leaves,
            grow(values, kForestGroup * Forest::kRows)};
  }
};

}  // namespace

WalkRows* plain_walk_rows() { return walk_rows; }

bool has_avx512_rows() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#else
  return false;
#endif
}

ForestRows::ForestRows(const Forest& forest) {
  const auto nodes = forest.nodes();
  std::vector<std::vector<float>> thresholds(forest.features());
  for (const ForestNode& n : nodes) {
    if (n.feature != ForestNode::kLeaf) thresholds[n.feature].push_back(n.value);
  }
  for (auto& list : thresholds) {
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
    first_test_.push_back(static_cast<uint32_t>(thresholds_.size()));
    thresholds_.insert(thresholds_.end(), list.begin(), list.end());
  }
  first_test_.push_back(static_cast<uint32_t>(thresholds_.size()));
  if (thresholds_.size() > ForestTables::kMostTests)
    throw Error(ErrorCode::unsupported, "regression trees with more than 65534 different tests");
  const auto test_of = [&](const ForestNode& n) {
    const auto begin = thresholds_.begin() + first_test_[n.feature],
               end = thresholds_.begin() + first_test_[n.feature + size_t{1}];
    return static_cast<uint32_t>(std::lower_bound(begin, end, n.value) - thresholds_.begin());
  };
  const auto is_leaf = [](const ForestNode& n) { return n.feature == ForestNode::kLeaf; };
  nodes_.reserve(nodes.size());
  for (size_t t = 0; t < forest.trees(); ++t) {
    const auto tree = forest.tree(t);
    roots_.push_back(forest.roots()[t] | (is_leaf(tree[0]) ? ForestTables::kLeafRoot : 0));
    size_t forks = 0;
    for (size_t i = 0; i < tree.size(); ++i) {
      if (is_leaf(tree[i])) {
        nodes_.push_back(std::bit_cast<uint32_t>(tree[i].value));
        continue;
      }
      const size_t right = tree[i].right - i;
      if (right > ForestTables::kMostRight) {
        throw Error(ErrorCode::unsupported, "a regression tree of more than 16382 nodes on one side",
                    "train it with less depth");
      }
      nodes_.push_back(ForestTables::fork(test_of(tree[i]), static_cast<uint32_t>(right),
                                          is_leaf(tree[i + 1]), is_leaf(tree[i + right])));
      ++forks;
    }
    most_forks_ = std::max(most_forks_, forks);
    most_leaves_ = std::max(most_leaves_, tree.size() - forks);
  }
}

void ForestRows::add(std::span<const float* const> columns, std::span<const uint8_t> same, size_t rows,
                     float* sums, WalkRows* walk) const {
  static WalkRows* const quickest =
      has_avx512_rows() && avx512_walk_rows() ? avx512_walk_rows() : plain_walk_rows();
  thread_local Memory memory;
  const ForestTables tables = {nodes_.data(),
                               roots_.data(),
                               thresholds_.data(),
                               first_test_.data(),
                               static_cast<uint32_t>(roots_.size()),
                               static_cast<uint32_t>(first_test_.size() - 1)};
  const ForestScratch scratch = memory.take(thresholds_.size(), most_forks_, most_leaves_);
  (walk ? walk : quickest)(tables, scratch, columns.data(), same.data(), rows, sums);
}

}  // namespace tessera
