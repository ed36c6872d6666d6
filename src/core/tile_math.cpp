#include "core/tile_math.h"

#include <algorithm>

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

int64_t rows_of(const GemmView& v, const KernelConfig& c) { return c.swap_ab ? v.n : v.m; }
int64_t cols_of(const GemmView& v, const KernelConfig& c) { return c.swap_ab ? v.m : v.n; }

int64_t staged_bytes(const GemmView& v, const KernelConfig& c) {
  const int64_t one = int64_t{c.block_m} * c.block_k * bytes_of(v.a.type) +
                      int64_t{c.block_n} * c.block_k * bytes_of(v.b.type);
  return one * std::max(c.stages, 1);
}

}  // namespace tessera
