#include "tune/measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/interrupt.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

double us_of(const Repeated& work, int repeats) {
  const auto start = Clock::now();
  work(repeats);
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

// Reads and writes more than the last-level caches hold.
void sweep_caches() {
  static std::vector<char> memory(size_t{256} << 20);
  for (size_t i = 0; i < memory.size(); i += 64) ++memory[i];
}

constexpr double kMaxRepeats = 1 << 22;

// Repetitions that take about `batch_us`: more and more of them until the clock is not the error.
int calibrate(const Repeated& work, double batch_us) {
  double repeats = 1;
  for (;;) {
    const double us = us_of(work, static_cast<int>(repeats));
    if (us >= batch_us / 2 || repeats >= kMaxRepeats) {
      return static_cast<int>(std::clamp(std::ceil(repeats * batch_us / us), 1.0, kMaxRepeats));
    }
    repeats *= std::clamp(batch_us / std::max(us, 1e-3), 2.0, 100.0);
    repeats = std::min(std::floor(repeats), kMaxRepeats);
  }
}

}  // namespace

std::vector<Timing> measure(std::span<const Repeated> candidates, const MeasureOptions& o) {
  const size_t count = candidates.size();
  std::vector<Timing> out(count);
  if (count == 0) return out;
  std::vector<int> repeats(count, 1);
  for (size_t i = 0; i < count; ++i) {
    throw_if_interrupted();
    candidates[i](1);  // first touches and lazy set-up
    if (!o.cold) repeats[i] = calibrate(candidates[i], o.batch_us);
  }
  std::vector<std::vector<double>> samples(count);
  const auto begin = Clock::now();
  const auto spent_ms = [&] {
    return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  };
  const double budget_ms = o.budget_ms * static_cast<double>(count);
  for (int round = 0; round < o.min_rounds || (round < o.max_rounds && spent_ms() < budget_ms); ++round) {
    for (size_t turn = 0; turn < count; ++turn) {
      throw_if_interrupted();
      const size_t i = (turn + static_cast<size_t>(round)) % count;
      if (o.cold) sweep_caches();
      samples[i].push_back(us_of(candidates[i], repeats[i]) / repeats[i]);
    }
  }
  for (size_t i = 0; i < count; ++i) {
    auto& s = samples[i];
    std::sort(s.begin(), s.end());
    out[i] = {s[s.size() / 2], s[0], static_cast<int>(s.size())};
  }
  return out;
}

}  // namespace tessera
