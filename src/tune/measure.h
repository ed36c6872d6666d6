// Timing of several candidates against each other.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace tessera {

// Does its work `repeats` times.
using Repeated = std::function<void(int repeats)>;
// The same, and says how many microseconds that took.
using SelfTimed = std::function<double(int repeats)>;

struct MeasureOptions {
  double batch_us = 1000;  // a sample repeats its work until it takes about this long
  double budget_ms = 30;   // per candidate
  int min_rounds = 5, max_rounds = 200;
  bool cold = false;  // caches are swept before every sample, which then is one repetition
  // Rounds end early once every candidate's median is known to within this share of itself; 0: never.
  double precision = 0;
  // After min_rounds a candidate whose best sample is so many times the best of all gets no further ones, and
  // before that one at twice so many of which a single sample took longer than budget_ms; 0: all get as many.
  double give_up_at = 0;
  // A candidate of other work: it is timed in every round, and the others are not compared to it.
  size_t apart = SIZE_MAX;
  std::function<void(size_t candidate)> before{};  // called before each candidate's warm-up and samples
};

struct Timing {
  double median_us = 0, best_us = 0;  // of one repetition
  int samples = 0;
  std::vector<double> all;  // the samples in the order they were taken
};

double median(std::vector<double> values);  // of at least one; the upper of two in the middle

// Rounds over all candidates, each round starting with another one, so that drift of the machine hits all
// alike.
std::vector<Timing> measure(std::span<const Repeated> candidates, const MeasureOptions& options = {});
std::vector<Timing> measure_self_timed(std::span<const SelfTimed> candidates, const MeasureOptions& options);

}  // namespace tessera
