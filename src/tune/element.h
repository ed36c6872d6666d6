// Elements of any type as doubles: the one place where the host converts them.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/dtype.h"

namespace tessera {

// The value of type `t` nearest to v: round to nearest even. f16, bf16 and f32 overflow to infinity; the
// 8-bit floats and the integers saturate. NaN stays NaN, and is 0 in an integer type.
double round_to(DType t, double v);

// What rounding alone may put between v and round_to(t, v), saturation aside: half of the distance between
// the values of `t` around v.
double half_spacing(DType t, double v);

double load_element(DType t, const void* base, int64_t index);
// Rounds as round_to does.
void store_element(DType t, void* base, int64_t index, double v);

// out[i] = base[first + i * step], i < count.
void load_elements(DType t, const void* base, int64_t first, int64_t step, int64_t count, double* out);

}  // namespace tessera
