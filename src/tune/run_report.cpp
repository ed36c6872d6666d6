#include "tune/run_report.h"

#include "base/hash.h"
#include "core/gemm_view.h"
#include "tune/measure.h"

namespace tessera {

RunReport run_report(Dispatcher& dispatcher, const Problem& problem, const RunOptions& options) {
  RunReport report;
  const Kernel& kernel = dispatcher.get(problem, &report.build);
  report.choice = kernel.choice();
  Operands operands(kernel.problem(), options.fill, options.seed, Operands::kTimingAlign);
  const Buffers buffers = operands.bind(kernel);
  kernel.run(buffers);
  operands.fetch(kernel);
  const GemmView& view = operands.view();
  const auto checksum = [&] {
    const auto bytes = static_cast<size_t>(view.c.extent * bytes_of(kernel.problem().out));
    return content_hash(std::string_view(static_cast<const char*>(operands.c()), bytes));
  };
  report.checksum = checksum();
  if (options.verify) {
    report.verification = Verifier(operands, arithmetic_of(kernel)).check();
    report.checked = true;
    report.verified = report.verification.ok;
  }
  const Repeated work = [&](int repeats) {
    for (int i = 0; i < repeats; ++i) kernel.run_unchecked(buffers);
    kernel.wait();
  };
  MeasureOptions o{.batch_us = 1000, .budget_ms = options.budget_ms, .cold = options.cold};
  if (options.budget_ms == 0) {
    o = {.batch_us = 0, .budget_ms = 0, .min_rounds = 1, .max_rounds = 1, .cold = options.cold};
  }
  report.time_us = measure({&work, 1}, o)[0].median_us;
  // On a CPU every run on the same operands, with whatever the ones before left in a workspace, gives the
  // same bits.
  if (options.verify && !kernel.memory() && kernel.problem().beta == 0 && checksum() != report.checksum) {
    report.verified = report.verification.ok = false;
    report.verification.failure = "C of the last run is not that of the first";
  }
  report.gflops = report.time_us > 0 ? view.flops() / report.time_us / 1e3 : 0;
  return report;
}

Json run_report_json(Dispatcher& dispatcher, const Problem& problem, const RunReport& r) {
  const Json described = dispatcher.describe();
  return Json::object({{"problem", to_string(problem)},
                       {"arch", described.at("arch")},
                       {"device", described.at("device")},
                       {"config", to_string(r.choice.config)},
                       {"source", to_string(r.choice.source)},
                       {"predicted_us", r.choice.predicted_us},
                       {"time_us", r.time_us},
                       {"gflops", r.gflops},
                       {"jit_ms", r.build.build_ms},
                       {"cached", r.build.from != BuildInfo::From::compiled},
                       {"verified", r.checked ? Json(r.verified) : Json()},
                       {"max_err", r.checked ? Json(r.verification.max_err) : Json()},
                       {"bound", r.checked ? Json(r.verification.bound) : Json()},
                       {"checked", r.checked ? Json(static_cast<int64_t>(r.verification.checked)) : Json()},
                       {"complete", r.checked ? Json(r.verification.complete) : Json()},
                       {"checksum", r.checksum}});
}

}  // namespace tessera
