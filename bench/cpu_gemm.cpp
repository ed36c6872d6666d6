// GEMM on one core beside other libraries, class by class.
//
//   bench_cpu_gemm [--dtype f32,bf16,u8xi8,i8] [--class tiny,odd,...] [--peers onednn,...]
//                  [--mode plain,packed] [--quick] [--threads N] [--policy P] [--suite CSV] [--budget-ms MS]
//                  [--no-verify] [--only-machine] [--out DIR]
//
// One run interleaves ours and the peers' calls on the same operands; every result is verified. DIR
// (build/bench) gets cpu_gemm.<dtype>.<mode>.csv with every time and cpu_gemm.json with the summaries.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <set>

#include "base/fs.h"
#include "base/interrupt.h"
#include "base/progress.h"
#include "base/text.h"
#include "core/gemm_view.h"
#include "cpu_gemm_cases.h"
#include "cpu_packing.h"
#include "cpu_peaks.h"
#include "program.h"
#include "tessera/error.h"
#include "tune/bench.h"
#include "tune/operands.h"

using namespace tessera;

namespace {

struct Options {
  std::vector<std::string> dtypes = {"f32", "bf16", "u8xi8", "i8"}, classes, peers,
                           modes = {"plain", "packed"};
  std::string suite = "cpu_gemm.csv", out = "build/bench", policy = "model";
  double budget_ms = 20;
  int64_t threads = 1;
  bool quick = false, no_verify = false, only_machine = false;
};

// Prints like the table helper of any terminal program: the first column to the left, the rest to the right.
void print_row(const std::vector<std::string>& cells) {
  for (size_t i = 0; i < cells.size(); ++i) std::printf(i == 0 ? "  %-22s" : " %12s", cells[i].c_str());
  std::printf("\n");
}

double geomean(const std::vector<double>& values) {
  double logs = 0;
  for (double v : values) logs += std::log(v);
  return values.empty() ? 0 : std::exp(logs / static_cast<double>(values.size()));
}

// Peer time / our time of every row that both have; "best" is the fastest peer of each row.
std::vector<double> ratios(const std::vector<const BenchRow*>& rows, const std::string& peer) {
  std::vector<double> out;
  for (const BenchRow* row : rows) {
    double us = 0;
    for (const PeerResult& p : row->peers) {
      if (p.time_us > 0 && (p.name == peer || peer == "best") && (us == 0 || p.time_us < us)) us = p.time_us;
    }
    if (us > 0 && row->time_us > 0) out.push_back(us / row->time_us);
  }
  return out;
}

Json class_table(const std::vector<BenchRow>& rows, const std::vector<std::string>& peers) {
  std::vector<std::string> columns = peers;
  columns.emplace_back("best");
  std::vector<std::string> header = {"class", "problems", "Gop/s"};
  for (const std::string& c : columns) header.push_back("vs " + c);
  print_row(header);
  Json out = Json::object();
  std::vector<std::string> names;
  for (const ShapeClass& c : shape_classes()) names.push_back(c.name);
  names.emplace_back("all");
  for (const std::string& name : names) {
    std::vector<const BenchRow*> mine;
    std::vector<double> gops;
    for (const BenchRow& row : rows) {
      if (name != "all" && class_of(row.problem) != name) continue;
      mine.push_back(&row);
      if (row.time_us > 0) gops.push_back(row.gflops());
    }
    if (mine.empty()) continue;
    std::vector<std::string> cells = {name, std::to_string(mine.size()), format("%.1f", geomean(gops))};
    Json against = Json::object();
    for (const std::string& c : columns) {
      const std::vector<double> all = ratios(mine, c);
      cells.push_back(all.empty() ? "-" : format("%.2fx", geomean(all)));
      if (all.empty()) continue;
      against.set(c, Json::object({{"problems", static_cast<int64_t>(all.size())},
                                   {"geomean", geomean(all)},
                                   {"worst", *std::min_element(all.begin(), all.end())}}));
    }
    print_row(cells);
    out.set(name, Json::object({{"problems", static_cast<int64_t>(mine.size())},
                                {"gops", geomean(gops)},
                                {"speedup", std::move(against)}}));
  }
  return out;
}

std::vector<SuiteRow> rows_of(const Options& o, const std::string& dtype, bool packed) {
  std::vector<SuiteRow> rows = built_in_rows(dtype);
  if (!o.suite.empty()) {
    for (SuiteRow& row : read_suite(o.suite, {.dtype = dtype})) rows.push_back(std::move(row));
  }
  std::erase_if(rows, [&](const SuiteRow& row) {
    return !o.classes.empty() &&
           std::find(o.classes.begin(), o.classes.end(), class_of(row.problem)) == o.classes.end();
  });
  if (o.quick) {  // every fifth of each class
    std::map<std::string, int> seen;
    std::erase_if(rows, [&](const SuiteRow& row) { return seen[class_of(row.problem)]++ % 5 != 0; });
  }
  for (SuiteRow& row : rows) {
    row.problem.prepack_b = packed;
    row.problem.validate();
  }
  return rows;
}

std::vector<BenchRow> run_rows(const Options& o, const std::vector<SuiteRow>& rows,
                               const std::vector<std::shared_ptr<const Peer>>& peers) {
  DispatcherOptions options;
  options.threads = static_cast<int>(o.threads);
  options.policy = parse_policy(o.policy);
  options.background = false;
  Dispatcher dispatcher(options);
  std::vector<Problem> problems;
  for (const SuiteRow& row : rows) problems.push_back(row.problem);
  {
    Progress progress("compiling", rows.size());
    dispatcher.build(problems, 0,
                     [&](size_t done, size_t, const std::string& what) { progress.update(done, what); });
  }
  BenchOptions b{.verify = !o.no_verify, .threads = static_cast<int>(o.threads)};
  b.measure = {.batch_us = std::min(500.0, o.budget_ms * 100), .budget_ms = o.budget_ms, .min_rounds = 5};
  std::vector<BenchRow> out;
  Progress progress("measuring", rows.size());
  for (const SuiteRow& row : rows) {
    progress.update(out.size(), row.name);
    out.push_back(bench_problem(dispatcher, row, peers, b));
    if (interrupted()) {
      out.pop_back();
      break;
    }
    const BenchRow& r = out.back();
    if (!r.error.empty()) progress.note("error: " + to_string(r.problem) + " " + r.config + ": " + r.error);
    for (const PeerResult& p : r.peers) {
      if (p.time_us > 0 && r.checked && !p.verified)
        progress.note("error: " + p.name + ": " + to_string(r.problem) + ": " + p.why);
    }
  }
  return out;
}

// 1024^3 with B plain and packed, beside what the registers alone can do of the instruction that multiplies
// the type fastest: in turns, so that clock and neighbours are the same for all, and by the middle sample of
// each.
Json peak_share(const Options& o, const std::vector<Peak>& peaks) {
  const std::pair<const char*, std::vector<std::string>> types[] = {
      {"f32", {"fma"}}, {"bf16", {"amx_bf16", "dpbf16", "fma"}}, {"u8xi8", {"amx_int8", "vnni"}}};
  Json out = Json::array();
  for (const auto& [dtype, instructions] : types) {
    const Peak* peak = nullptr;
    for (const Peak& p : peaks) {
      const bool multiplies =
          std::find(instructions.begin(), instructions.end(), p.name) != instructions.end();
      if (multiplies && (!peak || p.gops > peak->gops)) peak = &p;
    }
    if (!peak) continue;
    DispatcherOptions options;
    options.threads = 1;
    options.policy = parse_policy(o.policy);
    options.background = false;
    Dispatcher dispatcher(options);
    std::vector<Problem> problems;
    for (const char* extra : {"", " prepack=b"})
      problems.push_back(Problem::parse("gemm m=1024 n=1024 k=1024 dtype=" + std::string(dtype) + extra));
    std::vector<Operands> operands;
    operands.reserve(problems.size());
    std::vector<GuardedBuffer> packed;
    std::vector<Repeated> work = {peak->loop};
    for (const Problem& p : problems) {
      const Kernel& kernel = dispatcher.get(p);
      operands.emplace_back(p, FillKind::uniform, 1, Operands::kTimingAlign);
      Buffers b = operands.back().bind(kernel);
      if (p.prepack_b) {
        packed.emplace_back(kernel.packed_b_bytes());
        kernel.pack_b(operands.back().b(), packed.back().data());
        b.b = packed.back().data();
      }
      work.emplace_back([&kernel, b](int repeats) {
        for (int i = 0; i < repeats; ++i) kernel.run_unchecked(b);
      });
    }
    const auto t = measure(work, {.batch_us = 10000, .budget_ms = 1000});
    const double limit = peak->ops / t[0].median_us / 1e3;
    for (size_t i = 0; i < problems.size(); ++i) {
      const double gops = 2.0 * 1024 * 1024 * 1024 / t[i + 1].median_us / 1e3;
      const std::string config = to_string(dispatcher.get(problems[i]).choice().config);
      std::printf("  %-6s 1024^3 %-7s %8.1f Gop/s = %5.1f%% of %s (%.0f)  %s\n", dtype,
                  problems[i].prepack_b ? "packed" : "plain", gops, 100 * gops / limit, peak->name.c_str(),
                  limit, config.c_str());
      out.push(Json::object({{"dtype", dtype},
                             {"packed", problems[i].prepack_b},
                             {"gops", gops},
                             {"peak", peak->name},
                             {"peak_gops", limit},
                             {"share", gops / limit},
                             {"config", config}}));
    }
  }
  return out;
}

// A call through a prepared kernel, in nanoseconds.
Json call_cost() {
  Json out = Json::array();
  for (const char* size : {"m=1 n=1 k=1", "m=4 n=4 k=4", "m=8 n=8 k=8", "m=16 n=16 k=16"}) {
    const Problem p = Problem::parse("gemm " + std::string(size) + " dtype=f32 layout=rrr");
    DispatcherOptions options;
    options.threads = 1;
    Dispatcher dispatcher(options);
    const Kernel& kernel = dispatcher.get(p);
    Operands operands(p, FillKind::uniform, 1, Operands::kTimingAlign);
    const Buffers b = operands.bind(kernel);
    const Repeated work[] = {[&](int repeats) {
                               for (int i = 0; i < repeats; ++i) kernel.run_unchecked(b);
                             },
                             [&](int repeats) {
                               for (int i = 0; i < repeats; ++i) kernel.run(b);
                             },
                             [&](int repeats) {
                               for (int i = 0; i < repeats; ++i) dispatcher.run(p, b);
                             }};
    const auto t = measure(work, {.budget_ms = 60});
    std::printf("  %-16s run_unchecked %6.1f ns, run %6.1f ns, Dispatcher::run %6.1f ns  %s\n", size,
                1e3 * t[0].median_us, 1e3 * t[1].median_us, 1e3 * t[2].median_us,
                to_string(kernel.choice().config).c_str());
    out.push(Json::object({{"problem", to_string(p)},
                           {"run_unchecked_ns", 1e3 * t[0].median_us},
                           {"run_ns", 1e3 * t[1].median_us},
                           {"dispatcher_run_ns", 1e3 * t[2].median_us}}));
  }
  return out;
}

Options parse(int argc, char** argv) {
  Options o;
  o.peers = found_peers();
  const Setting settings[] = {
      {"--dtype", &o.dtypes},  {"--class", &o.classes},       {"--peers", &o.peers},
      {"--mode", &o.modes},    {"--suite", &o.suite},         {"--out", &o.out},
      {"--policy", &o.policy}, {"--threads", &o.threads},     {"--budget-ms", &o.budget_ms, 0},
      {"--quick", &o.quick},   {"--no-verify", &o.no_verify}, {"--only-machine", &o.only_machine}};
  read_settings(argc, argv, settings, "bench/cpu_gemm.cpp");
  for (const std::string& c : o.classes) {
    const auto& known = shape_classes();
    if (std::any_of(known.begin(), known.end(), [&](const ShapeClass& k) { return k.name == c; })) continue;
    std::string all;
    for (const ShapeClass& k : known) all += "\n  " + k.name + ": " + k.doc;
    throw Error(ErrorCode::bad_input, "no class '" + c + "'", "classes:" + all);
  }
  return o;
}

// The measurements of other runs stay in the file.
void save(const std::string& path, const std::string& key, const Json& value) {
  Json all = Json::object();
  if (auto text = try_read_file(path)) all = Json::parse(*text, path);
  all.set(key, value);
  write_file_whole(path, all.dump(1) + "\n");
}

int run(const Options& o) {
  make_directories(o.out);
  const std::string json = o.out + "/cpu_gemm.json";
  std::vector<std::shared_ptr<const Peer>> peers;
  Json about = Json::object();
  for (const std::string& name : o.peers) {
    peers.push_back(Peer::load(name));
    about.set(name, peers.back()->description());
    std::printf("%-10s %s\n", name.c_str(), peers.back()->description().c_str());
  }
  save(json, "peers", about);
  if (o.only_machine) {
    std::printf("\nMachine and overheads, one thread\n");
    const std::vector<Peak> peaks = measure_peaks();
    Json rates = Json::object();
    for (const Peak& p : peaks) {
      std::printf("  peak %-9s %8.1f Gop/s\n", p.name.c_str(), p.gops);
      rates.set(p.name, p.gops);
    }
    save(json, "machine",
         Json::object({{"peaks_gops", rates},
                       {"share_of_peak", peak_share(o, peaks)},
                       {"packing", measure_packing()},
                       {"call_cost", call_cost()}}));
    return 0;
  }
  int status = 0;
  for (const std::string& dtype : o.dtypes) {
    for (const std::string& mode : o.modes) {
      const std::vector<BenchRow> rows = run_rows(o, rows_of(o, dtype, mode == "packed"), peers);
      std::printf("\n%s, B %s, %d thread(s)\n", dtype.c_str(), mode.c_str(), static_cast<int>(o.threads));
      const Json table = class_table(rows, o.peers);
      const std::string key =
          dtype + "." + mode + (o.threads == 1 ? "" : "." + std::to_string(o.threads) + "t");
      write_file_whole(o.out + "/cpu_gemm." + key + ".csv", to_csv(rows));
      save(json, key, Json::object({{"classes", table}, {"summary", bench_summary(rows)}}));
      for (const BenchRow& row : rows) status |= !row.error.empty();
      if (interrupted()) return interrupted_status();
    }
  }
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  return exit_status([&] {
    const Options o = parse(argc, argv);
    // The OpenMP run-time reads this when it is loaded: unbound threads may share a core.
    if (o.threads > 1 && !std::getenv("OMP_PROC_BIND")) {
      setenv("OMP_PROC_BIND", "true", 1);
      execv("/proc/self/exe", argv);
    }
    catch_interrupts();
    return run(o);
  });
}
