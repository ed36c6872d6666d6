#include "core/packed_columns.h"

#include "core/cache_line.h"
#include "core/family.h"
#include "core/tile_math.h"

namespace tessera {

bool packs_columns(const KernelConfig& c) {
  return c.family_id() == Family::cpu_dot || (c.family_id() == Family::cpu_direct && c.swap_ab);
}

int64_t column_pitch(const GemmView& v) {
  constexpr int64_t kLong = 16 * kCacheLine, kFewSets = 1024;  // bytes
  const int64_t size = bytes_of(v.b.type), bytes = v.k * size;
  if (bytes < kLong) return v.k;
  const int64_t lines = round_up(bytes, kCacheLine);
  return (lines % kFewSets == 0 ? lines + kCacheLine : lines) / size;
}

GemmView with_packed_columns(const GemmView& v) {
  GemmView out = v;
  out.b.row_stride = 1;
  out.b.col_stride = column_pitch(v);
  out.b.group_stride = v.n * out.b.col_stride;
  out.b.extent = out.b.reach(v.groups);
  out.b_prepacked = false;
  return out;
}

}  // namespace tessera
