#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <iterator>

#include "backend/backend.h"
#include "base/fs.h"
#include "base/interrupt.h"
#include "base/text.h"
#include "cli/output.h"
#include "cli/problems.h"
#include "cli/sweep_words.h"
#include "tessera/error.h"
#include "tune/journal.h"
#include "tune/measurement.h"
#include "tune/problem_generator.h"
#include "tune/sweep_run.h"
#include "tune/sweep_worker.h"

namespace tessera::cli {
namespace {

constexpr Option kOptions[] = {
    of("plan", many({"--suite", "CSV", "the problems of a suite; may be repeated", Complete::suite})),
    of("plan", {"--name", "GLOB", "only these rows of the suites"}),
    of("plan", many({"--dtype", "T,...", "element types instead of the suites', and of generated problems",
                     Complete::dtype})),
    of("plan", many({"--generate", "KIND:N",
                     "N generated problems: wide, edges, linear, conv_fwd, ...; may be repeated"})),
    of("plan", {"--max-gflop", "N", "work of a generated problem, at most (4)"}),
    of("plan", many({"--layout", "L,...", "layouts of generated problems", Complete::layout})),
    of("plan", {"--extra", "WORDS", "words added to generated problems and suites, 'prepack=b'"}),
    of("plan", {"--candidates", "HOW", "all random:N stratified:N guided:N (all)"}),
    of("plan", {"--kernels", "N", "so many kernels at most, those that serve the most problems"}),
    of("plan", {"--only", "GLOB", "only configurations whose text form matches"}),
    of("plan", {"--limit", "N", "the first N problems"}),
    of("plan", {"--seed", "N", "of generators and choices"}),
    of("run", {"--shard", "I/N", "the I-th of N parts, from 1; else from the variables of Slurm or MPI"}),
    of("run", {"--stage", "S", "compile, measure or all (all)", Complete::stage}),
    of("run", {"--jobs", "N", "compilers at once; 0 = all cores"}),
    of("run",
       {"--cores", "LIST", "measure on each of these cores at once: 0,2,4-7; all: on each physical one"}),
    of("run", {"--ready", "", "leave alone what another run has not compiled yet"}),
    of("run",
       many({"--retry", "OUTCOME,...", "measure again what ended so: failed, crashed, timed_out, wrong, ...",
             Complete::outcome})),
    of("run", {"--budget", "TIME", "start nothing new after so long: 90s 20m 2h"}),
    of("run", {"--limit-s", "S", "seconds one configuration may take to give a sign of life (10)"}),
    of("run", {"--group", "N", "configurations timed in turn (64)"}),
    of("run",
       {"--batch", "N", "such groups that one child measures (1; 16 on a GPU, which is slow to open)"}),
    of("run", {"--budget-ms", "MS", "measuring time of each configuration, at most (10)"}),
    of("run", {"--cold", "", "measure with swept caches"}),
    of("run", {"--repeat", "N", "times that a disturbed group is measured again, at most (2)"}),
};

// Schedulers that tell each of their processes which of how many it is.
struct Scheduler {
  const char *rank, *count;
  int first;  // rank of the first
};
constexpr Scheduler kSchedulers[] = {{"SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT", -1},
                                     {"SLURM_PROCID", "SLURM_NTASKS", 0},
                                     {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", 0},
                                     {"PMI_RANK", "PMI_SIZE", 0}};

std::optional<int64_t> variable(const char* name) {
  const char* text = std::getenv(name);
  return text ? parse_int(text) : std::nullopt;
}

void choose_shard(const Invocation& call, SweepOptions& o) {
  if (call.has("--shard")) return;
  for (const Scheduler& s : kSchedulers) {
    const auto rank = variable(s.rank), count = variable(s.count);
    if (!rank || !count || *count < 2) continue;
    const bool array = s.first < 0;
    const int64_t first = array ? variable("SLURM_ARRAY_TASK_MIN").value_or(0) : s.first;
    const int64_t step = array ? std::max<int64_t>(variable("SLURM_ARRAY_TASK_STEP").value_or(1), 1) : 1;
    const int64_t place = (*rank - first) / step;
    if (*rank < first || (*rank - first) % step != 0 || place >= *count) {
      if (!array) continue;
      throw Error(ErrorCode::bad_input,
                  format("%s=%lld is not the number of one of %lld parts in a row", s.rank,
                         static_cast<long long>(*rank), static_cast<long long>(*count)),
                  "say --shard I/N");
    }
    o.shard = static_cast<int>(place);
    o.shards = static_cast<int>(*count);
    std::fprintf(stderr, "shard %d of %d, by %s\n", o.shard + 1, o.shards, s.rank);
    return;
  }
}

int plan(const Invocation& call) {
  const std::string directory = call.word(0, "the directory of the sweep");
  Invocation rest = call;
  rest.words.erase(rest.words.begin());
  const auto dtypes = call.list("--dtype");
  for (const char* of_generated : {"--layout", "--max-gflop"}) {
    if (call.has(of_generated) && !call.has("--generate"))
      throw UsageError(std::string(of_generated) + " is of --generate");
  }
  if (call.has("--extra") && !call.has("--generate") && !call.has("--suite"))
    throw UsageError("--extra is of --generate and --suite; a problem's own text says all of it");
  std::vector<SuiteRow> rows;
  const auto append = [&](std::vector<SuiteRow> more) {
    rows.insert(rows.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  };
  for (const std::string& suite : call.each("--suite")) {
    for (const std::string& dtype : dtypes.empty() ? std::vector<std::string>{""} : dtypes)
      append(
          suite_rows(suite, {.dtype = dtype, .extra = call.value("--extra"), .name = call.value("--name")}));
  }
  // What selects among rows of suites and says of what types problems are generated says nothing of others.
  if (call.has("--generate")) rest.values.erase("--dtype");
  if (!reads_suite(rest)) rest.refuse_row_selection();
  rest.values.erase("--suite");
  if (!reads_suite(rest)) {
    rest.values.erase("--name");
    rest.values.erase("--dtype");
  }
  if (!rest.words.empty()) append(problems_of(rest));
  GeneratorOptions g;
  if (!dtypes.empty()) g.dtypes = dtypes;
  if (call.has("--layout")) g.layouts = call.list("--layout");
  g.extra = call.value("--extra");
  g.max_flops = call.number("--max-gflop", g.max_flops / 1e9) * 1e9;
  g.seed = static_cast<uint64_t>(call.integer("--seed", 1, 0, Invocation::kMostSeed));
  try {
    for (const std::string& spec : call.list("--generate")) append(generate_problems(spec, g));
  } catch (const Error& e) { throw UsageError(e.what()); }
  if (rows.empty()) throw UsageError("no problem is given: a problem's text, a file, --suite or --generate");
  if (call.has("--limit"))
    rows.resize(std::min(rows.size(), static_cast<size_t>(call.integer("--limit", 0, 1))));
  const DispatcherOptions d = call.dispatcher_options();
  const SweepCandidates candidates{candidates_word(call, "all"), call.value("--only"), g.seed, d.model,
                                   static_cast<size_t>(call.integer("--kernels", 0))};
  std::vector<std::pair<std::string, std::string>> skipped;
  const SweepPlan made =
      plan_sweep(rows, d.device, d.threads, make_backend(d.device, d.threads)->arch(), candidates, &skipped);
  write_sweep_plan(made, directory);
  for (const auto& [problem, why] : skipped)
    std::fprintf(stderr, "left out: %s: %s\n", problem.c_str(), why.c_str());
  if (call.json()) {
    print_json(Json::object({{"directory", directory},
                             {"arch", made.arch},
                             {"problems", static_cast<int64_t>(made.problems.size())},
                             {"configs", static_cast<int64_t>(made.configs.size())},
                             {"pairs", static_cast<int64_t>(made.pairs())},
                             {"skipped", static_cast<int64_t>(skipped.size())}}));
  } else {
    print(std::to_string(made.problems.size()) + " problems, " + std::to_string(made.configs.size()) +
          " configurations, " + std::to_string(made.pairs()) + " measurements on " + made.arch);
    print("next: tessera sweep run " + shell_quote(directory));
  }
  return kOk;
}

std::string summary_text(const SweepSummary& s) {
  std::string out = std::to_string(s.pairs - s.left) + " of " + std::to_string(s.pairs) + " measured";
  for (size_t i = 0; i < std::size(s.by_outcome); ++i) {
    if (s.by_outcome[i])
      out +=
          ", " + std::to_string(s.by_outcome[i]) + ' ' + std::string(to_string(static_cast<SweepOutcome>(i)));
  }
  return out;
}

int run(const Invocation& call) {
  const std::string directory = call.word(0, "the directory of the sweep");
  call.no_more_words(1);
  SweepOptions o = sweep_options(call);
  choose_shard(call, o);
  const std::string stage = call.value("--stage", "all");
  if (std::ranges::find(kSweepStages, stage) == std::end(kSweepStages))
    throw UsageError("--stage is one of " + join(kSweepStages, " "));
  o.compile = stage != "measure";
  o.measure = stage != "compile";
  try {
    for (const std::string& text : call.list("--retry")) o.retry.insert(parse_sweep_outcome(text));
  } catch (const Error& e) { throw UsageError(e.what()); }
  finish_step_on_interrupt();
  SweepSummary s;
  {
    SweepBars bars(call);
    s = run_sweep(directory, o, std::ref(bars));
  }
  if (call.json()) {
    print_json(to_json(s).set("stopped", s.stopped).set("compiled", static_cast<int64_t>(s.compiled)));
  } else {
    print(summary_text(s) + (s.stopped && s.left ? "; the same command goes on" : ""));
  }
  return stop_requested() ? interrupted_status() : kOk;
}

int status(const Invocation& call) {
  const std::string directory = call.word(0, "the directory of the sweep");
  call.no_more_words(1);
  const SweepPlan made = read_sweep_plan(directory);
  const SweepResults results = SweepResults::read(directory);
  const SweepSummary s = sweep_status(made, results);
  std::vector<const SweepRecord*> bad;
  for (const SweepRecord& r : results.records()) {
    if (r.outcome != SweepOutcome::ok) bad.push_back(&r);
  }
  if (call.json()) {
    Json rows = Json::array();
    for (const SweepRecord* r : bad) rows.push(to_json(*r));
    print_json(to_json(s)
                   .set("arch", made.arch)
                   .set("problems", static_cast<int64_t>(made.problems.size()))
                   .set("damaged_lines", static_cast<int64_t>(results.damaged()))
                   .set("not_ok", std::move(rows)));
    return kOk;
  }
  print(summary_text(s));
  if (results.damaged()) print(std::to_string(results.damaged()) + " damaged lines were left out");
  if (bad.empty()) return kOk;
  Table table({"outcome", "problem", "config", "detail"});
  for (const SweepRecord* r : bad)
    table.add({std::string(to_string(r->outcome)), r->problem, r->config, r->detail.substr(0, 100)});
  print(table.text());
  return kOk;
}

int merge(const Invocation& call) {
  const std::string target = call.word(0, "the directory to merge into");
  if (call.words.size() < 2) throw UsageError("the directories to merge are missing");
  const std::vector<std::string> sweeps(call.words.begin() + 1, call.words.end());
  std::vector<SweepPlan> plans;
  SweepResults all;
  for (const std::string& sweep : sweeps) {
    plans.push_back(read_sweep_plan(sweep));
    const SweepResults results = SweepResults::read(sweep);
    for (const SweepRecord& r : results.records()) {
      const SweepRecord* there = all.find(r.problem, r.config);
      if (!there || there->time <= r.time) all.add(r);
    }
  }
  const SweepPlan merged = merge_plans(plans);
  const std::string device = device_of_sweeps(sweeps);
  write_sweep_plan(merged, target);
  if (!device.empty()) write_file_whole(target + "/" + kDeviceFile, device);
  std::vector<std::string> lines;
  for (const SweepRecord& r : all.records()) lines.push_back(to_json(r).dump());
  Journal(sweep_journal_path(target, 0, 1)).append(lines);
  const SweepSummary s = sweep_status(merged, all);
  call.json() ? print_json(to_json(s)) : print(summary_text(s));
  return kOk;
}

int worker(const Invocation&) {
  const std::string job{std::istreambuf_iterator<char>(std::cin), {}};
  return run_sweep_worker(job);
}

constexpr Action kActions[] = {
    {"plan", "DIR FILE|PROBLEM...", "writes down which configurations to measure on which problems", plan,
     kDevice | kThreads | kModel | kJson},
    {"run", "DIR", "compiles and measures; goes on where it was stopped", run, kCache | kJson},
    {"status", "DIR", "what is measured, and what went wrong", status},
    {"merge", "DIR FROM...", "several sweeps or their shards as one", merge},
    {"worker", "", "one group of measurements, as `run` starts it", worker, 0, true},
};

}  // namespace

const Command sweep_command{.name = "sweep",
                            .words = "",
                            .summary = "measure many configurations of many problems, resumably",
                            .options = kOptions,
                            .run = nullptr,
                            .actions = kActions,
                            .complete = Complete::directory};

}  // namespace tessera::cli
