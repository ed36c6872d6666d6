// What the costs of tma_ws configurations have in common.
#pragma once

#include <array>
#include <cstdint>

namespace tessera {

// Of a view, operands exchanged or not.
struct TmaFacts {
  int swapped = -1;
  double ragged_a = 1, ragged_b = 1;  // times the loads of rows that do not start on lines of L2
  bool a_along_k = false, b_along_k = false;
  double copy = 0;    // cycles of copying what TMA cannot walk
  double memory = 0;  // cycles of reading and writing everything once
};

// Of a view and a block, its warps and how it is stored. The knobs are in `key`; none of them is less than 0.
struct TmaBlock {
  std::array<int, 6> key{-1};
  int cluster_k = 0;  // of the slices
  int64_t tiles_m = 0, tiles_n = 0, steps = 0;
  double step_rows = 0, math = 0, loaded_m = 0, loaded_n = 0, adding = 0, area = 0;
  double slices = 0, leaving = 0;  // slices of C, and cycles in which they leave
};

}  // namespace tessera
