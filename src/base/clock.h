// Elapsed wall time.
#pragma once

#include <chrono>

namespace tessera {

using Clock = std::chrono::steady_clock;

inline double us_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}
inline double ms_since(Clock::time_point start) { return us_since(start) / 1e3; }
inline double seconds_since(Clock::time_point start) { return us_since(start) / 1e6; }

// Of wall time: a thread that had less of a core than this was disturbed, and so was what it timed.
inline constexpr double kQuietShare = 0.9;

}  // namespace tessera
