#include <optional>

#include "tune/evaluate.h"

#include "backend/backend.h"
#include "base/fs.h"
#include "base/interrupt.h"
#include "base/text.h"
#include "cli/measured.h"
#include "cli/output.h"
#include "cli/sweep_words.h"

namespace tessera::cli {
namespace {

constexpr Option kOptions[] = {
    {"--data", "FILE", "measurements from a file of 'db export FILE.times', not the database",
     Complete::file},
    {"--operation", "OP", "gemm, conv_fwd, ... (gemm)"},
    {"--fold", "F", "test, valid or train (test, or valid where no problem is in that)", Complete::fold},
    {"--units", "N", "cores or compute units of the measurements, when there are several"},
    {"--peer", "NAME", "another library, timed beside the choices", Complete::peer},
    {"--csv", "FILE", "one row per problem", Complete::file},
    {"--html", "FILE", "a report of its own", Complete::file},
    {"--jobs", "N", "compilers at once; 0 = all cores"},
    {"--budget", "TIME", "start nothing new after so long: 90s 20m 2h"},
    {"--limit-s", "S", "seconds one configuration may take to give a sign of life (10)"},
    {"--group", "N", "configurations timed in turn in one child (64)"},
    {"--budget-ms", "MS", "measuring time of each configuration, at most (10)"},
    {"--repeat", "N", "times that a disturbed group is measured again, at most (2)"},
    {"--passes", "N", "times that all problems are timed; the least of each counts (1)"},
    {"--directory", "DIR", "keep the fresh times there, and go on from those that are there", Complete::file},
    {"--cores", "LIST", "time on each of these cores at once: 0,2,4-7; all: on each physical one"},
    {"--shard", "I/N", "time the I-th of N parts only, from 1; needs --directory"},
};

int run(const Invocation& call) {
  call.no_more_words(0);
  std::optional<Fold> asked;
  if (call.has("--fold")) asked = usage([&] { return parse_fold(call.value("--fold")); });
  const DispatcherOptions d = call.dispatcher_options();
  const TrainingData data = measured(call, make_backend(d.device, d.threads)->arch().name);
  const Fold fold = asked.value_or(data.judging_fold());
  const Model& model = model_for(d.model, data.arch, data.problems[0].problem);
  EvaluateOptions options{.sweep = sweep_options(call), .device = d.device};
  options.directory = call.value("--directory");
  options.passes = static_cast<int>(call.integer("--passes", options.passes, 1));
  if (options.sweep.shards > 1 && options.directory.empty())
    throw UsageError("--shard needs --directory, where the parts meet");
  if (call.has("--peer")) options.peer = Peer::load(call.value("--peer"));
  const std::string csv = call.output("--csv"), html = call.output("--html");
  finish_step_on_interrupt();
  Evaluation e;
  {
    SweepBars bars(call);
    e = evaluate(data, fold, model, options, std::ref(bars));
  }
  if (e.problems.empty() && !stop_requested()) {
    throw Error(
        ErrorCode::device,
        "none of " + std::to_string(e.left_out) + " problems has fresh times of its choice and the best",
        call.has("--budget") ? "give more time with --budget" : "TESSERA_LOG=debug says what failed");
  }
  const std::exception_ptr unwritten = failure_of([&] {
    if (!csv.empty()) write_file_whole(csv, to_csv(e));
    if (!html.empty()) write_file_whole(html, to_html(e));
  });
  const Json all = to_json(e);
  if (call.json()) {
    print_json(all);
  } else {
    print("of the fold '" + std::string(to_string(fold)) + "'");
    Table table({"", "problems", "mean", "median", "P10", "min"});
    const auto add = [&](const std::string& name, const Json& s) {
      std::vector<std::string> cells = {name, std::to_string(s.at("problems").as_int())};
      for (const char* key : {"mean", "median", "p10", "min"})
        cells.push_back(format("%.1f%%", 100 * s.at(key).as_double()));
      table.add(std::move(cells));
    };
    add("choice of " + e.model, all.at("choice"));
    add("best of its first three", all.at("top3"));
    add("analytic", all.at("analytic"));
    add("one for all", all.at("fixed"));
    if (!e.peer.empty()) add(e.peer, all.at("peer"));
    for (const Json& r : all.at("regimes").items()) add("choice, " + r.at("regime").as_string(), r);
    print(table.text());
    if (e.left_out) print(std::to_string(e.left_out) + " problems were left out: no fresh time");
  }
  if (unwritten) std::rethrow_exception(unwritten);
  return stop_requested() ? interrupted_status() : kOk;
}

}  // namespace

const Command evaluate_command{.name = "evaluate",
                               .words = "",
                               .summary = "how close a model's choices come to the best, timed afresh",
                               .options = kOptions,
                               .run = run,
                               .uses = kDevice | kModel | kCache | kDatabase | kJson};

}  // namespace tessera::cli
