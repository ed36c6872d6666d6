#include <cstdio>

#include "base/text.h"
#include "cli/invocation.h"
#include "cli/output.h"
#include "tune/run_report.h"

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

int run(const Invocation& call) {
  const Problem problem = call.problem();
  const DispatcherOptions options = call.dispatcher_options();
  Dispatcher dispatcher(options);
  const RunReport r =
      run_report(dispatcher, problem,
                 {.fill = call.has("--integers") ? FillKind::integers : FillKind::uniform,
                  .seed = static_cast<uint64_t>(call.integer("--seed", 1, 0, Invocation::kMostSeed)),
                  .verify = !call.has("--no-verify"),
                  .budget_ms = call.number("--budget-ms", 200),
                  .cold = call.has("--cold")});
  const Choice& choice = r.choice;
  const Json described = dispatcher.describe();
  if (call.json()) {
    print_json(run_report_json(dispatcher, problem, r));
  } else {
    print("problem   " + to_string(problem));
    print("device    " + options.device + ", " + described.at("arch").as_string() + ", " +
          std::to_string(described.at("threads").as_int()) + " thread(s)");
    print("config    " + to_string(choice.config) + "  (" + std::string(to_string(choice.source)) + ")");
    print("kernel    from " + std::string(to_string(r.build.from)) + format(", %.1f ms", r.build.build_ms));
    print("time      " + us_text(r.time_us) +
          (choice.predicted_us > 0 ? ", predicted " + us_text(choice.predicted_us) : "") +
          format(", %.4g %s", r.gflops, info(problem.a).is_float ? "GFLOP/s" : "GOP/s"));
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
  return say_failed("wrong result: " + r.verification.failure,
                    call.reproduce("run", problem, {"--integers", "--seed"}, to_string(choice.config)));
}

}  // namespace

const Command run_command{.name = "run",
                          .words = "PROBLEM | --suite CSV --name NAME",
                          .summary = "choose, compile, run, verify and time one problem",
                          .options = kOptions,
                          .run = run,
                          .uses = kDispatcher,
                          .complete = Complete::problem};

}  // namespace tessera::cli
