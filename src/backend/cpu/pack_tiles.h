// Copying the left operand of AMX tiles: [step][16 rows][64 bytes of k], zeros behind its rows and its k.
#pragma once

#include <cstdint>

#include "backend/cpu/pack.h"

namespace tessera {

// `source`: lanes are rows, `group` 2 (bf16) or 4 (8-bit). Writes ceil(depth * 4 / group / 64) steps for 16
// rows, of which `live` are read. Needs AVX-512.
void pack_tile_rows(const PanelSource& source, int64_t depth, int live, void* out);

// How many rows that are neighbours in memory `pack_neighbour_rows` copies at once: those of a cache line, in
// bf16 and 8 bits; 0: none.
int neighbour_rows(const PanelSource& source);
// The same of so many rows, all of which are read; those of each 16 lie `tile_bytes` behind the ones before.
void pack_neighbour_rows(const PanelSource& source, int64_t depth, void* out, int64_t tile_bytes);

// Both operands of a sum over pixels, bf16. `offset` bytes from each of `pixels` lie `live` neighbouring
// channels, 16 at most; the others of 16 become zero.
//
// The left one: a tile [16 channels][32 pixels].
void turn_pixels(const char* const* pixels, int64_t offset, int live, void* out);
// The right one: words [pair of pixels][16 channels][2].
void pair_pixels(const char* const* pixels, int64_t pairs, int64_t offset, int live, void* out);

}  // namespace tessera
