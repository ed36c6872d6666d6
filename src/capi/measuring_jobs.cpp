// tsr_job: tuning and sweeps, which measure in child processes of the program, training on what they
// measured, and judging what was trained.
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "backend/backend.h"
#include "base/fs.h"
#include "base/interrupt.h"
#include "base/process.h"
#include "base/text.h"
#include "capi/capi.h"
#include "tessera/error.h"
#include "tessera/tune_db.h"
#include "tune/evaluate.h"
#include "tune/problem_generator.h"
#include "tune/sweep_run.h"
#include "tune/train.h"
#include "tune/tune.h"

namespace tessera::capi {
namespace {

// The program that children run: what the caller names, TESSERA_PROGRAM, ../bin/tessera beside this library,
// PATH's.
std::string worker_program(const std::string& named) {
  std::vector<std::string> places = {named};
  if (const char* variable = std::getenv("TESSERA_PROGRAM")) places.emplace_back(variable);
  Dl_info self{};
  if (dladdr(reinterpret_cast<const void*>(&worker_program), &self) && self.dli_fname) {
    const std::string file = self.dli_fname;
    places.push_back(file.substr(0, file.rfind('/') + 1) + "../bin/tessera");
  }
  places.emplace_back("tessera");
  for (const std::string& place : places) {
    const std::string found = find_program(place);
    if (!found.empty()) return found;
    if (&place == &places.front() && !place.empty()) break;  // who names one means it
  }
  throw Error(ErrorCode::unsupported, "measuring needs the program 'tessera', which was not found",
              "name it in TESSERA_PROGRAM");
}

SweepOptions run_options(Members& in) {
  SweepOptions o;
  o.worker = {worker_program(text_member(in, "program")), "sweep", "worker"};
  o.cache_dir = text_member(in, "cache_dir");
  if (const Json* v = in.find("jobs")) o.jobs = read_int(*v, 0);
  if (const Json* v = in.find("cores")) {
    for (const Json& core : v->items()) o.cores.push_back(read_int(core, 0));
  }
  if (const Json* v = in.find("budget_s")) o.budget_s = read_number(*v, 0);
  if (const Json* v = in.find("limit_s")) o.limit_s = read_number(*v, 0.1);
  if (const Json* v = in.find("group")) o.group = static_cast<size_t>(read_count(*v, 1));
  if (const Json* v = in.find("budget_ms")) o.timing.budget_ms = read_number(*v, 0);
  if (const Json* v = in.find("cold")) o.timing.cold = v->as_bool();
  return o;
}

std::vector<SuiteRow> problems(Members& in) {
  std::vector<SuiteRow> out;
  const Json* list = in.find("problems");
  if (!list) return out;
  for (const Json& text : list->items()) {
    const Problem p = Problem::parse(text.as_string());
    out.push_back({to_string(p), p});
  }
  return out;
}

std::function<void(const SweepProgress&)> stages(const JobProgress& progress) {
  if (!progress) return {};
  return
      [progress](const SweepProgress& p) { progress(p.done, p.total, std::string(p.stage) + ": " + p.what); };
}

Json skipped_json(const std::vector<std::pair<std::string, std::string>>& skipped) {
  Json out = Json::array();
  for (const auto& [problem, why] : skipped) out.push(Json::object({{"problem", problem}, {"error", why}}));
  return out;
}

Json decisions_json(const std::vector<TunedDecision>& decisions) {
  Json out = Json::array();
  for (const TunedDecision& d : decisions)
    out.push(Json::object({{"problem", d.problem}, {"config", d.config}, {"time_us", d.us}}));
  return out;
}

std::string needed_database(Members& in) {
  const std::string path = database_path(in.find("database"));
  if (path.empty())
    throw Error(ErrorCode::bad_input, "there is no database to store in", "name one: \"database\"");
  return path;
}

Json plan(Members& in, const JobProgress&) {
  const std::string directory = in.at("directory").as_string();
  std::vector<SuiteRow> rows = problems(in);
  GeneratorOptions g;
  if (const Json* v = in.find("dtypes")) g.dtypes = read_strings(*v);
  if (const Json* v = in.find("layouts")) g.layouts = read_strings(*v);
  g.extra = text_member(in, "extra");
  if (const Json* v = in.find("seed")) g.seed = static_cast<uint64_t>(read_count(*v, 0));
  if (const Json* v = in.find("generate")) {
    for (const std::string& spec : read_strings(*v)) {
      for (SuiteRow& row : generate_problems(spec, g)) rows.push_back(std::move(row));
    }
  }
  const std::string device = text_member(in, "device", "cpu");
  const Json* threads = in.find("threads");
  const int count = threads ? read_int(*threads, 0) : 0;
  const SweepCandidates candidates{text_member(in, "candidates", "all"), text_member(in, "only"), g.seed};
  in.finish();
  note_device_use();
  std::vector<std::pair<std::string, std::string>> skipped;
  const SweepPlan made =
      plan_sweep(rows, device, count, make_backend(device, count)->arch(), candidates, &skipped);
  write_sweep_plan(made, directory);
  return Json::object({{"directory", directory},
                       {"arch", made.arch},
                       {"problems", static_cast<int64_t>(made.problems.size())},
                       {"configs", static_cast<int64_t>(made.configs.size())},
                       {"pairs", static_cast<int64_t>(made.pairs())},
                       {"skipped", skipped_json(skipped)}});
}

Json run(Members& in, const JobProgress& progress) {
  const std::string directory = in.at("directory").as_string();
  SweepOptions o = run_options(in);
  if (const Json* v = in.find("shards")) o.shards = read_int(*v, 1);
  if (const Json* v = in.find("shard")) o.shard = read_int(*v, 0, o.shards - 1);
  if (const Json* v = in.find("retry")) {
    for (const std::string& text : read_strings(*v)) o.retry.insert(parse_sweep_outcome(text));
  }
  in.finish();
  note_device_use();
  const SweepSummary s = run_sweep(directory, o, stages(progress));
  throw_if_interrupted();
  return to_json(s).set("stopped", s.stopped).set("compiled", static_cast<int64_t>(s.compiled));
}

Json status(Members& in, const JobProgress&) {
  const std::string directory = in.at("directory").as_string();
  in.finish();
  const SweepPlan made = read_sweep_plan(directory);
  const SweepResults results = SweepResults::read(directory);
  Json records = Json::array();
  for (const SweepRecord& r : results.records()) records.push(to_json(r));
  return to_json(sweep_status(made, results)).set("arch", made.arch).set("records", std::move(records));
}

Json store(Members& in, const JobProgress&) {
  const std::string directory = in.at("directory").as_string();
  const std::string path = needed_database(in);
  const Json* decide = in.find("decide");
  const bool decides = decide && decide->as_bool();
  in.finish();
  Database database(path, Database::Mode::write);
  const size_t added = database.add(measurements_of_sweep(directory));
  std::vector<TunedDecision> decisions;
  if (decides) {
    decisions = database.best({});
    database.decide(decisions);
  }
  return Json::object({{"database", path},
                       {"added", static_cast<uint64_t>(added)},
                       {"decisions", decisions_json(decisions)}});
}

struct SweepAction {
  std::string_view name;
  Json (*run)(Members&, const JobProgress&);
};

constexpr SweepAction kSweepActions[] = {{"plan", plan}, {"run", run}, {"status", status}, {"store", store}};

}  // namespace

Json tune_job(const Json& options, const JobProgress& progress) {
  Members in(options);
  const std::vector<SuiteRow> rows = problems(in);
  if (rows.empty()) throw Error(ErrorCode::bad_input, "there are no problems to tune");
  const std::string database = needed_database(in);
  TuneOptions o;
  o.device = text_member(in, "device", o.device);
  if (const Json* v = in.find("threads")) o.threads = read_int(*v, 0);
  o.candidates.strategy = text_member(in, "candidates", o.candidates.strategy);
  o.sweep = run_options(in);
  in.finish();
  note_device_use();
  std::vector<std::pair<std::string, std::string>> skipped;
  const auto decisions = tune(rows, o, database, &skipped, stages(progress));
  throw_if_interrupted();
  return Json::object({{"database", database},
                       {"decisions", decisions_json(decisions)},
                       {"skipped", skipped_json(skipped)},
                       {"failed", write_strings(undecided(rows, decisions, skipped))}});
}

Json train_job(const Json& options, const JobProgress& progress) {
  Members in(options);
  std::string arch = text_member(in, "arch");
  if (arch.empty()) arch = detect_cpu().name;
  const std::string operation = text_member(in, "operation", "gemm");
  const std::string path = needed_database(in), out = in.at("out").as_string(),
                    from = text_member(in, "from");
  int units = 0;
  TrainOptions o;
  if (const Json* v = in.find("units")) units = read_int(*v, 0);
  if (const Json* v = in.find("rounds")) o.rounds = read_int(*v, 1);
  if (const Json* v = in.find("depth")) o.depth = read_int(*v, 1, 16);
  if (const Json* v = in.find("rate")) o.rate = read_number(*v, 0);
  if (const Json* v = in.find("seed")) o.seed = static_cast<uint64_t>(read_count(*v, 0));
  in.finish();
  if (!from.empty()) o.start = LearnedModel::parse(read_file(from), from);
  const Database database(path, Database::Mode::read);
  const TrainResult result =
      train(training_data(database, arch, operation, units), o, [&](int trees, double regret) {
        throw_if_interrupted();
        if (progress)
          progress(static_cast<size_t>(trees), static_cast<size_t>(std::max(trees, o.rounds)),
                   format("choices lose %.2f%%", 100 * regret));
      });
  write_model(result, out);
  return result.manifest;
}

Json evaluate_job(const Json& options, const JobProgress& progress) {
  Members in(options);
  const std::string path = needed_database(in), operation = text_member(in, "operation", "gemm"),
                    model = text_member(in, "model"), device = text_member(in, "device", "cpu"),
                    csv = text_member(in, "csv"), html = text_member(in, "html");
  const std::string fold_name = text_member(in, "fold");
  const Fold named = fold_name.empty() ? Fold::test : parse_fold(fold_name);
  int units = 0;
  if (const Json* v = in.find("units")) units = read_int(*v, 0);
  const std::string peer = text_member(in, "peer");
  EvaluateOptions o{.sweep = run_options(in), .device = device};
  in.finish();
  if (!peer.empty()) o.peer = Peer::load(peer);
  note_device_use();
  const TrainingData data = training_data(Database(path, Database::Mode::read),
                                          make_backend(device, 0)->arch().name, operation, units);
  const Fold fold = fold_name.empty() ? data.judging_fold() : named;
  const Model& judged = model_for(model, data.arch, data.problems[0].problem);
  const Evaluation e = evaluate(data, fold, judged, o, stages(progress));
  throw_if_interrupted();
  if (!csv.empty()) write_file_whole(csv, to_csv(e));
  if (!html.empty()) write_file_whole(html, to_html(e));
  return to_json(e);
}

Json sweep_job(const Json& options, const JobProgress& progress) {
  Members in(options);
  return action_of(in, kSweepActions).run(in, progress);
}

}  // namespace tessera::capi
