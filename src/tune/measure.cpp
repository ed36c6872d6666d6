#include "tune/measure.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/clock.h"
#include "base/interrupt.h"

namespace tessera {
namespace {

SelfTimed clocked(const Repeated& work) {
  return [&work](int repeats) {
    const auto start = Clock::now();
    work(repeats);
    return us_since(start);
  };
}

// Reads and writes more than the last-level caches hold.
void sweep_caches() {
  static std::mutex mutex;  // of threads that measure at once
  std::lock_guard lock(mutex);
  static std::vector<char> memory(size_t{256} << 20);
  for (size_t i = 0; i < memory.size(); i += 64) ++memory[i];
}

constexpr double kMaxRepeats = 1 << 22;

// Standard error of the median as a share of it, from the median distance to it.
double uncertainty(const std::vector<double>& s) {
  const double m = median(s);
  std::vector<double> off;
  off.reserve(s.size());
  for (double x : s) off.push_back(std::abs(x - m));
  // 1.4826: median distance to standard deviation; 1.2533: standard error of a mean to that of a median.
  return 1.4826 * 1.2533 * median(std::move(off)) / std::sqrt(static_cast<double>(s.size())) / m;
}

double least(const std::vector<double>& s) { return *std::min_element(s.begin(), s.end()); }

// Repetitions that take about `batch_us`: more and more of them until the clock is not the error.
int calibrate(const SelfTimed& work, double batch_us) {
  double repeats = 1;
  for (;;) {
    const double us = work(static_cast<int>(repeats));
    if (us >= batch_us / 2 || repeats >= kMaxRepeats) {
      return static_cast<int>(std::clamp(std::ceil(repeats * batch_us / us), 1.0, kMaxRepeats));
    }
    repeats *= std::clamp(batch_us / std::max(us, 1e-3), 2.0, 100.0);
    repeats = std::min(std::floor(repeats), kMaxRepeats);
  }
}

}  // namespace

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::vector<Timing> measure(std::span<const Repeated> candidates, const MeasureOptions& options) {
  std::vector<SelfTimed> work;
  for (const Repeated& r : candidates) work.push_back(clocked(r));
  return measure_self_timed(work, options);
}

std::vector<Timing> measure_self_timed(std::span<const SelfTimed> candidates, const MeasureOptions& o) {
  const size_t count = candidates.size();
  std::vector<Timing> out(count);
  if (count == 0) return out;
  const auto announce = [&](size_t i) {
    throw_if_interrupted();
    if (o.before) o.before(i);
  };
  std::vector<int> repeats(count, 1);
  for (size_t i = 0; i < count; ++i) {
    announce(i);
    candidates[i](1);  // first touches and lazy set-up
    if (!o.cold) repeats[i] = calibrate(candidates[i], o.batch_us);
  }
  std::vector<std::vector<double>> samples(count);
  std::vector<size_t> live(count);
  std::iota(live.begin(), live.end(), size_t{0});
  const auto begin = Clock::now();
  const double budget_ms = o.budget_ms * static_cast<double>(count);
  for (int round = 0; round < o.min_rounds || (round < o.max_rounds && ms_since(begin) < budget_ms);
       ++round) {
    for (size_t turn = 0; turn < live.size(); ++turn) {
      const size_t i = live[(turn + static_cast<size_t>(round)) % live.size()];
      announce(i);
      if (o.cold) sweep_caches();
      samples[i].push_back(candidates[i](repeats[i]) / repeats[i]);
    }
    const bool enough = round + 1 >= o.min_rounds;
    if (o.give_up_at > 0) {
      double best = HUGE_VAL;
      for (size_t i : live) {
        if (i != o.apart) best = std::min(best, least(samples[i]));
      }
      const double limit = best * o.give_up_at * (enough ? 1 : 2);
      std::erase_if(live, [&](size_t i) {
        return i != o.apart && least(samples[i]) > limit &&
               (enough || samples[i].back() * repeats[i] > o.budget_ms * 1e3);
      });
    }
    if (!enough) continue;
    if (o.precision > 0 && std::all_of(live.begin(), live.end(),
                                       [&](size_t i) { return uncertainty(samples[i]) < o.precision; })) {
      break;
    }
  }
  for (size_t i = 0; i < count; ++i) {
    out[i] = {median(samples[i]), least(samples[i]), static_cast<int>(samples[i].size()),
              std::move(samples[i])};
  }
  return out;
}

}  // namespace tessera
