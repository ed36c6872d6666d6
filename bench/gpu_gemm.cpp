// Our GEMMs on one CUDA device, against cuBLASLt or among each other.
//
//   bench_gpu_gemm SUITE.csv OUT.csv [--dtype bf16] [--every N] [--offset I] [--limit N] [--max-mb MB]
//                  [--policy model|model_topk] [--top-k 3] [--first-algo] [--rounds 7] [--warm-ms 60]
//                  [--final-ms 1.5] [--configs N | --all-configs] [--ahead]
//
// Rows I, I + N, ... of the suite whose operands take at most MB. Ours beside the algorithms that cuBLASLt
// offers (with 64 MiB of workspace; --first-algo: only its first choice): the candidates interleaved,
// `rounds` times after warm-ms, final-ms each. Results are compared with cuBLASLt's.
//   --configs      so many legal configurations of each problem instead (gpu_configs.h), compared
//   --all-configs  every legal one: OUT.csv has each problem's best and the models' choices (oracle.h)
//   --ahead        needs no device: compiles the configurations into the kernel cache, to be carried to one
// Launches are replayed as CUDA graphs over buffer sets beyond the L2 cache; data is random.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cuda_graphs.h"
#include "gpu_configs.h"
#include "gpu_sets.h"
#include "lt_matmul.h"
#include "oracle.h"
#include "program.h"
#include "tessera/dispatcher.h"
#include "tessera/error.h"
#include "tune/suite.h"

using namespace tessera;

namespace {

constexpr double kMostDifference = 5e-3;  // of results whose sums are rounded in another order

struct Options {
  std::string suite, out, dtype = "bf16", policy = "model";
  int64_t every = 1, offset = 0, limit = 0, top_k = 3, rounds = 7, configs = 0;
  double max_mb = 4000, warm_ms = 60, final_ms = 1.5;
  bool first_algo = false, all_configs = false, ahead = false;

