// Tuning: a small sweep of some problems whose winners become decisions.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tune/database.h"
#include "tune/sweep_run.h"

namespace tessera {

struct TuneOptions {
  std::string device = "cpu";
  int threads = 0;
  SweepCandidates candidates{.strategy = "guided:32", .config = {}};
  SweepOptions sweep;  // its cache_dir keeps the kernels; "" = the sweep's own directory
};

// Measures in a temporary directory, adds the measurements to `database` and decides for each problem that
// has a right result. Problems without a legal configuration are left out, with the reason in *skipped; after
// *stopped the budget ended or the user did, and others may lack a result.
std::vector<TunedDecision> tune(const std::vector<SuiteRow>& problems, const TuneOptions& options,
                                const std::string& database,
                                std::vector<std::pair<std::string, std::string>>* skipped = nullptr,
                                const std::function<void(const SweepProgress&)>& progress = {},
                                bool* stopped = nullptr);

// The problems that are neither decided nor left out: nothing ran right.
std::vector<std::string> undecided(const std::vector<SuiteRow>& problems,
                                   const std::vector<TunedDecision>& decisions,
                                   const std::vector<std::pair<std::string, std::string>>& skipped);

}  // namespace tessera
