#include "tune/sweep_run.h"

#include <algorithm>
#include <memory>
#include <mutex>

#include "backend/backend.h"
#include "base/clock.h"
#include "base/cores.h"
#include "base/fs.h"
#include "base/interrupt.h"
#include "tessera/error.h"
#include "tune/measurement.h"
#include "tune/sweep_stages.h"

namespace tessera {
namespace {

// All of a sweep is measured on one kind of device; the first to run writes down which.
void settle_device(const std::string& directory, const ArchSpec& arch) {
  const DeviceInfo here{arch.name, arch.compute_units,
                        arch.backend == BackendKind::cpu ? this_processor().name : arch.description};
  const std::string path = directory + "/" + kDeviceFile;
  create_file_whole(path, Json::object({{"device", to_json(here)}, {"tool", TESSERA_VERSION}}).dump());
  const DeviceInfo there = device_info_from_json(Json::parse(read_file(path), path).at("device"));
  if (there == here) return;
  throw Error(ErrorCode::bad_input,
              "this sweep is measured on " + to_json(there).dump() + ", and this is " + to_json(here).dump(),
              "make a plan of its own for this device");
}

void check_device(const SweepPlan& plan, Backend& backend) {
  if (backend.arch().name != plan.arch) {
    throw Error(ErrorCode::bad_input,
                "the plan is for " + plan.arch + ", and this device is " + backend.arch().name,
                "make a plan of its own for this device");
  }
  if (backend.compiler_identity().empty())
    throw Error(ErrorCode::unsupported, "a sweep needs a compiler", "tessera doctor says what is missing");
}

void check_cores(const SweepPlan& plan, const SweepOptions& options, const ArchSpec& arch) {
  if (options.cores.empty()) return;
  if (arch.backend != BackendKind::cpu || plan.threads != 1) {
    throw Error(ErrorCode::unsupported,
                "measurements of " +
                    (arch.backend != BackendKind::cpu ? plan.device
                     : plan.threads                   ? std::to_string(plan.threads) + " threads"
                                                      : "all cores") +
                    " do not fit on one core each",
                "leave the cores out, or plan with --threads 1");
  }
  const std::vector<int> allowed = allowed_cores();
  for (int core : options.cores) {
    if (std::find(allowed.begin(), allowed.end(), core) == allowed.end()) {
      throw Error(ErrorCode::bad_input, "this process may not run on core " + std::to_string(core),
                  "it may on " + cores_text(allowed));
    }
    if (std::count(options.cores.begin(), options.cores.end(), core) > 1)
      throw Error(ErrorCode::bad_input, "core " + std::to_string(core) + " is named twice");
  }
}

}  // namespace

SweepSummary run_sweep(const std::string& directory, const SweepOptions& options,
                       const std::function<void(const SweepProgress&)>& progress) {
  const auto start = Clock::now();
  SweepPlan plan = read_sweep_plan(directory);
  if (only_plans(plan.device)) {
    throw Error(ErrorCode::unsupported,
                "the plan is for device " + plan.device + ", which only plans and runs nothing",
                "make the plan on the machine that is to be measured, without --device");
  }
  const std::unique_ptr<Backend> backend = make_backend(plan.device, plan.threads);
  check_device(plan, *backend);
  check_cores(plan, options, backend->arch());
  SweepLedger ledger(std::move(plan), directory, options);
  settle_device(directory, backend->arch());
  const std::string cache_dir = options.cache_dir.empty() ? directory + "/kernels" : options.cache_dir;
  KernelCache cache({.directory = cache_dir, .max_bytes = INT64_MAX});
  std::mutex one_at_a_time;
  const SweepStage stage{
      options,
      *backend,
      cache,
      cache_dir,
      ledger,
      [&] { return stop_requested() || (options.budget_s > 0 && seconds_since(start) > options.budget_s); },
      [&](const SweepProgress& p) {
        std::lock_guard lock(one_at_a_time);
        if (progress) progress(p);
      }};
  const size_t compiled = options.compile ? compile_stage(stage) : 0;
  if (options.measure) measure_stage(stage);
  SweepSummary s = ledger.summary();
  s.compiled = compiled;
  s.stopped = stage.stop();
  return s;
}

}  // namespace tessera
