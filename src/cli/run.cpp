#include <cstdio>

#include "base/text.h"
#include "cli/invocation.h"
#include "cli/output.h"
#include "core/gemm_view.h"
#include "tune/measure.h"
#include "tune/verify.h"

namespace tessera::cli {
namespace {

constexpr Option kOptions[] = {
    {"--suite", "CSV", "take the problem from a suite: a file or an embedded one", Complete::suite},
    {"--name", "NAME", "the row of the suite"},
    {"--dtype", "T", "element types instead of the suite's", Complete::dtype},
    {"--no-verify", "", "do not check the result against the reference"},
    {"--integers", "", "integer-valued data: the result must be exact"},
    {"--seed", "N", "of the data"},
    {"--budget-ms", "MS", "time spent measuring; 0 = one run only"},
    {"--cold", "", "measure with swept caches"},
};

struct Report {
  double time_us = 0;
  Verification verification;
  bool verified = false;
};

Report run_and_measure(const Kernel& kernel, const Invocation& call) {
  const Problem& p = kernel.problem();
  Operands operands(p, call.has("--integers") ? FillKind::integers : FillKind::uniform,
                    static_cast<uint64_t>(call.integer("--seed", 1)), Operands::kTimingAlign);
  const Buffers buffers = operands.bind(kernel);
  Report report;
  kernel.run(buffers);
  operands.fetch(kernel);
  if (!call.has("--no-verify")) {
    report.verification = Verifier(operands, kernel.sum_error()).check();
    report.verified = report.verification.ok;
  }
  const double budget = call.number("--budget-ms", 200);
  const Repeated work = [&](int repeats) {
    for (int i = 0; i < repeats; ++i) kernel.run_unchecked(buffers);
    kernel.wait();
  };
  MeasureOptions o{.batch_us = 1000, .budget_ms = budget, .cold = call.has("--cold")};
  if (budget == 0) o = {.batch_us = 0, .budget_ms = 0, .min_rounds = 1, .max_rounds = 1, .cold = o.cold};
  report.time_us = measure({&work, 1}, o)[0].median_us;
  return report;
}

int run(const Invocation& call) {
  const Problem problem = call.problem();
  const DispatcherOptions options = call.dispatcher_options();
  Dispatcher dispatcher(options);
  BuildInfo build;
  const Kernel& kernel = dispatcher.get(problem, &build);
  const Report r = run_and_measure(kernel, call);
  const Choice& choice = kernel.choice();
  const double flops = lower(problem).flops();
  const double gflops = r.time_us > 0 ? flops / r.time_us / 1e3 : 0;
  const bool cached = build.from != BuildInfo::From::compiled;
  const Json described = dispatcher.describe();
  if (call.json()) {
    print_json(Json::object({{"problem", to_string(problem)},
                             {"arch", described.at("arch")},
                             {"device", options.device},
                             {"config", to_string(choice.config)},
                             {"source", to_string(choice.source)},
                             {"predicted_us", choice.predicted_us},
                             {"time_us", r.time_us},
                             {"gflops", gflops},
                             {"jit_ms", build.build_ms},
                             {"cached", cached},
                             {"verified", r.verified},
                             {"max_err", r.verification.max_err},
                             {"bound", r.verification.bound}}));
  } else {
    print("problem   " + to_string(problem));
    print("device    " + options.device + ", " + described.at("arch").as_string() + ", " +
          std::to_string(described.at("threads").as_int()) + " thread(s)");
    print("config    " + to_string(choice.config) + "  (" + std::string(to_string(choice.source)) + ")");
    print("kernel    from " + std::string(to_string(build.from)) + format(", %.1f ms", build.build_ms));
    print("time      " + us_text(r.time_us) +
          (choice.predicted_us > 0 ? ", predicted " + us_text(choice.predicted_us) : "") +
          format(", %.4g %s", gflops, info(problem.a).is_float ? "GFLOP/s" : "GOP/s"));
    if (call.has("--no-verify")) {
      print("result    not verified");
    } else if (r.verified) {
      print(format("result    right: error %.3g of %.3g allowed, ", r.verification.max_err,
                   r.verification.bound) +
            std::to_string(r.verification.checked) +
            (r.verification.complete ? " elements" : " sampled elements"));
    }
  }
  if (r.verified || call.has("--no-verify")) return kOk;
  std::fprintf(stderr,
               "error: wrong result: %s\nreproduce: tessera run %s --device %s --threads %d --config %s%s\n",
               r.verification.failure.c_str(), shell_quote(to_string(problem)).c_str(),
               options.device.c_str(), options.threads, shell_quote(to_string(choice.config)).c_str(),
               call.has("--integers") ? " --integers" : "");
  return kFailed;
}

}  // namespace

const Command run_command{.name = "run",
                          .words = "PROBLEM | --suite CSV --name NAME",
                          .summary = "choose, compile, run, verify and time one problem",
                          .options = kOptions,
                          .run = run,
                          .complete = Complete::problem};

}  // namespace tessera::cli
