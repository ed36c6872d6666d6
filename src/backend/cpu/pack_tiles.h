// Copying the left operand of AMX tiles: [step][16 rows][64 bytes of k], zeros behind its rows and its k.
#pragma once

#include <cstdint>

#include "backend/cpu/pack.h"

namespace tessera {

// `source`: lanes are rows, `group` 2 (bf16) or 4 (8-bit). Writes ceil(depth * 4 / group / 64) steps for 16
// rows, of which `live` are read. Needs AVX-512.
void pack_tile_rows(const PanelSource& source, int64_t depth, int live, void* out);

}  // namespace tessera
