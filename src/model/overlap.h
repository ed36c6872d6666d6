// Two parts of the work that run beside each other.
#pragma once

#include <algorithm>
#include <cmath>

namespace tessera {

// The norm of two times >= 0 with this exponent: their sum at 1, the longer one where it grows.
inline double overlapped(double x, double y, double exponent) {
  const double longer = std::max(x, y), shorter = std::min(x, y);
  if (longer <= 0) return 0;
  return longer * std::pow(1 + std::pow(shorter / longer, exponent), 1 / exponent);
}

}  // namespace tessera
