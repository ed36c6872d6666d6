// Timing of kernels that run on a device: by its clock, and without what launching takes.
#pragma once

#include <memory>
#include <vector>

#include "tessera/kernel.h"

namespace tessera {

// Runs of one kernel, recorded once and replayed: a SelfTimed (tune/measure.h). They go over the sets of
// operands in turn, each as often, so that where these are beyond the device's caches no run finds its
// operands there. Keeps references to what it is made of.
class Replayed {
 public:
  Replayed(const Kernel& kernel, const std::vector<Buffers>& sets) : kernel_(kernel), sets_(sets) {}

  // Microseconds that so many runs take, from as many as fit a recording.
  double operator()(int repeats);

 private:
  const Kernel& kernel_;
  const std::vector<Buffers>& sets_;
  std::unique_ptr<Recording> recording_;
  int count_ = 0;  // runs in it
};

}  // namespace tessera
