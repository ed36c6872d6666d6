#include "backend/cpu/pack.h"

#include <cstring>

#include "backend/cpu/element.h"
#include "core/tile_math.h"

namespace tessera {
namespace {

uint32_t float_to_bits(float f) {
  uint32_t bits;
  std::memcpy(&bits, &f, 4);
  return bits;
}

// The bits of one element in the compute type.
uint32_t convert(const char* p, const PanelSource& s) {
  if (s.group == 1) return float_to_bits(read_float(p, s.memory));
  if (info(s.memory).is_float)
    return float_to_bits(read_float(p, s.memory)) >> 16;  // exact: bf16 and f8 only
  const uint8_t byte = static_cast<uint8_t>(*p);
  if (s.group == 4) return byte;
  const int value = s.memory == DType::u8 ? int{byte} : int{static_cast<int8_t>(byte)};
  return static_cast<uint32_t>(value) & 0xffffu;  // i16
}

}  // namespace

size_t panel_bytes(const PanelShape& shape, int group) {
  const int64_t steps = ceil_div(shape.depth, group) + (shape.correction ? 1 : 0);
  return static_cast<size_t>(steps * shape.width * 4);
}

void pack_panel_plain(const PanelSource& s, const PanelShape& shape, void* panel) {
  const int group = s.group, bits = 32 / group;
  const int element = bytes_of(s.memory);
  const int64_t steps = ceil_div(shape.depth, group);
  auto* words = static_cast<uint32_t*>(panel);
  auto* sums = reinterpret_cast<int32_t*>(words + steps * shape.width);
  if (shape.correction) std::memset(sums, 0, static_cast<size_t>(shape.width) * 4);
  for (int64_t step = 0; step < steps; ++step) {
    for (int lane = 0; lane < shape.width; ++lane) {
      uint32_t word = 0;
      for (int j = 0; j < group && lane < shape.live && step * group + j < shape.depth; ++j) {
        const char* p = s.data + ((step * group + j) * s.k_stride + lane * s.lane_stride) * element;
        word |= convert(p, s) << (bits * j);
        if (shape.correction) sums[lane] -= 128 * int32_t{static_cast<int8_t>(*p)};
      }
      words[step * shape.width + lane] = s.flip_sign ? word ^ 0x80808080u : word;
    }
  }
}

void pack_rows_plain(const PanelSource& s, int64_t depth, int64_t rows, int64_t row_bytes, void* out) {
  for (int64_t row = 0; row < rows; ++row) {
    PanelSource one = s;
    one.data += row * s.lane_stride * bytes_of(s.memory);
    pack_panel_plain(one, {depth, 1, 1, false}, static_cast<char*>(out) + row * row_bytes);
  }
}

PackPanel panel_packer(int vector_bits) {
  if (vector_bits == 512) return pack_panel_avx512;
  if (vector_bits == 256) return pack_panel_avx2;
  return pack_panel_plain;
}

PackRows row_packer(int vector_bits) {
  if (vector_bits == 512) return pack_rows_avx512;
  if (vector_bits == 256) return pack_rows_avx2;
  return pack_rows_plain;
}

PackScattered scattered_packer(int vector_bits) {
  return vector_bits == 512 ? pack_scattered_avx512 : nullptr;
}

}  // namespace tessera
