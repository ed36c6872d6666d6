#include "core/tma_ws_shape.h"

#include <algorithm>

#include "core/tile_math.h"

namespace tessera {

tsr::TmaWsShape tma_ws_shape(const GemmView& v, const KernelConfig& c) {
  const bool swap = c.swap_ab != 0;
  const bool a_along_k = v.a.col_stride == 1, b_along_k = v.b.row_stride == 1;
  return {c.block_m,
          c.block_n,
          c.block_k,
          c.wave_m,
          c.wave_groups,
          c.stages,
          c.cluster_m,
          c.cluster_n,
          c.cluster_k,
          swap,
          swap ? b_along_k : a_along_k,
          swap ? a_along_k : b_along_k,
          bytes_of(v.a.type),
          bytes_of(v.c.type)};
}

int64_t tma_ws_smem(const GemmView& v, const KernelConfig& c) {
  constexpr int64_t kTooMuch = int64_t{1} << 40, kMost = 1 << 28;
  for (int knob : {c.block_m, c.block_n, c.block_k, c.wave_m, c.wave_groups, c.stages, c.cluster_k}) {
    if (knob < 1 || knob > (1 << 16)) return kTooMuch;
  }
  tsr::TmaWsShape shape = tma_ws_shape(v, c);
  shape.wave_m = std::max(shape.wave_m, 4);  // whole warp groups, whatever another rule says of it
  // The shape counts in int: bounds of its two parts first.
  const int64_t rows = int64_t{c.block_m} + c.block_n + 64;
  if (saturated_product({rows, c.block_k, shape.element, c.stages}) > kMost) return kTooMuch;
  if (saturated_product({shape.wave_m, c.wave_groups, 2 * 64 * 256}) > kMost) return kTooMuch;
  return shape.shared_bytes();
}

}  // namespace tessera
