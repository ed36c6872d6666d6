#include <memory>

#include "base/fs.h"
#include "base/interrupt.h"
#include "base/progress.h"
#include "base/text.h"
#include "cli/output.h"
#include "cli/problems.h"
#include "core/gemm_view.h"
#include "tessera/error.h"
#include "tune/bench.h"

namespace tessera::cli {
namespace {

constexpr Option kOptions[] = {
    many({"--suite", "CSV", "the problems: a file or an embedded suite; may be repeated", Complete::suite}),
    {"--name", "GLOB", "only these rows"},
    {"--dtype", "T", "element types instead of the suite's", Complete::dtype},
    many({"--peers", "A,B", "compare with these libraries", Complete::peer}),
    {"--verify", "", "check every result, the peers' too, against the reference"},
    {"--budget-ms", "MS", "of measuring, for each problem and library (30)"},
    {"--limit", "N", "only the first N problems"},
    {"--prepack", "", "B packed beforehand, the peers' too where they can"},
    {"--csv", "FILE", "write the results as CSV", Complete::file},
    {"--cold", "", "measure with swept caches"},
};

std::vector<SuiteRow> problems(const Invocation& call) {
  std::vector<SuiteRow> rows = problems_of(call);
  if (call.has("--limit"))
    rows.resize(std::min(rows.size(), static_cast<size_t>(call.integer("--limit", 0, 1))));
  for (SuiteRow& row : rows) {
    if (call.has("--prepack")) row.problem.prepack_b = true;
    row.problem.validate();
  }
  return rows;
}

std::string table_text(const std::vector<BenchRow>& rows,
                       const std::vector<std::shared_ptr<const Peer>>& peers) {
  std::vector<std::string> header = {"problem", "m", "n", "k", "kernel", "time", "Gop/s"};
  for (const auto& peer : peers) {
    header.push_back(peer->name());
    header.push_back("speed-up");
  }
  header.emplace_back("result");
  Table table(header);
  for (const BenchRow& row : rows) {
    const GemmView v = lower(row.problem);
    const std::vector<std::string_view> words = split_words(row.config);
    std::string kernel;  // family and register tile say most
    for (std::string_view word : words) {
      if (kernel.empty() || word.starts_with("tile="))
        kernel += (kernel.empty() ? "" : " ") + std::string(word);
    }
    std::vector<std::string> cells = {row.name,
                                      std::to_string(v.m),
                                      std::to_string(v.n),
                                      std::to_string(v.k),
                                      kernel,
                                      row.time_us > 0 ? us_text(row.time_us) : "-",
                                      row.time_us > 0 ? format("%.1f", row.gflops()) : "-"};
    for (size_t i = 0; i < peers.size(); ++i) {
      const bool timed = i < row.peers.size() && row.peers[i].time_us > 0 && row.time_us > 0;
      cells.push_back(timed ? us_text(row.peers[i].time_us) : "-");
      cells.push_back(timed ? format("%.2fx", row.peers[i].time_us / row.time_us) : "-");
    }
    cells.emplace_back(!row.error.empty() ? "FAILED" : row.checked ? "verified" : "not checked");
    table.add(std::move(cells));
  }
  return table.text();
}

int run(const Invocation& call) {
  const std::vector<SuiteRow> rows = problems(call);
  const DispatcherOptions options = call.dispatcher_options();
  const std::string csv = call.output("--csv");
  std::vector<std::shared_ptr<const Peer>> peers;
  for (const std::string& name : call.list("--peers")) {
    if (std::ranges::any_of(peers, [&](const auto& known) { return known->name() == name; }))
      throw UsageError("peer '" + name + "' is named twice");
    peers.push_back(usage([&] { return Peer::load(name); }));
  }
  Dispatcher dispatcher(options);
  std::vector<BenchRow> results;
  {
    std::unique_ptr<Progress> progress;
    const auto show = [&](const char* label, size_t total) {
      progress.reset();
      if (!call.has("--quiet")) progress = std::make_unique<Progress>(label, total);
    };
    const auto update = [&](size_t done, const std::string& what) {
      if (progress) progress->update(done, what);
    };
    // All kernels first, in parallel; what fails to build is reported with its row.
    std::vector<Problem> all;
    all.reserve(rows.size());
    for (const SuiteRow& row : rows) all.push_back(row.problem);
    show("compiling", all.size());
    dispatcher.build(all, 0, [&](size_t done, size_t, const std::string& what) { update(done, what); });
    show("measuring", rows.size());
    BenchOptions o{.verify = call.has("--verify"),
                   .threads = static_cast<int>(dispatcher.describe().at("threads").as_int())};
    o.measure.budget_ms = call.number("--budget-ms", 30);
    o.measure.cold = call.has("--cold");
    for (const SuiteRow& row : rows) {
      update(results.size(), row.name);
      BenchRow result = bench_problem(dispatcher, row, peers, o);
      if (interrupted()) break;
      results.push_back(std::move(result));
    }
  }
  const std::exception_ptr unwritten = failure_of([&] {
    if (!csv.empty()) write_file_whole(csv, to_csv(results));
  });
  const Json summary = bench_summary(results);
  if (call.json()) {
    Json out = Json::array();
    for (const BenchRow& row : results) out.push(to_json(row));
    print_json(Json::object({{"rows", std::move(out)}, {"summary", summary}}));
  } else {
    print(table_text(results, peers));
    print(format("%zu problems on %s, %lld thread(s), geometric mean %.1f Gop/s", results.size(),
                 dispatcher.describe().at("arch").as_string().c_str(),
                 static_cast<long long>(dispatcher.describe().at("threads").as_int()),
                 summary.at("gflops").as_double()));
    for (const auto& peer : peers) {
      const Comparison c = compare(results, peer->name());
      if (c.rows) {
        print(format("%.2fx the speed of %s (geometric mean of %zu; %.2fx to %.2fx): ", c.geomean,
                     peer->name().c_str(), c.rows, c.worst, c.best) +
              peer->description());
      } else {
        print(peer->name() + " offers none of these problems");
      }
    }
  }
  bool failed = false;
  for (const BenchRow& row : results) {
    if (row.error.empty()) continue;
    failed = true;
    say_failed(row.name + ": " + row.error, call.reproduce("run", row.problem, {}, row.config));
  }
  if (unwritten) std::rethrow_exception(unwritten);
  if (interrupted()) std::fprintf(stderr, "measured %zu of %zu problems\n", results.size(), rows.size());
  return failed ? kFailed : kOk;
}

}  // namespace

const Command bench_command{.name = "bench",
                            .words = "--suite CSV | FILE|PROBLEM...",
                            .summary = "run, verify and time many problems, beside other libraries",
                            .options = kOptions,
                            .run = run,
                            .uses = kDispatcher,
                            .complete = Complete::file};

}  // namespace tessera::cli
