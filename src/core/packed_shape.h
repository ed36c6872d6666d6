// How cpu_packed meets A where its rows are contiguous.
#pragma once

#include "core/arch_spec.h"
#include "core/gemm_view.h"
#include "tessera/kernel_config.h"

namespace tessera {

// Whether a step of k holds the words of all rows of A, one after another, instead of those of one row tile:
// whole vectors are copied. More rows than that would lie on too many pages.
inline bool packs_all_rows(const GemmView& view) {
  constexpr int64_t kMostRows = 128;
  return !view.a.row_major() && view.m <= kMostRows;
}

// Words of A that are not the instruction's where they lie, and of which the config asks for a copy: read in
// place all the same where so few columns use them that a copy is not worth while.
struct OddWords {
  bool in_place = false;
  bool flips = false;  // in place: signed bytes are moved up by 128 as they are read
  bool rest = false;   // in place: elements of k past whole words come from a copy of their own
};
OddWords odd_words(const GemmView& view, const KernelConfig& config, const ArchSpec& arch);

}  // namespace tessera
