// How channels of groups share a vector. The library's own arithmetic asks too.
#pragma once

namespace tsr {

// Channels of the operand read that `lanes` neighbouring channels of the operand walked need, counted from
// the first one's group, wherever they begin (a multiple of `lanes`). inner and outer: channels per group of
// the operand read and of the one walked.
constexpr int groups_reach(int inner, int outer, int lanes) {
  const int groups = outer % lanes == 0 ? 1 : lanes % outer == 0 ? lanes / outer : (lanes - 2) / outer + 2;
  return groups * inner;
}

// Vectors of the operand read, of elements as wide as lanes, that may feed one of the operand walked.
constexpr int groups_vectors(int lanes, bool dot) { return lanes == 16 && !dot ? 4 : 2; }

// Lanes of a vector that hold channels: all of one group, or as many as groups_vectors() can feed; 0: none.
constexpr int groups_lanes(int inner, int outer, int lanes, bool dot) {
  if ((inner == 1 && outer == 1) || outer % lanes == 0) return lanes;
  int used = lanes;
  while (used > 0 && groups_reach(inner, outer, used) > groups_vectors(lanes, dot) * lanes) --used;
  return used;
}

// How many steps along the inner channels of the operand read lie side by side in a vector, whose lanes are
// channels of one group of the operand walked: a broadcast of so many elements feeds all of them, with
// nothing to choose, and their sums are added up at last. 1: none do.
constexpr int groups_folds(int steps, int outer, int lanes) {
  return steps > 1 && steps % 2 == 0 && outer * 2 == lanes ? 2 : 1;
}

// Vectors that the channels of a group of the operand walked take by themselves, the last one not full, so
// that a broadcast feeds all of them; 0: groups share vectors. That pays where lanes would choose among
// several steps and few of them stay empty; `vectors` of a chunk have to hold whole groups.
constexpr int groups_apart(int steps, int outer, int lanes, int vectors) {
  const int each = (outer + lanes - 1) / lanes;
  return steps > 1 && outer % lanes != 0 && vectors >= each && vectors % each == 0 &&
                 4 * outer >= 3 * each * lanes
             ? each
             : 0;
}

// What so many elements, each as wide as a lane once it is read, take of vectors in memory: bf16 is chosen
// from words of 32 where a processor has them.
constexpr int groups_loads(int reach, int lanes, bool words) {
  const int vector = words ? 2 * lanes : lanes;
  return (reach + vector - 1) / vector;
}

}  // namespace tsr
