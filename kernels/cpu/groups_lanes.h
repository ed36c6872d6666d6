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

// Lanes of a vector that hold channels: as many as two vectors of the operand read can feed; 0: none.
constexpr int groups_lanes(int inner, int outer, int lanes) {
  if (inner == 1 && outer == 1) return lanes;
  int used = lanes;
  while (used > 0 && groups_reach(inner, outer, used) > 2 * lanes) --used;
  return used;
}

}  // namespace tsr
