#include <algorithm>
#include <memory>
#include <mutex>

#include "backend/backend.h"
#include "base/interrupt.h"
#include "base/parallel.h"
#include "base/progress.h"
#include "base/text.h"
#include "cli/invocation.h"
#include "cli/output.h"
#include "runtime/explanation.h"
#include "tessera/error.h"
#include "tune/measure.h"
#include "tune/operands.h"

namespace tessera::cli {
namespace {

constexpr Option kOptions[] = {
    {"--arch", "ARCH", "for this architecture, without a device", Complete::arch},
    {"--top", "N", "so many candidates (20 in the table, all in JSON), and so many rejected (all)"},
    {"--rejected", "", "the rejected candidates too, each with its rule and reason"},
    {"--time", "", "compile and time the candidates shown"},
    {"--budget-ms", "MS", "of --time: for each candidate (5)"},
    {"--suggest", "CONFIG", "the legal configuration nearest to this one, and what had to change"},
    {"--suite", "CSV", "take the problem from a suite", Complete::suite},
    {"--name", "NAME", "the row of the suite"},
    {"--dtype", "T", "element types instead of the suite's", Complete::dtype},
};

int suggest_config(const Invocation& call, const Problem& problem, Dispatcher& dispatcher) {
  std::string why;
  const auto config = KernelConfig::parse(call.value("--suggest"), &why);
  if (!config) throw UsageError("config '" + call.value("--suggest") + "': " + why);
  const Correction c = dispatcher.correct(problem, *config);
  const std::string arch = dispatcher.describe().at("arch").as_string();
  if (call.json()) {
    print_json(correction_json(problem, arch, c));
  } else if (c.legal()) {
    print("legal: " + to_string(*config));
  } else {
    print("rejected by " + c.rule + ": " + c.reason);
    if (c.nearest) print("nearest legal: " + to_string(*c.nearest));
    for (const std::string& change : c.changes) print("  " + change);
  }
  if (c.nearest) return kOk;
  return say_failed("the family has no legal configuration for this problem on " + arch, call.reproduce());
}

// Measured microseconds of each candidate, compiled in parallel and timed in turn.
std::vector<double> timed(const Problem& problem, std::span<const Candidate> candidates,
                          DispatcherOptions options, const Invocation& call) {
  options.policy = Policy::explicit_config;
  options.registry = nullptr;
  std::vector<std::unique_ptr<Dispatcher>> dispatchers(candidates.size());
  std::vector<const Kernel*> kernels(candidates.size());
  std::vector<std::string> errors(candidates.size());
  std::mutex mutex;
  size_t done = 0;
  std::unique_ptr<Progress> progress;
  if (!call.has("--quiet")) progress = std::make_unique<Progress>("compiling", candidates.size());
  in_parallel(candidates.size(), 0, [&](size_t i) {
    throw_if_interrupted();
    DispatcherOptions own = options;
    own.config = to_string(candidates[i].config);
    try {
      dispatchers[i] = std::make_unique<Dispatcher>(std::move(own));
      kernels[i] = &dispatchers[i]->get(problem);
    } catch (const std::exception& e) { errors[i] = e.what(); }
    std::lock_guard lock(mutex);
    ++done;
    if (progress) progress->update(done, to_string(candidates[i].config));
  });
  throw_if_interrupted();
  for (const std::string& e : errors) {
    if (!e.empty()) throw Error(ErrorCode::compile_failed, e);
  }
  progress.reset();
  Operands operands(problem, FillKind::uniform, 1, Operands::kTimingAlign);
  std::vector<GuardedBuffer> packed;
  std::vector<Repeated> runs;
  packed.reserve(candidates.size());
  for (const Kernel* kernel : kernels) {
    Buffers b = operands.bind(*kernel);
    if (problem.prepack_b && !kernel->memory()) {  // each has its own order
      packed.emplace_back(kernel->packed_b_bytes());
      kernel->pack_b(operands.b(), packed.back().data());
      b.b = packed.back().data();
    }
    runs.push_back([kernel, b](int repeats) {
      for (int i = 0; i < repeats; ++i) kernel->run_unchecked(b);
      kernel->wait();
    });
  }
  std::vector<double> us;
  for (const Timing& t :
       measure(runs, {.batch_us = 200, .budget_ms = call.number("--budget-ms", 5), .min_rounds = 3})) {
    us.push_back(t.median_us);
  }
  return us;
}

void print_rejected(const Explanation& e, size_t more) {
  Table refused({"rejected", "rule", "reason"});
  for (const auto& r : e.rejected) refused.add({to_string(r.config), r.rule, r.reason});
  print(refused.text());
  if (more) print("... " + std::to_string(more) + " more rejected; --top N shows more, without it all");
}

int run(const Invocation& call) {
  const Problem problem = call.problem();
  const DispatcherOptions options = call.dispatcher_options();
  if (call.has("--budget-ms") && !call.has("--time")) throw UsageError("--budget-ms is of --time");
  for (const char* other : {"--time", "--top", "--rejected", "--config"}) {
    if (call.has("--suggest") && call.has(other))
      throw UsageError(std::string("--suggest and ") + other + " contradict each other");
  }
  if (call.has("--time") && only_plans(options.device))
    throw UsageError("--time: device " + options.device +
                     " only plans, it runs no kernels that could be timed");
  Dispatcher dispatcher(options);
  if (call.has("--suggest")) return suggest_config(call, problem, dispatcher);
  Explanation e = dispatcher.explain(problem, call.has("--rejected"));
  const size_t total = e.candidates.size(), refused_total = e.rejected.size();
  const auto top = [&](size_t otherwise) {
    return static_cast<size_t>(call.integer("--top", static_cast<int64_t>(otherwise)));
  };
  e.candidates.resize(std::min(total, top(call.json() ? total : 20)));
  e.rejected.resize(std::min(refused_total, top(refused_total)));
  const size_t more = total - e.candidates.size(), more_refused = refused_total - e.rejected.size();
  const std::string arch = dispatcher.describe().at("arch").as_string();
  std::vector<double> us;
  const auto json = [&] {
    return explanation_json(problem, arch, e, us)
        .set("left_out", Json::object({{"candidates", static_cast<int64_t>(more)},
                                       {"rejected", static_cast<int64_t>(more_refused)}}));
  };
  if (!e.why_none.empty()) {
    if (call.json()) print_json(json());
    if (!call.json() && !e.rejected.empty()) print_rejected(e, more_refused);
    throw Error(ErrorCode::unsupported, e.why_none).on(to_string(problem));
  }
  // The first answer pays for tables that later ones share.
  e.select_us = std::min(e.select_us, dispatcher.explain(problem).select_us);
  if (call.has("--time")) us = timed(problem, e.candidates, options, call);
  if (call.json()) {
    print_json(json());
    return kOk;
  }
  print("problem   " + to_string(problem));
  print("arch      " + arch);
  print("choice    " + to_string(e.choice.config) + "  (" + std::string(to_string(e.choice.source)) + ")");
  print(format("legal     %zu, ranked in %.0f us by model %s", total, e.select_us, e.model.c_str()));
  print("");
  Table table(us.empty() ? std::vector<std::string>{"rank", "predicted", "config"}
                         : std::vector<std::string>{"rank", "predicted", "measured", "config"});
  for (size_t i = 0; i < e.candidates.size(); ++i) {
    std::vector<std::string> cells = {std::to_string(i + 1), us_text(e.candidates[i].predicted_us)};
    if (!us.empty()) cells.push_back(us_text(us[i]));
    cells.push_back(to_string(e.candidates[i].config));
    table.add(std::move(cells));
  }
  print(table.text());
  if (more) print("... " + std::to_string(more) + " more; --top N shows more");
  if (!e.rejected.empty()) {
    print("");
    print_rejected(e, more_refused);
  }
  return kOk;
}

}  // namespace

const Command explain_command{.name = "explain",
                              .words = "PROBLEM",
                              .summary = "the candidates with predicted times, and why others were rejected",
                              .options = kOptions,
                              .run = run,
                              .uses = kDispatcher,
                              .complete = Complete::problem};

}  // namespace tessera::cli
