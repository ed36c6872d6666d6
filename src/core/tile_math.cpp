#include "core/tile_math.h"

#include <algorithm>
#include <limits>

namespace tessera {

DType compute_type(DType memory, const Instruction& inst) {
  if (info(memory).is_float) {
    if (inst.m == 1 && inst.k == 1) return DType::f32;
    const bool f8 = bytes_of(memory) == 1;
    return f8 && inst.name != "mfma" && inst.name != "wmma" && inst.name != "wgmma" ? DType::bf16 : memory;
  }
  return memory;
}

int k_group(DType compute) { return 4 / bytes_of(compute); }

int64_t edge_columns(const GemmView& v, const KernelConfig& c) {
  const int64_t past = c.inst_n >= 1 && v.n > c.inst_n ? v.n % c.inst_n : 0;
  return past <= kMostEdgeColumns ? past : 0;
}

int64_t rows_of(const GemmView& v, const KernelConfig& c) { return c.swap_ab ? v.n : v.m; }
int64_t cols_of(const GemmView& v, const KernelConfig& c) { return c.swap_ab ? v.m : v.n; }

constexpr int64_t kTmaAlign = 16;

bool tma_walks(const Operand& o, int64_t groups) {
  const int64_t size = bytes_of(o.type);
  return o.leading() * size % kTmaAlign == 0 && (groups == 1 || o.group_stride * size % kTmaAlign == 0);
}

Operand tma_copy(const Operand& o, bool along_rows, int64_t groups) {
  const int64_t size = bytes_of(o.type), line = (along_rows ? o.rows : o.cols) * size;
  const int64_t stride = round_up(line, line >= 8 * kTmaLine ? kTmaLine : kTmaAlign) / size;
  Operand out = o;
  (along_rows ? out.col_stride : out.row_stride) = stride;
  out.group_stride = saturated_product({along_rows ? o.cols : o.rows, stride});
  out.extent = saturated_product({groups, out.group_stride});
  return out;
}

Operand tma_b(const GemmView& v) {
  return v.b_prepacked ? tma_copy(v.b, v.b.row_stride == 1, v.groups) : v.b;
}

bool tma_stores(const GemmView& v, const KernelConfig& c) {
  return tma_walks(v.c, v.groups) &&
         (c.swap_ab || saturated_product({c.block_n, bytes_of(v.c.type)}) % kTmaAlign == 0);
}

int64_t staged_bytes(const GemmView& v, const KernelConfig& c) {
  const int64_t a = saturated_product({c.block_m, c.block_k, bytes_of(v.a.type)});
  const int64_t b = saturated_product({c.block_n, c.block_k, bytes_of(v.b.type)});
  int64_t one;
  if (__builtin_add_overflow(a, b, &one)) one = std::numeric_limits<int64_t>::max();
  return saturated_product({one, std::max(c.stages, 1)});
}

}  // namespace tessera
