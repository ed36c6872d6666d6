// What the examples time by.
#pragma once

#include <algorithm>
#include <chrono>

#include "tessera/kernel.h"

namespace example {

// Microseconds of the fastest of `repeats` runs.
inline double best_us(const tessera::Kernel& kernel, const tessera::Buffers& buffers, int repeats = 10) {
  using Clock = std::chrono::steady_clock;
  double best = 1e30;
  for (int i = 0; i < repeats; ++i) {
    const auto start = Clock::now();
    kernel.run(buffers);
    best = std::min(best, std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  }
  return best;
}

}  // namespace example
