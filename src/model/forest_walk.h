// The walk of many rows through a forest, written once for every instruction set. Included by
// forest_rows*.cpp alone, each of which says how it does what `Isa` is asked for; nothing here has external
// linkage.
//
// First every test is answered for all rows at once, by one mask. Then the masks of rows go down the trees,
// and at last the leaves' values are added where they arrived, tree by tree.
#pragma once

#include "model/forest_rows.h"

namespace tessera {
namespace {

// What all rows answer alike is one of two masks that many tests share.
constexpr uint32_t kNone = 0, kAll = 1;

// Masks of W words.
template <class Isa, size_t W>
class Walk {
 public:
  Walk(const ForestTables& f, const ForestScratch& s, size_t rows) : f_(f), s_(s), rows_(rows) {
    for (size_t w = 0; w < W; ++w) {
      const size_t left = rows > w * 64 ? rows - w * 64 : 0;
      s.masks[kNone * W + w] = 0;
      s.masks[kAll * W + w] = left >= 64 ? ~uint64_t{0} : (uint64_t{1} << left) - 1;
    }
  }

  void answer(const float* const* columns, const uint8_t* same) {
    uint16_t* answers = s_.answers;
    uint32_t masks = kForestSharedMasks;
    for (uint32_t feature = 0; feature < f_.features; ++feature) {
      const float* const thresholds = f_.thresholds + f_.first_test[feature];
      const uint32_t tests = f_.first_test[feature + 1] - f_.first_test[feature];
      if (tests == 0) continue;
      const float* const column = columns[feature];
      float least = column[0], most = least;
      if (!same[feature]) Isa::range(column, rows_, least, most);
      const uint32_t none = Isa::not_above(thresholds, tests, least),
                     some = Isa::not_above(thresholds, tests, most) - none;
      for (uint32_t t = 0; t < none; ++t) *answers++ = kNone;
      for (uint32_t t = 0; t < some; ++t) *answers++ = static_cast<uint16_t>(masks + t);
      for (uint32_t t = none + some; t < tests; ++t) *answers++ = kAll;
      Isa::template less<W>(column, thresholds + none, some, s_.masks + masks * W);
      masks += some;
    }
  }

  void add(float* sums) {
    for (uint32_t first = 0; first < f_.count; first += kForestSideBySide) {
      const uint32_t count =
          f_.count - first < kForestSideBySide ? f_.count - first : uint32_t{kForestSideBySide};
      const uint32_t reached = descend(f_.trees + first, count);
      order(f_.trees + first, count, reached);
      Isa::template add<W>(s_.values, s_.order, reached, s_.place_rows + size_t{s_.most_forks} * W, rows_,
                           sums);
    }
  }

 private:
  // Rows go from fork to fork, first come first served, until all are at leaves; returns how many leaves.
  // Forks of several trees alternate, so that they do not wait for one another. Where there are no rows,
  // nothing is handed on; no branch decides on that, or on what is a leaf, since nothing predicts it.
  uint32_t descend(const ForestTree* trees, uint32_t count) {
    uint32_t* __restrict const places = s_.places;
    uint64_t* const place_rows = s_.place_rows;
    const uint64_t* const masks = s_.masks;
    // The place of the next fork and, 32 bits up, of the next leaf.
    uint64_t ends = uint64_t{s_.most_forks} << 32;
    const auto hand_on = [&](uint32_t tree, uint32_t child, auto rows) {
      static_assert(ForestTables::kLeaf == 1 << 15);
      const uint32_t shift = child >> 10 & 32;  // 32 of a leaf
      const auto at = static_cast<uint32_t>(ends >> shift);
      places[at] = tree + child;
      Isa::store(place_rows + size_t{at} * W, rows);
      ends += Isa::any(rows) << shift;
    };
    const auto all = Isa::template load<W>(masks + kAll * W);
    for (uint32_t t = 0; t < count; ++t) hand_on(t << 16, trees[t].root, all);
    for (uint32_t at = 0; at < static_cast<uint32_t>(ends); ++at) {
      const uint32_t place = places[at], tree = place & 0xffff0000;
      const ForestFork& fork = f_.forks[trees[place >> 16].forks + (place & 0xffff)];
      const auto less = Isa::template load<W>(masks + size_t{s_.answers[fork.test]} * W);
      const auto rows = Isa::template load<W>(place_rows + size_t{at} * W);
      const auto left = Isa::both(rows, less), right = Isa::without(rows, less);
      hand_on(tree, fork.left, left);
      hand_on(tree, fork.right, right);
    }
    return static_cast<uint32_t>(ends >> 32) - s_.most_forks;
  }

  // Leaves in the order of their trees, in which sums are added up.
  void order(const ForestTree* trees, uint32_t count, uint32_t reached) {
    uint32_t end[kForestSideBySide + 1] = {};
    const uint32_t* const places = s_.places + s_.most_forks;
    for (uint32_t i = 0; i < reached; ++i) ++end[(places[i] >> 16) + 1];
    for (uint32_t t = 1; t < count; ++t) end[t] += end[t - 1];
    for (uint32_t i = 0; i < reached; ++i) {
      const uint32_t tree = places[i] >> 16, at = end[tree]++;
      s_.order[at] = i;
      s_.values[at] = f_.leaves[trees[tree].leaves + (places[i] & (ForestTables::kLeaf - 1))];
    }
  }

  const ForestTables& f_;
  const ForestScratch& s_;
  size_t rows_;
};

template <class Isa, size_t W>
void walk_of_words(const ForestTables& f, const ForestScratch& s, const float* const* columns,
                   const uint8_t* same, size_t rows, float* sums) {
  Walk<Isa, W> walk(f, s, rows);
  walk.answer(columns, same);
  walk.add(sums);
}

template <class Isa>
void walk_rows(const ForestTables& f, const ForestScratch& s, const float* const* columns,
               const uint8_t* same, size_t rows, float* sums) {
  const auto walk = rows <= 256 ? walk_of_words<Isa, 4> : walk_of_words<Isa, 8>;
  walk(f, s, columns, same, rows, sums);
}

}  // namespace
}  // namespace tessera
