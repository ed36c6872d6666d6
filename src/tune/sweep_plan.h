// What a sweep measures: problems, and for each the configurations to try.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/arch_spec.h"
#include "tessera/json.h"
#include "tessera/kernel_config.h"
#include "tune/suite.h"

namespace tessera {

struct SweepProblem {
  std::string name;
  Problem problem;
  std::vector<size_t> configs;  // indices into SweepPlan::configs
};

struct SweepPlan {
  std::string device;  // "cpu", "cuda:0"
  int threads = 0;     // of a CPU run
  std::string arch;
  std::vector<KernelConfig> configs;
  std::vector<SweepProblem> problems;

  // Pairs of problem and configuration, in the order they are measured.
  size_t pairs() const;
};

// How configurations are chosen from the legal ones of a problem:
//   all            every one
//   random:N       N of them, evenly
//   stratified:N   N of them, families and tile shapes in turn
//   guided:N       N of what is predicted to take less than five times as long as the best (and of the first
//                  few): two thirds best predicted by the model, the rest evenly
// Draws depend on the seed and the problem's text alone.
struct SweepCandidates {
  std::string strategy = "all";
  std::string config;  // glob over configs' text forms; "" = all
  uint64_t seed = 1;
  std::string model{};  // of guided: as DispatcherOptions::model
  // Where compiling is what takes long: of all kernels that are needed so many, chosen one by one so that
  // problems with few so far get more, a problem's first candidates before its last. 0: all.
  size_t kernels = 0;
};

// A problem that appears twice is planned once. Problems without a legal configuration are left out, with the
// reason in *skipped. Error(bad_input) for an unknown strategy, or when nothing is left.
SweepPlan plan_sweep(const std::vector<SuiteRow>& rows, const std::string& device, int threads,
                     const ArchSpec& arch, const SweepCandidates& candidates,
                     std::vector<std::pair<std::string, std::string>>* skipped = nullptr);

void check_strategy(const std::string& text);  // Error(bad_input)

Json to_json(const SweepPlan& plan);
SweepPlan sweep_plan_from_json(const Json& json);  // Error(bad_input) naming what is wrong

// A plan lives in a directory: plan.json, and the journals of those who work on it.
bool create_sweep_plan(const SweepPlan& plan, const std::string& directory);  // false when there is one
void write_sweep_plan(const SweepPlan& plan, const std::string& directory);   // Error(io) when there is one
SweepPlan read_sweep_plan(const std::string& directory);

// One plan with the problems and configurations of all. Error(bad_input) when devices differ.
SweepPlan merge_plans(const std::vector<SweepPlan>& plans);

}  // namespace tessera
