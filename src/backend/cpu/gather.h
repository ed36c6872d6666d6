// Packing operands of convolutions: patches of images, and filters that are walked by taps.
#pragma once

#include <vector>

#include "backend/cpu/pack.h"
#include "core/gemm_view.h"

namespace tessera {

// Rows [row, row + rows) x columns [col, col + cols) of the patches of one group, in the type of memory, rows
// `row_bytes` apart. Elements that meet no coordinate are zero.
struct PatchPiece {
  int64_t row, rows, col, cols;
};
void gather_patches(const Window& w, const char* images, int element_bytes, const PatchPiece& piece,
                    char* out, int64_t row_bytes);

// Where rows [row, row + rows) of taps [col, col + cols) lie, all channels of a tap after one another: row i
// of tap t at table[t * table_rows + i]; `zeros` where they meet no coordinate.
void point_at_patches(const Window& w, const char* images, int element_bytes, const PatchPiece& taps,
                      const char* zeros, const char** table, int64_t table_rows);

// What gather_patches gives as rows of 32-bit words for the instruction: `words` says type, group and sign,
// its data the images.
void pack_patch_rows(PackRows pack, const Window& w, const PanelSource& words, const PatchPiece& piece,
                     int64_t row_bytes, char* out);

// The same as a panel with k down the rows of the patches: piece.cols are the panel's live lanes. The piece
// starts at a whole k group. `scattered` may be null.
void pack_patch_panel(PackPanel pack, PackScattered scattered, const Window& w, const PanelSource& words,
                      const PatchPiece& piece, int width, char* out);

// A panel of rows [k, k + depth) of an operand whose rows come in blocks, taken in the order of `blocks` (all
// where that is empty): words.data is row 0 of block 0 at the panel's first lane.
void pack_block_panel(PackPanel pack, const Operand& o, const std::vector<int64_t>& blocks,
                      const PanelSource& words, int64_t k, const PanelShape& shape, char* out);

}  // namespace tessera
