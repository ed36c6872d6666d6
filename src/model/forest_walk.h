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

// Answers are numbers of masks. What all rows answer alike is one of two that many tests share: no row is
// less and all go right, or all are and go left.
constexpr uint32_t kRight = 0, kLeft = 1;
static_assert(kForestSharedMasks == 2);

// Where rows arrive: at a node of one of the trees that are walked side by side. `place` says where in
// ForestScratch::rows they are.
struct Arrival {
  static constexpr int kPlace = 32, kTree = 59;
  uint64_t word;

  static uint64_t of(uint64_t tree, uint32_t node) { return tree << kTree | node; }
  static uint64_t moved(uint64_t word, uint64_t place) {
    constexpr uint64_t kPlaces = (uint64_t{1} << kTree) - (uint64_t{1} << kPlace);
    return (word & ~kPlaces) | place << kPlace;
  }
  uint32_t node() const { return static_cast<uint32_t>(word); }
  uint32_t place() const { return static_cast<uint32_t>(word >> kPlace & ((1u << (kTree - kPlace)) - 1)); }
  uint64_t tree() const { return word >> kTree; }
};
static_assert(kForestSideBySide <= 32);

// Masks of W words.
template <class Isa, size_t W>
class Walk {
 public:
  Walk(const ForestTables& f, const ForestScratch& s, size_t rows) : f_(f), s_(s), rows_(rows) {
    for (size_t w = 0; w < W; ++w) {
      const size_t left = rows > w * 64 ? rows - w * 64 : 0;
      s.masks[kRight * W + w] = 0;
      s.masks[kLeft * W + w] = s.rows[w] = left >= 64 ? ~uint64_t{0} : (uint64_t{1} << left) - 1;
    }
  }

  void answer(const float* const* columns, const uint8_t* same) {
    uint16_t* answers = s_.answers;
    uint32_t masks = kForestSharedMasks, parting = 0;
    for (uint32_t feature = 0; feature < f_.features; ++feature) {
      const float* const thresholds = f_.thresholds + f_.first_test[feature];
      const uint32_t tests = f_.first_test[feature + 1] - f_.first_test[feature];
      if (tests == 0) continue;
      const float* const column = columns[feature];
      float least = column[0], most = least;
      if (!same[feature]) Isa::range(column, rows_, least, most);
      const uint32_t none = Isa::not_above(thresholds, tests, least),
                     some = Isa::not_above(thresholds, tests, most) - none;
      for (uint32_t t = 0; t < none; ++t) *answers++ = kRight;
      masks += Isa::template less<W>(column, thresholds + none, some, s_.masks + size_t{masks} * W, masks,
                                     answers);
      answers += some;
      parting += some;
      for (uint32_t t = none + some; t < tests; ++t) *answers++ = kLeft;
    }
    few_ = uint64_t{parting} * 4 < f_.first_test[f_.features];
  }

  void add(float* sums) {
    for (uint32_t first = 0; first < f_.count; first += kForestSideBySide) {
      const uint32_t count =
          f_.count - first < kForestSideBySide ? f_.count - first : uint32_t{kForestSideBySide};
      const uint32_t reached =
          few_ ? descend<true>(f_.roots + first, count) : descend<false>(f_.roots + first, count);
      uint32_t ends[kForestSideBySide + 1];
      order(count, reached, ends);
      Isa::template add<W>(s_, ends, count, rows_, sums);
    }
  }

 private:
  // Rows go from fork to fork, first come first served, until all are at leaves; returns how many leaves.
  // Forks of several trees alternate, so that they do not wait for one another. Where there are no rows,
  // nothing is handed on, and where all go the same way, they stay where they are; no branch decides on
  // that, or on what is a leaf, since nothing predicts it. `pass`: forks that need no looking at rows are
  // passed quickly, which pays where most are such.
  template <bool pass>
  uint32_t descend(const uint32_t* roots, uint32_t count) {
    const uint16_t* const answers = s_.answers;
    const uint64_t* const masks = s_.masks;
    uint64_t* const rows_at = s_.rows;
    const uint32_t* const nodes = f_.nodes;
    uint64_t* const leaves = s_.arrivals + s_.most_forks;
    uint64_t *next = s_.arrivals, *next_leaf = leaves;
    uint64_t place = 1;  // the first is of all rows
    const auto hand_on = [&](uint64_t arrival, uint64_t leaf, uint64_t any) {
      __builtin_prefetch(nodes + static_cast<uint32_t>(arrival));
      *(leaf ? next_leaf : next) = arrival;
      next += any & ~leaf;
      next_leaf += any & leaf;
    };
    for (uint32_t t = 0; t < count; ++t) {
      const uint32_t root = roots[t];
      hand_on(Arrival::of(t, root & ~ForestTables::kLeafRoot), root / ForestTables::kLeafRoot, 1);
    }
    for (const uint64_t* at = s_.arrivals; at != next; ++at) {
      const uint64_t from = *at;
      const uint32_t fork = nodes[static_cast<uint32_t>(from)];
      const uint32_t answer = answers[ForestTables::test(fork)];
      if (pass && answer < kForestSharedMasks) {
        hand_on(from + (answer == kLeft ? 1 : ForestTables::right(fork)),
                fork >> (ForestTables::kLeftLeaf + (answer == kLeft ? 0 : 1)) & 1, 1);
        continue;
      }
      const auto less = Isa::template load<W>(masks + size_t{answer} * W);
      const auto rows = Isa::template load<W>(rows_at + size_t{Arrival{from}.place()} * W);
      const auto left = Isa::both(rows, less), right = Isa::without(rows, less);
      const uint64_t lefts = Isa::any(left), rights = Isa::any(right);
      // Where there are none, the next ones take the place.
      Isa::store(rows_at + place * W, left);
      Isa::store(rows_at + (place + lefts) * W, right);
      const uint64_t to = Arrival::moved(from, place);
      hand_on(to + 1, ForestTables::left_is_leaf(fork), lefts);
      hand_on(to + (lefts << Arrival::kPlace) + ForestTables::right(fork), ForestTables::right_is_leaf(fork),
              rights);
      place += lefts + rights;
    }
    return static_cast<uint32_t>(next_leaf - leaves);
  }

  // Leaves that rows arrived at in the order of their trees, in which sums are added up; those of tree t end
  // at ends[t].
  void order(uint32_t count, uint32_t reached, uint32_t* ends) {
    for (uint32_t t = 0; t <= kForestSideBySide; ++t) ends[t] = 0;
    const uint64_t* const arrivals = s_.arrivals + s_.most_forks;
    for (uint32_t i = 0; i < reached; ++i) ++ends[Arrival{arrivals[i]}.tree() + 1];
    for (uint32_t t = 1; t < count; ++t) ends[t] += ends[t - 1];
    for (uint32_t i = 0; i < reached; ++i) {
      const Arrival leaf{arrivals[i]};
      const uint32_t at = ends[leaf.tree()]++;
      s_.order[at] = leaf.place();
      __builtin_memcpy(s_.values + at, f_.nodes + leaf.node(), sizeof(float));
    }
  }

  const ForestTables& f_;
  const ForestScratch& s_;
  size_t rows_;
  bool few_ = false;  // tests that rows answer differently
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
