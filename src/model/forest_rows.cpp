#include "model/forest_rows.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <memory>

#include "base/isa.h"
#include "tessera/error.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace tessera {
namespace {

// Rows that a threshold is above, 64 a word.
template <size_t W>
void less(const float* column, float threshold, uint64_t* mask) {
#if defined(__SSE2__)
  const __m128 limit = _mm_set1_ps(threshold);
  const auto four = [&](const float* x) { return _mm_castps_si128(_mm_cmplt_ps(_mm_loadu_ps(x), limit)); };
  for (size_t w = 0; w < W; ++w) {
    uint64_t word = 0;
    for (size_t i = 0; i < 64; i += 16) {
      const float* const x = column + w * 64 + i;
      const __m128i sixteen =
          _mm_packs_epi16(_mm_packs_epi32(four(x), four(x + 4)), _mm_packs_epi32(four(x + 8), four(x + 12)));
      word |= uint64_t{static_cast<uint32_t>(_mm_movemask_epi8(sixteen))} << i;
    }
    mask[w] = word;
  }
#else
  for (size_t w = 0; w < W; ++w) {
    uint64_t word = 0;
    for (size_t i = 0; i < 64; ++i) word |= uint64_t{column[w * 64 + i] < threshold} << i;
    mask[w] = word;
  }
#endif
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

// A thread's, grown on its first call and then kept. Not cleared: most of what the largest trees could take
// is never written, and so takes no memory.
template <class T>
class Scratch {
 public:
  T* of(size_t size) {
    if (size_ < size) {
      items_ = std::make_unique_for_overwrite<T[]>(size);
      size_ = size;
    }
    return items_.get();
  }

 private:
  std::unique_ptr<T[]> items_;
  size_t size_ = 0;
};

struct Memory {
  Scratch<uint64_t> masks, fork_rows, leaf_rows;
  Scratch<uint32_t> fork_nodes, leaf_nodes;
  Scratch<float> values;

  // For trees of at most so many forks and leaves.
  ForestScratch take(size_t tests, size_t forks, size_t leaves) {
    constexpr size_t kWords = ForestTables::kMostWords;
    const size_t most_forks = forks * kForestGroup + kForestSlack,
                 most_leaves = leaves * kForestGroup + kForestSlack;
    return {masks.of(tests * kWords),
            fork_nodes.of(most_forks),
            fork_rows.of(most_forks * kWords),
            most_forks,
            leaf_nodes.of(most_leaves),
            leaf_rows.of(most_leaves * kWords),
            most_leaves,
            values.of(kForestGroup * Forest::kRows)};
  }
};

}  // namespace

WalkRows* plain_walk_rows() { return walk_rows; }

ForestRows::ForestRows(const Forest& forest) {
  const auto nodes = forest.nodes();
  std::vector<std::vector<float>> of_feature(forest.features());
  for (const ForestNode& n : nodes) {
    if (n.feature != ForestNode::kLeaf) of_feature[n.feature].push_back(n.value);
  }
  auto& [first_test, thresholds, roots, packed] = arrays_;
  for (auto& list : of_feature) {
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
    first_test.push_back(static_cast<uint32_t>(thresholds.size()));
    thresholds.insert(thresholds.end(), list.begin(), list.end());
  }
  first_test.push_back(static_cast<uint32_t>(thresholds.size()));
  if (thresholds.size() > ForestTables::kMostTests)
    throw Error(ErrorCode::unsupported, "regression trees with more than 65534 different tests");
  const auto test_of = [&](const ForestNode& n) {
    const auto begin = thresholds.begin() + first_test[n.feature],
               end = thresholds.begin() + first_test[n.feature + size_t{1}];
    return static_cast<uint32_t>(std::lower_bound(begin, end, n.value) - thresholds.begin());
  };
  const auto is_leaf = [](const ForestNode& n) { return n.feature == ForestNode::kLeaf; };
  packed.reserve(nodes.size());
  for (size_t t = 0; t < forest.trees(); ++t) {
    const auto tree = forest.tree(t);
    roots.push_back(forest.roots()[t] | (is_leaf(tree[0]) ? ForestTables::kLeafRoot : 0));
    for (size_t i = 0; i < tree.size(); ++i) {
      if (is_leaf(tree[i])) {
        packed.push_back(std::bit_cast<uint32_t>(tree[i].value));
        continue;
      }
      const size_t right = tree[i].right - i;
      if (right > ForestTables::kMostRight) {
        throw Error(ErrorCode::unsupported, "a regression tree of more than 16382 nodes on one side",
                    "train it with less depth");
      }
      packed.push_back(ForestTables::fork(test_of(tree[i]), static_cast<uint32_t>(right),
                                          is_leaf(tree[i + 1]), is_leaf(tree[i + right])));
    }
  }
  check();
}

ForestRows::ForestRows(ForestArrays arrays) : arrays_(std::move(arrays)) { check(); }

std::pair<size_t, size_t> ForestRows::tree(size_t t) const {
  const auto node = [](uint32_t root) -> size_t { return root & ~ForestTables::kLeafRoot; };
  const auto& roots = arrays_.roots;
  return {node(roots[t]), t + 1 < roots.size() ? node(roots[t + 1]) : arrays_.nodes.size()};
}

// A walk goes where nodes send it, so each must be where preorder has it: after a fork its left child, after
// a leaf the right child that was put off last.
void ForestRows::check() {
  const auto& [first_test, thresholds, roots, nodes] = arrays_;
  const auto require = [](bool holds) {
    if (!holds) throw Error(ErrorCode::corrupt, "regression trees whose nodes do not fit together");
  };
  require(!first_test.empty() && first_test[0] == 0 && first_test.back() == thresholds.size());
  require(thresholds.size() <= ForestTables::kMostTests && first_test.size() <= ForestNode::kLeaf);
  for (size_t f = 0; f < features(); ++f) {
    const size_t begin = first_test[f], end = first_test[f + 1];
    require(begin <= end && end <= thresholds.size());
    for (size_t t = begin; t < end; ++t)
      require(!std::isnan(thresholds[t]) && (t == begin || thresholds[t - 1] < thresholds[t]));
  }
  require(roots.empty() ? nodes.empty() : tree(0).first == 0);
  std::array<std::pair<size_t, bool>, Forest::kMostDepth> put_off;  // right children, and which are leaves
  for (size_t t = 0; t < roots.size(); ++t) {
    const auto [begin, end] = tree(t);
    require(begin < end && end <= nodes.size() && end - begin <= size_t{1} << 16);
    size_t depth = 0, forks = 0, i = begin;
    for (bool leaf = roots[t] & ForestTables::kLeafRoot; i < end; ++i) {
      if (!leaf) {
        const uint32_t fork = nodes[i];
        require(ForestTables::test(fork) < thresholds.size() && depth < put_off.size());
        put_off[depth++] = {i + ForestTables::right(fork), ForestTables::right_is_leaf(fork)};
        leaf = ForestTables::left_is_leaf(fork);
        ++forks;
      } else if (depth > 0) {
        require(put_off[--depth].first == i + 1);
        leaf = put_off[depth].second;
      } else {
        break;
      }
    }
    require(i + 1 == end);
    most_forks_ = std::max(most_forks_, forks);
    most_leaves_ = std::max(most_leaves_, forks + 1);
  }
}

Forest ForestRows::forest() const {
  const auto& [first_test, thresholds, roots, nodes] = arrays_;
  std::vector<uint16_t> feature_of;
  for (size_t f = 0; f < features(); ++f) feature_of.resize(first_test[f + 1], static_cast<uint16_t>(f));
  Forest out;
  std::vector<ForestNode> unpacked;
  std::vector<uint8_t> leaf;
  for (size_t t = 0; t < roots.size(); ++t) {
    const auto [begin, end] = tree(t);
    unpacked.resize(end - begin);
    leaf.resize(end - begin);
    leaf[0] = (roots[t] & ForestTables::kLeafRoot) != 0;
    for (size_t i = 0; i < unpacked.size(); ++i) {
      const uint32_t node = nodes[begin + i];
      if (leaf[i]) {
        unpacked[i] = {std::bit_cast<float>(node), ForestNode::kLeaf, 0};
        continue;
      }
      const uint32_t test = ForestTables::test(node);
      const size_t right = i + ForestTables::right(node);
      leaf[i + 1] = ForestTables::left_is_leaf(node) != 0;
      leaf[right] = ForestTables::right_is_leaf(node) != 0;
      unpacked[i] = {thresholds[test], feature_of[test], static_cast<uint16_t>(right)};
    }
    out.add_tree(unpacked);
  }
  return out;
}

void ForestRows::add(std::span<const float* const> columns, std::span<const uint8_t> same, size_t rows,
                     float* sums, WalkRows* walk) const {
  static WalkRows* const quickest =
      has_avx512() && avx512_walk_rows() ? avx512_walk_rows() : plain_walk_rows();
  thread_local Memory memory;
  const auto& [first_test, thresholds, roots, nodes] = arrays_;
  const ForestTables tables = {nodes.data(),
                               roots.data(),
                               thresholds.data(),
                               first_test.data(),
                               static_cast<uint32_t>(roots.size()),
                               static_cast<uint32_t>(features())};
  const ForestScratch scratch = memory.take(thresholds.size(), most_forks_, most_leaves_);
  (walk ? walk : quickest)(tables, scratch, columns.data(), same.data(), rows, sums);
}

}  // namespace tessera
