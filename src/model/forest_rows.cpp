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
  static void less(const float* column, const float* thresholds, uint32_t count, uint64_t* masks) {
    for (uint32_t t = 0; t < count; ++t) {
      for (size_t w = 0; w < W; ++w) {
        uint64_t word = 0;
        for (size_t i = 0; i < 64; ++i) word |= uint64_t{column[w * 64 + i] < thresholds[t]} << i;
        masks[t * W + w] = word;
      }
    }
  }

  template <size_t W>
  static void add(const float* values, const uint32_t* order, uint32_t count, const uint64_t* masks, size_t,
                  float* sums) {
    for (uint32_t i = 0; i < count; ++i) {
      for (size_t w = 0; w < W; ++w) {
        for (uint64_t left = masks[order[i] * W + w]; left; left &= left - 1)
          sums[w * 64 + static_cast<size_t>(std::countr_zero(left))] += values[i];
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
  std::vector<uint32_t> places, order;
  std::vector<float> values;
  std::vector<Mask> masks, place_rows;

  ForestScratch take(size_t tests, size_t forks, size_t leaves) {
    const auto grow = [](auto& list, size_t size) {
      if (list.size() < size) list.resize(size);
      return list.data();
    };
    // One place past the last is written before it is known whether there is anything to put there.
    const size_t all = forks + leaves + 2;
    return {grow(answers, tests),
            grow(masks, tests + kForestSharedMasks)->words,
            grow(places, all),
            grow(place_rows, all)->words,
            static_cast<uint32_t>(forks + 1),
            grow(order, leaves),
            grow(values, leaves)};
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
  if (thresholds_.size() + kForestSharedMasks > std::numeric_limits<uint16_t>::max() + size_t{1})
    throw Error(ErrorCode::unsupported, "regression trees with more than 65534 different tests");
  const auto test_of = [&](const ForestNode& n) {
    const auto begin = thresholds_.begin() + first_test_[n.feature],
               end = thresholds_.begin() + first_test_[n.feature + size_t{1}];
    return static_cast<uint32_t>(std::lower_bound(begin, end, n.value) - thresholds_.begin());
  };
  std::vector<uint16_t> child;  // of a tree, each node as its parent names it
  for (size_t t = 0; t < forest.trees(); ++t) {
    const size_t root = forest.roots()[t],
                 end = t + 1 < forest.trees() ? forest.roots()[t + 1] : nodes.size();
    const auto tree = nodes.subspan(root, end - root);
    uint32_t forks = 0, leaves = 0;
    child.clear();
    for (const ForestNode& n : tree) {
      child.push_back(
          static_cast<uint16_t>(n.feature == ForestNode::kLeaf ? ForestTables::kLeaf | leaves++ : forks++));
    }
    trees_.push_back(
        {static_cast<uint32_t>(forks_.size()), static_cast<uint32_t>(leaves_.size()), child.front()});
    for (size_t i = 0; i < tree.size(); ++i) {
      if (tree[i].feature == ForestNode::kLeaf) {
        leaves_.push_back(tree[i].value);
      } else {
        forks_.push_back({test_of(tree[i]), child[i + 1], child[tree[i].right]});
      }
    }
    most_forks_ = std::max<size_t>(most_forks_, forks);
    most_leaves_ = std::max<size_t>(most_leaves_, leaves);
  }
}

void ForestRows::add(std::span<const float* const> columns, std::span<const uint8_t> same, size_t rows,
                     float* sums, WalkRows* walk) const {
  static WalkRows* const quickest =
      has_avx512_rows() && avx512_walk_rows() ? avx512_walk_rows() : plain_walk_rows();
  thread_local Memory memory;
  const ForestTables tables = {trees_.data(),
                               forks_.data(),
                               leaves_.data(),
                               thresholds_.data(),
                               first_test_.data(),
                               static_cast<uint32_t>(trees_.size()),
                               static_cast<uint32_t>(first_test_.size() - 1)};
  const ForestScratch scratch =
      memory.take(thresholds_.size(), most_forks_ * kForestSideBySide, most_leaves_ * kForestSideBySide);
  (walk ? walk : quickest)(tables, scratch, columns.data(), same.data(), rows, sums);
}

}  // namespace tessera
