#include "model/forest_rows.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "model/forest_walk.h"
#include "tessera/error.h"

namespace tessera {
namespace {

// For any processor.
struct Plain {
  template <size_t W>
  struct Mask {
    uint64_t words[W];
  };

  template <size_t W>
  static Mask<W> load(const uint64_t* from) {
    Mask<W> m;
    for (size_t w = 0; w < W; ++w) m.words[w] = from[w];
    return m;
  }
  template <size_t W>
  static void store(uint64_t* to, const Mask<W>& m) {
    for (size_t w = 0; w < W; ++w) to[w] = m.words[w];
  }
  template <size_t W>
  static Mask<W> both(Mask<W> a, const Mask<W>& b) {
    for (size_t w = 0; w < W; ++w) a.words[w] &= b.words[w];
    return a;
  }
  template <size_t W>
  static Mask<W> without(Mask<W> a, const Mask<W>& b) {
    for (size_t w = 0; w < W; ++w) a.words[w] &= ~b.words[w];
    return a;
  }
  template <size_t W>
  static uint64_t any(const Mask<W>& a) {
    uint64_t all = 0;
    for (size_t w = 0; w < W; ++w) all |= a.words[w];
    return all != 0;
  }

  static void range(const float* column, size_t rows, float& least, float& most) {
    for (size_t r = 0; r < rows; ++r) {
      least = column[r] < least ? column[r] : least;
      most = column[r] > most ? column[r] : most;
    }
  }
  static uint32_t not_above(const float* sorted, uint32_t count, float x) {
    return static_cast<uint32_t>(std::upper_bound(sorted, sorted + count, x) - sorted);
  }

  template <size_t W>
  static uint32_t less(const float* column, const float* thresholds, uint32_t count, uint64_t* masks,
                       uint32_t first, uint16_t* answers) {
    for (uint32_t t = 0; t < count; ++t) {
      answers[t] = static_cast<uint16_t>(first + t);
      for (size_t w = 0; w < W; ++w) {
        uint64_t word = 0;
        for (size_t i = 0; i < 64; ++i) word |= uint64_t{column[w * 64 + i] < thresholds[t]} << i;
        masks[t * W + w] = word;
      }
    }
    return count;
  }

  template <size_t W>
  static void add(const ForestScratch& s, const uint32_t* ends, uint32_t count, size_t, float* sums) {
    for (uint32_t i = 0; i < ends[count - 1]; ++i) {
      for (size_t w = 0; w < W; ++w) {
        for (uint64_t left = s.rows[s.order[i] * W + w]; left; left &= left - 1)
          sums[w * 64 + static_cast<size_t>(std::countr_zero(left))] += s.values[i];
      }
    }
  }
};

// A thread's, grown on its first call and then kept.
struct Memory {
  struct alignas(64) Mask {
    uint64_t words[Forest::kRows / 64];
  };
  std::vector<uint16_t> answers;
  std::vector<uint64_t> arrivals;
  std::vector<uint32_t> order;
  std::vector<float> values;
  std::vector<Mask> masks, rows;

  // Of so many trees together.
  ForestScratch take(size_t tests, size_t most_forks, size_t most_leaves) {
    const auto grow = [](auto& list, size_t size) {
      if (list.size() < size) list.resize(size);
      return list.data();
    };
    // One past the last is written before it is known whether there is anything to put there.
    const size_t all = most_forks + 1;
    return {grow(answers, tests),
            grow(masks, tests + kForestSharedMasks)->words,
            grow(arrivals, all + most_leaves + 1),
            static_cast<uint32_t>(all),
            grow(rows, 1 + 2 * all)->words,
            grow(order, most_leaves),
            grow(values, most_leaves)};
  }
};

}  // namespace

WalkRows* plain_walk_rows() { return walk_rows<Plain>; }

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
    const size_t root = forest.roots()[t],
                 end = t + 1 < forest.trees() ? forest.roots()[t + 1] : nodes.size();
    const auto tree = nodes.subspan(root, end - root);
    roots_.push_back(static_cast<uint32_t>(root) | (is_leaf(tree[0]) ? ForestTables::kLeafRoot : 0));
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
  const ForestScratch scratch =
      memory.take(thresholds_.size(), most_forks_ * kForestSideBySide, most_leaves_ * kForestSideBySide);
  (walk ? walk : quickest)(tables, scratch, columns.data(), same.data(), rows, sums);
}

}  // namespace tessera
