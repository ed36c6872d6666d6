// How cpu_packed meets A where its rows are contiguous.
#pragma once

#include "core/arch_spec.h"
#include "core/gemm_view.h"
#include "tessera/kernel_config.h"

namespace tessera {

// Of k, read of a panel of B in place before the next one: its rows lie on pages of their own, and these many
// pages are at hand.
inline constexpr int64_t kInPlaceDepth = 128;

// Whether a step of k holds the words of all rows of A, one after another, instead of those of one row tile:
// whole vectors are copied. More rows than that would lie on too many pages.
inline bool packs_all_rows(const GemmView& view) {
  constexpr int64_t kMostRows = 128;
  return !view.a.row_major() && view.m <= kMostRows;
}

// Whether the kernel of a config that asks for a copy of A reads A where it lies as well, though its words
// are not the instruction's: signed bytes, which are moved up by 128 as they are read, or k past whole words,
// whose elements come from a copy of their own.
bool meets_odd_words(const GemmView& view, const KernelConfig& config, const ArchSpec& arch);
// Whether it does so for this product: so few columns use the words that a copy is not worth while.
bool odd_words_in_place(const GemmView& view, const KernelConfig& config, const ArchSpec& arch);

// Columns past whole vectors that are dot products along k beside the tiles: because the config asks for it
// (edge_dot, for f32), or because a word holds several elements of k and they are worth it.
int64_t columns_apart(const GemmView& view, const KernelConfig& config, const ArchSpec& arch);
// Whether these are: their words lie in both operands as instructions take them.
bool words_at_edge(const GemmView& view, const KernelConfig& config, const ArchSpec& arch);
// Vectors of the last panel's columns where the last one is at least half empty, on a processor that issues
// half a vector in half the time; else 0. Of families that multiply as cpu_packed does.
int64_t half_edge(const GemmView& view, const KernelConfig& config, const ArchSpec& arch);

}  // namespace tessera
