// The child process of a sweep: loads, checks and times groups of configurations, each of one problem. What
// kernels may do to a process, they do to this one.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/kernel_config.h"
#include "tessera/problem.h"
#include "tune/measure.h"
#include "tune/sweep_record.h"

namespace tessera {

struct SweepGroup {
  Problem problem;
  std::vector<KernelConfig> configs;
  std::optional<Problem> anchor_problem;  // timed among the others, to tell drift of the machine
  KernelConfig anchor_config;
};

struct SweepJob {
  std::string device;
  int threads = 0;
  std::optional<int> core;  // that the process runs on; any, without
  std::string cache_dir;
  std::vector<SweepGroup> groups;  // one after the other
  MeasureOptions measure;
  double limit_s = 10;  // that one configuration may go without a sign of life
};

Json to_json(const SweepJob& job);
SweepJob sweep_job_from_json(const Json& j);

// What the worker prints, as journal lines: {"group", "at": INDEX} before anything is done with a
// configuration (configs.size() is the anchor), {"group", "index", "record"} for each when its group is done.
struct SweepReport {
  size_t group = 0;                                              // the last it was at
  size_t at = SIZE_MAX;                                          // what it was at last; SIZE_MAX: nothing yet
  std::vector<std::vector<std::optional<SweepRecord>>> records;  // by group
};
SweepReport parse_sweep_report(std::string_view output, const std::vector<SweepGroup>& groups);

// Exit statuses, beside 0.
inline constexpr int kSweepHung = 124, kSweepDeviceLost = 3;

// The whole of the child process: job as JSON in, report on stdout. Ends the process when a configuration
// hangs or leaves the device unusable.
int run_sweep_worker(std::string_view job);

}  // namespace tessera
