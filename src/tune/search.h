// Searching the legal configurations of one problem by measuring some of them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tune/database.h"
#include "tune/sweep_run.h"

namespace tessera {

struct SearchOptions {
  std::string device = "cpu";
  int threads = 0;
  std::string model;                   // as DispatcherOptions::model
  std::string strategy = "evolution";  // one of search_strategies()
  size_t budget = 32;  // configurations that are measured, at most; the model's first among them
  uint64_t seed = 1;
  SweepOptions sweep;  // its cache_dir keeps the kernels; "" = one that goes with the search
};

struct SearchStrategy {
  std::string_view name, summary;
};
// model      the best predicted
// random     evenly drawn
// evolution  in rounds: what is between and beside the fastest so far
std::span<const SearchStrategy> search_strategies();

struct SearchResult {
  size_t legal = 0;                   // configurations to choose from
  std::vector<Measurement> measured;  // each once
  KernelConfig best, model;           // the fastest, and what the model chooses
  double best_us = 0, model_us = 0;   // timed in turn once more at the end: no luck of the first time is left
  double predicted_us = 0;            // of the model's choice
  bool stopped = false;               // by Ctrl-C or the sweep's budget: not all of the budget was used
};

// Error(unsupported) when nothing is legal; Error(bad_input) for an unknown strategy or a budget of 0;
// Error(device) when nothing that was measured ran right.
SearchResult search(const Problem& problem, const SearchOptions& options,
                    const std::function<void(const SweepProgress&)>& progress = {});

}  // namespace tessera
