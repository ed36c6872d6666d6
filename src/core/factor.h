// Numbers that kernels multiply by, which they hold in f32.
#pragma once

#include <cmath>
#include <limits>

namespace tessera {

inline bool is_finite_f32(double v) {
  return std::abs(v) <= static_cast<double>(std::numeric_limits<float>::max());  // NaN is not
}

}  // namespace tessera
