// How cpu_packed lays out a copy of A whose rows are contiguous.
#pragma once

#include "core/gemm_view.h"

namespace tessera {

// Whether a step of k holds the words of all rows of A, one after another, instead of those of one row tile:
// whole vectors are copied. More rows than that would lie on too many pages.
inline bool packs_all_rows(const GemmView& view) {
  constexpr int64_t kMostRows = 128;
  return !view.a.row_major() && view.m <= kMostRows;
}

}  // namespace tessera
