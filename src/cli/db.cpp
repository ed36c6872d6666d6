#include "base/fs.h"
#include "base/text.h"
#include "cli/invocation.h"
#include "cli/output.h"
#include "core/json_values.h"
#include "tessera/error.h"
#include "tune/database.h"
#include "tune/renew_times.h"
#include "tune/training_file.h"

namespace tessera::cli {
namespace {

constexpr std::string_view kFiltered = "export query best decisions";

constexpr Option kOptions[] = {
    of(kFiltered, {"--arch", "GLOB", "only what is about this architecture", Complete::arch}),
    of(kFiltered, {"--problem", "GLOB", "only what is about these problems"}),
    of(kFiltered, {"--config-is", "GLOB", "only what is about these configurations"}),
    of("export query best", {"--outcome", "OUTCOME", "only measurements that ended so", Complete::outcome}),
    of("query", {"--limit", "N", "so many rows (20 in the table, all in JSON)"}),
    of("best", {"--decide", "", "store them as decisions"}),
    of("decisions", {"--forget", "", "delete those shown"}),
    of("export", {"--operation", "OP", "to .times: gemm, conv_fwd, ... (gemm)"}),
    of("export", {"--units", "N", "to .times: cores or compute units, when there are several"}),
    of("export", {"--onto", "FILE", "to .times: what FILE.times has already, brought to the level of these",
                  Complete::file}),
    of("export", {"--as-they-were", "", "with --onto: its times stay as they are where these lack them"}),
};

MeasurementFilter filter(const Invocation& call) {
  MeasurementFilter f{call.value("--arch"), call.value("--problem"), call.value("--config-is"),
                      call.value("--outcome")};
  try {  // a whole problem is stored as it prints, defaults and all
    if (f.problem.find_first_of("*?[") == f.problem.npos && !f.problem.empty())
      f.problem = to_string(Problem::parse(f.problem));
  } catch (const Error&) {}  // a pattern then, that matches nothing but itself
  if (!f.outcome.empty()) {
    try {
      parse_sweep_outcome(f.outcome);
    } catch (const Error& e) { throw UsageError(e.what()); }
  }
  return f;
}

Database open(const Invocation& call, Database::Mode mode) {
  if (call.database().empty()) throw UsageError("no database; name one with --db");
  return Database(call.database(), mode);
}

// Directories of sweeps, and files that `export` wrote as JSON.
int import(const Invocation& call) {
  call.word(0, "the directory of a sweep, or a JSON file,");
  std::vector<Measurement> all;  // read before the database is touched, which may be made by it
  std::vector<TunedDecision> decisions;
  size_t damaged = 0;
  for (const std::string& from : call.words) {
    if (from.ends_with(".json")) {
      const Json file = Json::parse(read_file(from), from);
      for (const Json& m : file.at("measurements").items()) all.push_back(measurement_from_json(m));
      for (const Json& d : file.at("decisions").items()) {
        decisions.push_back({d.at("arch").as_string(), static_cast<int>(d.at("units").as_int()),
                             d.at("problem").as_string(), d.at("config").as_string(), d.at("us").as_double(),
                             d.at("time").as_int()});
      }
    } else {
      for (Measurement& m : measurements_of_sweep(from, &damaged)) all.push_back(std::move(m));
    }
  }
  Database db = open(call, Database::Mode::write);
  const size_t read = all.size(), added = db.add(all);
  db.decide(decisions);
  if (damaged)
    std::fprintf(stderr,
                 "%zu damaged lines of journals were left out; their measurements can be taken again: "
                 "tessera sweep run\n",
                 damaged);
  if (call.json()) {
    print_json(Json::object({{"database", db.path()},
                             {"read", static_cast<int64_t>(read)},
                             {"added", static_cast<int64_t>(added)}}));
  } else {
    print(std::to_string(added) + " measurements added to " + db.path() + ", " +
          std::to_string(read - added) + " were there");
  }
  return kOk;
}

Json decision_json(const TunedDecision& d) {
  return Json::object({{"arch", d.arch},
                       {"units", d.units},
                       {"problem", d.problem},
                       {"config", d.config},
                       {"us", d.us},
                       {"time", d.time}});
}

// What a file of measurements holds, and how many they are.
struct Export {
  std::string text;
  int64_t measurements = 0;
};

Export csv(const Database& db, const MeasurementFilter& f) {
  Export out{
      "arch,units,processor,problem,config,outcome,median_us,best_us,samples,anchor_us,cpu_share,max_err,"
      "bound,attempts,time,tool,detail\n"};
  db.each(f, [&](const Measurement& m) {
    ++out.measurements;
    const SweepRecord& r = m.record;
    std::string samples;
    for (double us : r.samples) samples += (samples.empty() ? "" : " ") + number_text(us);
    for (const std::string& cell :
         {m.device.arch, std::to_string(m.device.units), m.device.processor, r.problem, r.config,
          std::string(to_string(r.outcome)), number_text(r.median_us), number_text(r.best_us), samples,
          number_text(r.anchor_us), number_text(r.cpu_share), number_text(r.max_err), number_text(r.bound),
          std::to_string(r.attempts), std::to_string(r.time), m.tool})
      out.text += csv_cell(cell) + ',';
    out.text += csv_cell(r.detail) + '\n';
  });
  return out;
}

Export json(const Database& db, const MeasurementFilter& f) {
  Json measurements = Json::array(), decisions = Json::array();
  db.each(f, [&](const Measurement& m) { measurements.push(to_json(m)); });
  for (const TunedDecision& d : db.decisions()) decisions.push(decision_json(d));
  const auto count = static_cast<int64_t>(measurements.size());
  return {
      Json::object(
          {{"version", 1}, {"measurements", std::move(measurements)}, {"decisions", std::move(decisions)}})
          .dump(),
      count};
}

// Times for training: all there are, or what --onto has renewed by them. Adds what was done to `said`.
std::string times(const Invocation& call, const Database& db, const std::string& arch, Json& said) {
  const int units = static_cast<int>(call.integer("--units", 0));
  TrainingData data = training_data(db, arch, call.value("--operation", "gemm"), units);
  if (call.has("--onto")) {
    const TrainingData newer = std::move(data);
    data = parse_training_data(read_file(call.value("--onto")), call.value("--onto"));
    const Renewal done = renew(data, newer, !call.has("--as-they-were"));
    said.set("added", static_cast<int64_t>(done.added));
    said.set("renewed", static_cast<int64_t>(done.renewed));
    said.set("levelled", static_cast<int64_t>(done.levelled));
    said.set("level", done.level);
    if (!call.json()) {
      print(std::to_string(done.added) + " problems added, " + std::to_string(done.renewed) +
            " measured again, in " + format("%.2f", done.level) + " of the time; " +
            std::to_string(done.levelled) + " older times of theirs brought to the new level");
    }
  }
  said.set("problems", static_cast<int64_t>(data.problems.size()));
  return to_text(data);
}

int export_to(const Invocation& call) {
  const std::string path = call.word(0, "the file to write (.csv, .json or .times)");
  call.no_more_words(1);
  if (!path.ends_with(".csv") && !path.ends_with(".json") && !path.ends_with(".times"))
    throw UsageError("the file's name ends with .csv, .json or .times");
  for (const char* of_times : {"--operation", "--units", "--onto", "--as-they-were"}) {
    if (call.has(of_times) && !path.ends_with(".times"))
      throw UsageError(std::string(of_times) + " is of a .times file");
  }
  if (call.has("--as-they-were") && !call.has("--onto")) throw UsageError("--as-they-were is of --onto");
  const MeasurementFilter f = filter(call);
  check_writable(path);
  const Database db = open(call, Database::Mode::read);
  Json said = Json::object({{"file", path}});
  if (path.ends_with(".times")) {
    write_file_whole(path, times(call, db, f.arch.empty() ? detect_cpu().name : f.arch, said));
  } else {
    const Export all = path.ends_with(".csv") ? csv(db, f) : json(db, f);
    write_file_whole(path, all.text);
    said.set("measurements", all.measurements);
  }
  if (call.json()) {
    print_json(said);
  } else {
    const char* what = path.ends_with(".times") ? "problems" : "measurements";
    print(std::to_string(said.at(what).as_int()) + " " + what + " written to " + path);
  }
  return kOk;
}

int merge(const Invocation& call) {
  call.word(0, "the database to merge in");
  for (const std::string& from : call.words)
    Database(from, Database::Mode::read);  // refused before any is in
  Database db = open(call, Database::Mode::write);
  size_t added = 0;
  for (const std::string& from : call.words) added += db.merge(from);
  call.json() ? print_json(Json::object({{"added", static_cast<int64_t>(added)}}))
              : print(std::to_string(added) + " measurements added to " + db.path());
  return kOk;
}

int query(const Invocation& call) {
  call.no_more_words(0);
  const MeasurementFilter f = filter(call);
  const Database db = open(call, Database::Mode::read);
  const auto limit = static_cast<size_t>(call.integer("--limit", call.json() ? INT32_MAX : 20));
  Json rows = Json::array();
  Table table({"problem", "config", "outcome", "median", "least", "samples"});
  size_t found = 0;
  db.each(f, [&](const Measurement& m) {
    if (found++ >= limit) return;
    const SweepRecord& r = m.record;
    rows.push(to_json(m));
    table.add({r.problem, r.config, std::string(to_string(r.outcome)), us_text(r.median_us),
               us_text(r.best_us), std::to_string(r.samples.size())});
  });
  if (call.json()) {
    print_json(Json::object({{"found", static_cast<int64_t>(found)}, {"measurements", std::move(rows)}}));
    return kOk;
  }
  if (!table.empty()) print(table.text());
  print(std::to_string(found) + " measurements" + (found > limit ? "; --limit N shows more" : ""));
  return kOk;
}

void show(const Invocation& call, const char* key, const std::vector<TunedDecision>& decisions) {
  Json rows = Json::array();
  Table table({"arch", "units", "problem", "config", "time"});
  for (const TunedDecision& d : decisions) {
    rows.push(decision_json(d));
    table.add({d.arch, std::to_string(d.units), d.problem, d.config, us_text(d.us)});
  }
  call.json() ? print_json(Json::object({{key, std::move(rows)}})) : print(table.text());
}

int best(const Invocation& call) {
  call.no_more_words(0);
  const MeasurementFilter f = filter(call);
  const std::vector<TunedDecision> winners = open(call, Database::Mode::read).best(f);
  if (call.has("--decide")) open(call, Database::Mode::write).decide(winners);
  show(call, "best", winners);
  return kOk;
}

int decisions(const Invocation& call) {
  call.no_more_words(0);
  const MeasurementFilter f = filter(call);
  const std::vector<TunedDecision> shown = open(call, Database::Mode::read).decisions(f);
  show(call, "decisions", shown);
  if (call.has("--forget")) open(call, Database::Mode::write).forget(shown);
  return kOk;
}

int verify(const Invocation& call) {
  call.no_more_words(0);
  const Database db = open(call, Database::Mode::read);
  const std::vector<std::string> wrong = db.verify();
  if (call.json()) {
    print_json(Json::object({{"database", db.path()}, {"wrong", write_strings(wrong)}}));
  } else {
    for (const std::string& w : wrong) print(w);
    if (wrong.empty()) print(db.path() + " is sound");
  }
  if (wrong.empty()) return kOk;
  return say_failed("corrupt: " + db.path() + ": " + std::to_string(wrong.size()) + " damaged",
                    call.reproduce());
}

constexpr unsigned kUses = kDatabase | kJson;

constexpr Action kActions[] = {
    {"import", "DIR|FILE.json...", "adds the measurements of sweeps, or of an export", import, kUses},
    {"export", "FILE.csv|.json|.times", "writes measurements, with all samples, or times for training",
     export_to, kUses},
    {"merge", "FILE...", "adds other databases", merge, kUses},
    {"query", "", "shows measurements", query, kUses},
    {"best", "", "the fastest right configuration of each problem", best, kUses},
    {"decisions", "", "what dispatchers choose before they ask the model", decisions, kUses},
    {"verify", "", "checks the file and every text in it", verify, kUses},
};

}  // namespace

const Command db_command{
    .name = "db",
    .words = "",
    .summary = "measurements and decisions: import, export, merge, query, best, decisions, verify",
    .options = kOptions,
    .run = nullptr,
    .actions = kActions,
    .complete = Complete::file};

}  // namespace tessera::cli
