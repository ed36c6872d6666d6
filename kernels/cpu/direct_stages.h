// What cpu_direct copies before it multiplies. The library's own arithmetic asks too.
#pragma once

namespace tsr {

// Tiles of `rows` rows whose blocks of columns, brought into words of k, serve them all.
constexpr int row_tiles_at_once(int rows) { return rows >= 24 ? 1 : rows >= 8 ? 2 : 4; }

// Whether a row-major B of bytes becomes words in registers, beside the sums of one set of 64 columns.
constexpr bool interleaves_bytes(int vector_bits, bool vnni, bool swapped, bool prepacked, int rows,
                                 int cols) {
  return vector_bits == 512 && vnni && !swapped && !prepacked && cols % 64 == 0 &&
         rows * (cols / 64) * 4 <= 16;
}

}  // namespace tsr
