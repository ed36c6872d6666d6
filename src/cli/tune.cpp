#include "tune/tune.h"

#include "base/interrupt.h"
#include "base/text.h"
#include "cli/output.h"
#include "cli/problems.h"
#include "cli/sweep_words.h"
#include "core/json_values.h"

namespace tessera::cli {
namespace {

constexpr Option kOptions[] = {
    many({"--suite", "CSV", "the problems of a suite; may be repeated", Complete::suite}),
    {"--name", "GLOB", "only these rows of the suites"},
    {"--dtype", "T", "element types instead of the suites'", Complete::dtype},
    {"--candidates", "HOW", "all random:N stratified:N guided:N (guided:32)"},
    {"--jobs", "N", "compilers at once; 0 = all cores"},
    {"--budget", "TIME", "start nothing new after so long: 90s 20m 2h"},
    {"--limit-s", "S", "seconds one configuration may take to give a sign of life (10)"},
    {"--group", "N", "configurations timed in turn in one child (64)"},
    {"--budget-ms", "MS", "measuring time of each configuration, at most (10)"},
    {"--cold", "", "measure with swept caches"},
};

int run(const Invocation& call) {
  const std::vector<SuiteRow> rows = problems_of(call);
  Invocation without = call;  // the database may not be there yet
  without.values["--db"] = {"none"};
  const DispatcherOptions d = without.dispatcher_options();
  TuneOptions o{.device = d.device, .threads = d.threads, .sweep = sweep_options(call)};
  o.candidates.strategy = candidates_word(call, o.candidates.strategy);
  o.candidates.model = d.model;
  if (call.database().empty())
    throw UsageError("there is no database to store decisions in; name one with --db");
  Database(call.database(), Database::Mode::write);  // refused now, not after the work
  finish_step_on_interrupt();
  std::vector<std::pair<std::string, std::string>> skipped;
  std::vector<TunedDecision> decisions;
  bool ran_out = false;
  {
    SweepBars bars(call);
    decisions = tune(rows, o, call.database(), &skipped, std::ref(bars), &ran_out);
  }
  for (const auto& [problem, why] : skipped)
    std::fprintf(stderr, "left out: %s: %s\n", problem.c_str(), why.c_str());
  const std::vector<std::string> failed = undecided(rows, decisions, skipped);
  if (call.json()) {
    Json list = Json::array();
    for (const TunedDecision& x : decisions)
      list.push(Json::object({{"problem", x.problem}, {"config", x.config}, {"time_us", x.us}}));
    print_json(Json::object({{"database", call.database()},
                             {"problems", static_cast<int64_t>(rows.size())},
                             {"decisions", std::move(list)},
                             {"failed", write_strings(failed)}}));
  } else {
    Table table({"problem", "config", "time"});
    for (const TunedDecision& x : decisions) table.add({x.problem, x.config, us_text(x.us)});
    print(table.text());
    print(std::to_string(decisions.size()) + " decisions in " + call.database());
  }
  if (stop_requested()) return interrupted_status();
  if (ran_out && !failed.empty()) {
    return say_failed("the budget ended before " + std::to_string(failed.size()) + " of " +
                          std::to_string(rows.size()) + " problems had a time; give more with --budget",
                      call.reproduce());
  }
  for (const std::string& problem : failed)
    say_failed("device: " + problem + ": no configuration ran right",
               call.reproduce("tune", Problem::parse(problem)));
  return failed.empty() ? kOk : kFailed;
}

}  // namespace

const Command tune_command{.name = "tune",
                           .words = "FILE|PROBLEM...",
                           .summary = "measure configurations of the problems and store the winners",
                           .options = kOptions,
                           .run = run,
                           .uses = kDevice | kThreads | kModel | kCache | kDatabase | kJson,
                           .complete = Complete::file};

}  // namespace tessera::cli
