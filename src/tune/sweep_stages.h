// The two stages of a sweep's run, and what they share.
#pragma once

#include <functional>
#include <string>

#include "backend/backend.h"
#include "runtime/kernel_cache.h"
#include "tune/sweep_ledger.h"
#include "tune/sweep_run.h"

namespace tessera {

struct SweepStage {
  const SweepOptions& options;
  Backend& backend;
  KernelCache& cache;
  std::string cache_dir;
  SweepLedger& ledger;
  std::function<bool()> stop;  // by Ctrl-C or the budget
  std::function<void(const SweepProgress&)>
      progress;  // for any thread; one call at a time reaches the caller
};

// Every unit that pairs of the ledger need, once each, those first that most pairs need. What the compiler
// refuses is the outcome of all pairs that need it. Returns the number of units that were compiled.
size_t compile_stage(const SweepStage& stage);

// Measures what is to do in child processes: one at a time, or on each of options.cores one.
void measure_stage(const SweepStage& stage);

}  // namespace tessera
