// Works off a sweep's plan: compiles, then measures in child processes, and writes down what came of each.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "tune/measure.h"
#include "tune/sweep_plan.h"
#include "tune/sweep_record.h"

namespace tessera {

struct SweepOptions {
  std::vector<std::string> worker;  // the program whose stdin takes a job: see sweep_worker.h
  std::string cache_dir;            // of kernels; "" = DIRECTORY/kernels
  int shard = 0, shards = 1;        // problems i with i % shards == shard; of kernels when only compiling
  int jobs = 0;                     // compilers at once; 0 = all cores
  std::vector<int> cores;           // measure on each of them at once, a child pinned to it; empty: one child
  bool ready = false;               // leave alone what is not compiled yet
  bool compile = true, measure = true;
  size_t group = 64;         // configurations of a problem timed interleaved
  size_t batch = 0;          // groups that one child is given; 0: 1, and 16 on a GPU, which is slow to open
  double limit_s = 10;       // for one configuration to give a sign of life
  double budget_s = 0;       // stop starting new work after this; 0 = none
  int repeat_disturbed = 2;  // a group that lacked its core, or whose anchor drifted, is timed so often again
  std::set<SweepOutcome> retry;  // outcomes that are measured again
  MeasureOptions timing{.batch_us = 300,
                        .budget_ms = 10,
                        .min_rounds = 3,
                        .max_rounds = 60,
                        .precision = 0.005,
                        .give_up_at = 1.5};
};

inline bool in_shard(const SweepOptions& o, size_t i) {
  return i % static_cast<size_t>(o.shards) == static_cast<size_t>(o.shard);
}

struct SweepProgress {
  const char* stage;
  size_t done, total;
  std::string what;
};

struct SweepSummary {
  size_t pairs = 0, left = 0;              // of this shard
  size_t by_outcome[kSweepOutcomes] = {};  // of this shard, in the order of SweepOutcome
  size_t compiled = 0;                     // units the compiler was run for
  bool stopped = false;                    // by Ctrl-C or the budget
};

// {pairs, left, and a count for each outcome}
Json to_json(const SweepSummary& s);

// Resumes where the journals end. Every outcome is in the journal of this shard when the call returns; a kill
// at any moment loses at most the groups that are being measured, one on each core. `progress` is called by
// one thread at a time. Error(bad_input) when the plan was made for another architecture than this machine's,
// or a core is not this process's; Error(unsupported) for cores where kernels take more than one, or run
// elsewhere.
SweepSummary run_sweep(const std::string& directory, const SweepOptions& options,
                       const std::function<void(const SweepProgress&)>& progress = {});

// Of all shards, by what the journals say.
SweepSummary sweep_status(const SweepPlan& plan, const SweepResults& results);

}  // namespace tessera
