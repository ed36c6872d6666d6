#include "tune/search.h"

#include <algorithm>

#include "base/interrupt.h"
#include "base/text.h"
#include "cli/output.h"
#include "cli/sweep_words.h"

namespace tessera::cli {
namespace {

constexpr Option kOptions[] = {
    {"--suite", "CSV", "take the problem from a suite: a file or an embedded one", Complete::suite},
    {"--name", "NAME", "the row of the suite"},
    {"--dtype", "T", "element types instead of the suite's", Complete::dtype},
    {"--strategy", "HOW", "which are measured: model, random or evolution (evolution)", Complete::strategy},
    {"--budget", "N", "configurations to measure (32)"},
    {"--seed", "N", "of what is drawn (1)"},
    {"--jobs", "N", "compilers at once; 0 = all cores"},
    {"--limit-s", "S", "seconds one configuration may take to give a sign of life (10)"},
    {"--group", "N", "configurations timed in turn in one child (64)"},
    {"--budget-ms", "MS", "measuring time of each configuration, at most (10)"},
    {"--cold", "", "measure with swept caches"},
};

int run(const Invocation& call) {
  const Problem problem = call.problem();
  Invocation words = call;
  words.values.erase("--budget");   // a count here, a time for a sweep
  words.values["--db"] = {"none"};  // decisions that are there do not matter, and it may not be there yet
  const DispatcherOptions d = words.dispatcher_options();
  const SearchOptions o{.device = d.device,
                        .threads = d.threads,
                        .model = d.model,
                        .strategy = call.one_of("--strategy", "evolution", search_strategies()),
                        .budget = static_cast<size_t>(call.integer("--budget", 32, 1)),
                        .seed = static_cast<uint64_t>(call.integer("--seed", 1, 0, Invocation::kMostSeed)),
                        .sweep = sweep_options(words)};
  const std::string database =
      call.has("--db") ? call.database() : "";                       // a look leaves nothing behind unasked
  if (!database.empty()) Database(database, Database::Mode::write);  // refused now, not after the work
  finish_step_on_interrupt();
  SearchResult found;
  {
    SweepBars bars(call);
    found = search(problem, o, std::ref(bars));
  }
  const bool stopped = found.stopped && stop_requested();  // then the best so far is no decision
  if (!database.empty()) {
    Database db(database, Database::Mode::write);
    db.add(found.measured);
    const Measurement& m = found.measured.front();
    if (!stopped) {
      db.decide({{m.device.arch, m.device.units, to_string(problem), to_string(found.best), found.best_us,
                  m.record.time}});
    }
  }
  const size_t right = static_cast<size_t>(
      std::count_if(found.measured.begin(), found.measured.end(),
                    [](const Measurement& m) { return m.record.outcome == SweepOutcome::ok; }));
  const double ratio = found.model_us > 0 ? found.model_us / found.best_us : 0;
  if (call.json()) {
    print_json(
        Json::object({{"problem", to_string(problem)},
                      {"strategy", o.strategy},
                      {"legal", static_cast<int64_t>(found.legal)},
                      {"measured", static_cast<int64_t>(found.measured.size())},
                      {"right", static_cast<int64_t>(right)},
                      {"best", Json::object({{"config", to_string(found.best)}, {"time_us", found.best_us}})},
                      {"model", Json::object({{"config", to_string(found.model)},
                                              {"time_us", found.model_us},
                                              {"predicted_us", found.predicted_us}})},
                      {"ratio", ratio},
                      {"database", database}}));
  } else {
    print(to_string(problem));
    print(std::to_string(found.measured.size()) + " of " + std::to_string(found.legal) +
          " legal configurations measured, " + std::to_string(right) + " right");
    Table table({"", "config", "time"});
    table.add({"best", to_string(found.best), us_text(found.best_us)});
    table.add({"model", to_string(found.model),
               found.model_us > 0 ? us_text(found.model_us) : "did not run right"});
    print(table.text());
    if (ratio > 0) print(format("the model's choice takes %.3f of the time of the best", ratio));
    if (!database.empty()) print((stopped ? "measurements kept in " : "decided in ") + database);
  }
  return stopped ? interrupted_status() : kOk;
}

}  // namespace

const Command search_command{
    .name = "search",
    .words = "PROBLEM | --suite CSV --name NAME",
    .summary = "measure some of all legal configurations of one problem, look for the best",
    .options = kOptions,
    .run = run,
    .uses = kDevice | kThreads | kModel | kCache | kDatabase | kJson,
    .complete = Complete::problem};

}  // namespace tessera::cli
