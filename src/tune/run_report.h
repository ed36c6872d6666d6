// One problem run on data of its own, checked against the reference and timed.
#pragma once

#include <cstdint>
#include <string>

#include "tessera/dispatcher.h"
#include "tune/operands.h"
#include "tune/verify.h"

namespace tessera {

struct RunOptions {
  FillKind fill = FillKind::uniform;
  uint64_t seed = 1;
  bool verify = true;
  double budget_ms = 200;  // spent measuring; 0 = one run only
  bool cold = false;       // measure with swept caches
};

struct RunReport {
  Choice choice;
  BuildInfo build;
  double time_us = 0;                      // median
  double gflops = 0;                       // 1e9 (floating) operations a second
  std::string checksum;                    // of the bytes of C after the first run
  bool checked = false, verified = false;  // checked: by RunOptions::verify
  Verification verification;               // when checked
};

RunReport run_report(Dispatcher& dispatcher, const Problem& problem, const RunOptions& options = {});

// {problem, arch, device, config, source, predicted_us, time_us, gflops, jit_ms, cached, verified, max_err,
// bound, checked, complete, checksum}; checked: elements of C; complete: all of them. verified to complete
// are null when nothing was checked
Json run_report_json(Dispatcher& dispatcher, const Problem& problem, const RunReport& report);

}  // namespace tessera
