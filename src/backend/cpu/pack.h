// Packing an operand into panels of 32-bit words: word (step, lane) holds the k group `step` of row or column
// `lane`.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tessera/dtype.h"

namespace tessera {

struct PanelSource {
  const char* data;  // element (k, lane) at k * k_stride + lane * lane_stride elements
  int64_t k_stride, lane_stride;
  DType memory;
  int group;       // k elements per word: 1 as f32; 2 as bf16, or i16 of integers; 4 as 8-bit integers
  bool flip_sign;  // i8 -> u8: add 128 (operand A of vpdpbusd), to what fills up the last group too
};

struct PanelShape {
  int64_t depth;    // k elements; the last group is filled up with zeros
  int live;         // lanes to read; the next ones up to a multiple of 16 become zero, more are undefined
  int width;        // lanes of the panel
  bool correction;  // append width i32: -128 * sum over k of each lane (operand B of vpdpbusd with flipped A)
  bool stream = false;  // read much later: need not come into the caches
  bool far = false;     // the source is more than the caches keep
  bool more = false;    // the rows of k that follow are packed soon
};

// Bytes of a panel, a multiple of 4 * width.
size_t panel_bytes(const PanelShape& shape, int group);

using PackPanel = void (*)(const PanelSource&, const PanelShape&, void* panel);

// Rows (lanes) whose k is contiguous (k_stride 1), each to a row of words of its own, `row_bytes` apart.
using PackRows = void (*)(const PanelSource&, int64_t depth, int64_t rows, int64_t row_bytes, void* out);

// Lanes side by side in memory, the elements of k each in a row of its own: word (step, lane) holds element
// `lane` of rows[step * group], ..., which are words as they lie. `live` lanes are read; up to `written`,
// less than 16 more, become zero.
using PackScattered = void (*)(const char* const* rows, int64_t steps, int group, int live, int written,
                               int64_t width, void* panel);

// The fastest packers for vectors of this width: 512 (AVX-512), 256 (AVX2), else plain C++.
PackPanel panel_packer(int vector_bits);
PackRows row_packer(int vector_bits);
PackScattered scattered_packer(int vector_bits);  // of groups of 1 and 2; null: there is none

void pack_panel_plain(const PanelSource&, const PanelShape&, void* panel);
void pack_panel_avx2(const PanelSource&, const PanelShape&, void* panel);
void pack_panel_avx512(const PanelSource&, const PanelShape&, void* panel);
void pack_rows_plain(const PanelSource&, int64_t depth, int64_t rows, int64_t row_bytes, void* out);
void pack_rows_avx2(const PanelSource&, int64_t depth, int64_t rows, int64_t row_bytes, void* out);
void pack_scattered_avx512(const char* const* rows, int64_t steps, int group, int live, int written,
                           int64_t width, void* panel);
void pack_rows_avx512(const PanelSource&, int64_t depth, int64_t rows, int64_t row_bytes, void* out);

}  // namespace tessera