  size_t most_configs() const { return all_configs ? SIZE_MAX : static_cast<size_t>(configs); }
};

Options parse(int argc, char** argv) {
  Options o;
  const Setting settings[] = {{"suite", &o.suite},
                              {"out", &o.out},
                              {"--dtype", &o.dtype},
                              {"--policy", &o.policy},
                              {"--every", &o.every},
                              {"--offset", &o.offset, 0},
                              {"--limit", &o.limit, 0},
                              {"--top-k", &o.top_k},
                              {"--rounds", &o.rounds},
                              {"--configs", &o.configs, 0},
                              {"--max-mb", &o.max_mb, 0},
                              {"--warm-ms", &o.warm_ms, 0},
                              {"--final-ms", &o.final_ms, 0},
                              {"--first-algo", &o.first_algo},
                              {"--all-configs", &o.all_configs},
                              {"--ahead", &o.ahead}};
  read_settings(argc, argv, settings, "bench/gpu_gemm.cpp");
  return o;
}

std::vector<SuiteRow> drawn_rows(const Options& o) {
  int64_t index = 0;
  std::vector<SuiteRow> rows;
  for (const SuiteRow& row : read_suite(o.suite, {.dtype = o.dtype, .extra = {}, .name = {}})) {
    if (o.limit > 0 && static_cast<int64_t>(rows.size()) == o.limit) break;
    const auto bytes = bytes_of_set(lower(row.problem));
    const bool drawn = index++ % o.every == o.offset;
    if (drawn && static_cast<double>(bytes[0] + bytes[1] + bytes[2]) <= o.max_mb * 1e6) rows.push_back(row);
  }
  return rows;
}

struct Counts {
  size_t problems = 0, wrong = 0, failed = 0;
  // The exit status, after saying why.
  int status() const {
    std::printf("%zu problems, %zu wrong, %zu failed\n", problems, wrong, failed);
    return wrong || failed ? 1 : 0;
  }
};

// work(row) for each; what it throws is printed.
template <class F>
void on_each(const std::vector<SuiteRow>& rows, Counts& counts, const F& work) {
  for (const SuiteRow& row : rows) {
    ++counts.problems;
    try {
      work(row);
    } catch (const std::exception& e) {
      ++counts.failed;
      std::printf("FAILED %s: %s\n", to_string(row.problem).c_str(), e.what());
    }
  }
}

struct File {
  explicit File(const std::string& path) : to(std::fopen(path.c_str(), "w")) {
    if (!to) throw Error(ErrorCode::io, "cannot write " + path);
  }
  File(const File&) = delete;
  ~File() { std::fclose(to); }
  std::FILE* to;
};

// So many launches that they take about `us`.
int launches(double us, double once, double least, double most) {
  return static_cast<int>(std::clamp(us / once, least, most));
}

// ---- configurations among each other

// Microseconds of each kernel by its configuration; the results of all compared with the first one's.
std::map<std::string, double> time_configs(const SuiteRow& row,
                                           const std::vector<std::unique_ptr<Kernel>>& kernels,
                                           std::FILE* csv, size_t& wrong) {
  const BufferSets sets(lower(row.problem));
  const std::string problem = to_string(row.problem);
  std::map<std::string, double> times;
  double best = INFINITY, chosen = 0;
  for (const auto& k : kernels) {
    if (!k) continue;
    const std::string config = to_string(k->choice().config);
    sets.poison();
    k->run(sets[0]);
    CU(cuStreamSynchronize(stream));
    if (times.empty()) {
      sets.keep();
    } else if (const double off = sets.difference(size_t{2} << 20); !(off < kMostDifference)) {
      ++wrong;
      std::printf("WRONG %s --config '%s': %g\n", problem.c_str(), config.c_str(), off);
    }
    Timed c{.name = config, .enqueue = [&](int i) { k->run_unchecked(sets[i]); }};
    capture(c, 2, sets.count());
    replay(c);
    const double once = replay(c);
    capture(c, launches(1000, once, 1, 300), sets.count());
    for (int r = 0; r < 4; ++r) c.us.push_back(replay(c));
    CU(cuGraphExecDestroy(c.graph));
    std::sort(c.us.begin(), c.us.end());
    const double us = c.us[1];
    times[config] = us;
    if (csv)
      std::fprintf(csv, "%s,%s,%s,%.2f,%.3f\n", row.name.c_str(), problem.c_str(), config.c_str(),
                   k->choice().predicted_us, us);
    best = std::min(best, us);
    if (chosen == 0) chosen = us;
  }
  std::printf("%-36s %-56s best %8.2f chosen %8.2f  %.3f of %zu\n", row.name.c_str(), problem.c_str(), best,
              chosen, best / chosen, kernels.size());
  if (csv) std::fflush(csv);
  return times;
}

int compare_configs(const Options& o) {
  Workshop workshop;
  std::unique_ptr<Oracle> oracle;
  std::unique_ptr<File> csv;
  if (o.all_configs) {
    oracle = std::make_unique<Oracle>(o.out, "cuda:0", workshop.arch());
  } else {
    csv = std::make_unique<File>(o.out);
    std::fprintf(csv->to, "name,problem,config,predicted_us,us\n");
  }
  const std::vector<SuiteRow> rows = drawn_rows(o);
  const auto prepare = [&](const SuiteRow& row) {
    return std::async(std::launch::async, [&] {
      return workshop.make(row.problem,
                           sample_configs(lower(row.problem), workshop.arch(), o.most_configs()));
    });
  };
  std::future<std::vector<std::unique_ptr<Kernel>>> ahead;
  if (!rows.empty()) ahead = prepare(rows[0]);
  Counts counts;
  on_each(rows, counts, [&](const SuiteRow& row) {
    // The next problem's kernels are compiled while this one's are measured.
    auto made = std::move(ahead);
    if (&row != &rows.back()) ahead = prepare(*(&row + 1));
    const auto times = time_configs(row, made.get(), csv ? csv->to : nullptr, counts.wrong);
    if (oracle) oracle->add(row.problem, times);
  });
  const int status = counts.status();
  if (oracle) oracle->print();
  return status;
}

int compile_all(const Options& o) {
  KernelCache cache({});
  for (const SuiteRow& row : drawn_rows(o)) {
    const GemmView v = lower(row.problem);
    compile_ahead(v, sample_configs(v, find_arch("sm_90a"), o.most_configs()), cache);
  }
  return 0;
}

// ---- ours against cuBLASLt

struct Against {
  double ours = 0, first = 0, best = 0;  // microseconds; 0: cuBLASLt has none
};

// candidates[0] is ours, [1] cuBLASLt's first choice.
Against time_candidates(const Options& o, std::vector<Timed>& candidates, int sets) {
  std::vector<double> quick;
  for (Timed& c : candidates) {
    capture(c, 2, sets);
    replay(c);
    capture(c, launches(400, replay(c), 1, 300), sets);
    replay(c);
    quick.push_back(replay(c));
  }
  // Ours, cuBLASLt's first and the three of the others that did best.
  std::vector<size_t> finals, order;
  for (size_t i = 0; i < candidates.size(); ++i) (i < 2 ? finals : order).push_back(i);
  std::sort(order.begin(), order.end(), [&](size_t x, size_t y) { return quick[x] < quick[y]; });
  finals.insert(finals.end(), order.begin(),
                order.begin() + static_cast<ptrdiff_t>(std::min<size_t>(3, order.size())));
  for (size_t i : finals) capture(candidates[i], launches(o.final_ms * 1e3, quick[i], 2, 1000), sets);
  const auto start = std::chrono::steady_clock::now();
  while (std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count() <
         o.warm_ms)
    for (size_t i : finals) replay(candidates[i]);
  for (int64_t r = 0; r < o.rounds; ++r)
    for (size_t i : finals) candidates[i].us.push_back(replay(candidates[i]));
  for (Timed& c : candidates) CU(cuGraphExecDestroy(c.graph));
  Against out{.ours = candidates[0].median()};
  if (candidates.size() > 1) out.first = out.best = candidates[1].median();
  for (size_t i : finals)
    if (i > 0) out.best = std::min(out.best, candidates[i].median());
  return out;
}

struct Totals {
  double best = 0, first = 0;  // sums of logarithms
  int count = 0;
};

// The classes that a problem counts in.
std::vector<std::string> classes_of(const Problem& p) {
  const bool aligned = p.m % 8 == 0 && p.n % 8 == 0 && p.k % 8 == 0;
  return {"all", aligned ? "multiples of 8" : "other sizes", p.m <= 64 ? "m <= 64" : "m > 64"};
}

int compare_with_lt(const Options& o) {
  open_cublas_lt();
  DispatcherOptions options;
  options.device = "cuda:0";
  options.policy = parse_policy(o.policy);
  options.background = false;
  options.top_k = static_cast<int>(o.top_k);
  Dispatcher dispatcher(options);
  const File csv(o.out);
  std::fprintf(
      csv.to,
      "name,problem,config,predicted_us,ours_us,lt_first_us,lt_best_us,lt_algos,tflops,rel_error,jit_ms,"
      "select_us\n");
  std::map<std::string, Totals> classes;
  Counts counts;
  on_each(drawn_rows(o), counts, [&](const SuiteRow& row) {
    const Problem& p = row.problem;
    const GemmView v = lower(p);
    const BufferSets sets(v);
    BuildInfo build;
    const Kernel& kernel = dispatcher.get(p, &build);
    LtMatmul matmul(v, o.first_algo ? 1 : 32);
    sets.poison();
    kernel.run(sets[0]);
    if (matmul.algos() > 0) matmul.enqueue(0, sets.reference());
    CU(cuStreamSynchronize(stream));
    const double off = matmul.algos() > 0 ? sets.difference(size_t{32} << 20) : 0;
    if (!(off < kMostDifference)) ++counts.wrong, std::printf("WRONG %s: %g\n", to_string(p).c_str(), off);
    std::vector<Timed> candidates;
    candidates.push_back({.name = "ours", .enqueue = [&](int i) { kernel.run_unchecked(sets[i]); }});
    for (size_t a = 0; a < matmul.algos(); ++a)
      candidates.push_back(
          {.name = "lt" + std::to_string(a), .enqueue = [&, a](int i) { matmul.enqueue(a, sets[i]); }});
    const Against us = time_candidates(o, candidates, sets.count());
    const std::string config = to_string(kernel.choice().config);
    std::fprintf(csv.to, "%s,%s,%s,%.2f,%.3f,%.3f,%.3f,%zu,%.1f,%.3g,%.1f,%.0f\n", row.name.c_str(),
                 to_string(p).c_str(), config.c_str(), kernel.choice().predicted_us, us.ours, us.first,
                 us.best, matmul.algos(), v.flops() / us.ours * 1e-6, off, build.build_ms, build.select_us);
    std::fflush(csv.to);
    std::printf("%-36s %-56s ours %8.2f lt %8.2f best %8.2f  x%.3f %s\n", row.name.c_str(),
                to_string(p).c_str(), us.ours, us.first, us.best, us.best / us.ours, config.c_str());
    if (us.best == 0) return;
    for (const std::string& name : classes_of(p)) {
      Totals& t = classes[name];
      t.best += std::log(us.best / us.ours), t.first += std::log(us.first / us.ours), ++t.count;
    }
  });
  for (const auto& [name, t] : classes) {
    std::printf("%-16s %4d problems: %.3fx the best of cuBLASLt, %.3fx its first choice\n", name.c_str(),
                t.count, std::exp(t.best / t.count), std::exp(t.first / t.count));
  }
  return counts.status();
}

int run(const Options& o) {
  if (o.ahead) return compile_all(o);
  open_device();
  return o.most_configs() > 0 ? compare_configs(o) : compare_with_lt(o);
}

}  // namespace

int main(int argc, char** argv) {
  setvbuf(stdout, nullptr, _IOLBF, 0);
  return exit_status([&] { return run(parse(argc, argv)); });
}
