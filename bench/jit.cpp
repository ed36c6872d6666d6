// How long a kernel takes to come into being.
//
//   bench_jit [--suite cpu_gemm] [--dtype f32,bf16,i8] [--epilogue E] [--limit N] [--repeat N] [--out FILE]
//
//   cold         compiling each distinct kernel that the model chooses over the suite, one at a time
//   table        1, 2, 4, 6, 8 of them by 1, 2 and all workers, into an empty cache
//   new process  one that finds its kernel in the disk cache: from problem and config to a loaded kernel
//
// Packs are left out of it. The result file gets every sample.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "backend/backend.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/parallel.h"
#include "base/process.h"
#include "base/progress.h"
#include "base/text.h"
#include "codegen/render.h"
#include "core/gemm_view.h"
#include "program.h"
#include "runtime/kernel_cache.h"
#include "runtime/selection.h"
#include "tessera/error.h"
#include "tessera/json.h"
#include "tune/suite.h"

using namespace tessera;

namespace {

constexpr int kCounts[] = {1, 2, 4, 6, 8};
constexpr double kBarColdS = 0.35, kBarSpeedup = 1.8, kBarDiskMs = 2;

struct Options {
  std::string suite = "cpu_gemm", dtypes = "f32,bf16,i8", epilogue, out = "build/bench/jit.json";
  int64_t limit = 0;  // distinct kernels; 0 = all
  int64_t repeat = 3;
};

struct Wanted {
  Source source;
  std::string problem, config;
  int uses = 0;
};

double median(const std::vector<double>& v) { return quantile(v, 0.5); }

KernelCache empty_cache(const TempDir& dir) {
  return KernelCache({.directory = dir.path(), .standard_packs = false});
}

// The distinct kernels the model chooses, most used first.
std::vector<Wanted> chosen_kernels(const Options& o, const Backend& backend) {
  std::map<std::string, Wanted> kernels;
  const DispatcherOptions dispatch;
  for (std::string_view dtype : split(o.dtypes, ',')) {
    for (const SuiteRow& row : read_suite(o.suite, {.dtype = std::string(dtype), .extra = o.epilogue})) {
      const GemmView view = lower(row.problem);
      const KernelConfig config = ranked_candidates({row.problem, view, backend.arch(), dispatch})[0].config;
      Source source = render(view, config, backend.arch());
      const std::string symbol = source.symbol;
      auto [found, fresh] = kernels.try_emplace(symbol);
      if (fresh) found->second = {std::move(source), to_string(row.problem), to_string(config), 0};
      ++found->second.uses;
    }
  }
  std::vector<Wanted> all;
  for (auto& [symbol, wanted] : kernels) all.push_back(std::move(wanted));
  std::stable_sort(all.begin(), all.end(), [](const Wanted& x, const Wanted& y) { return x.uses > y.uses; });
  if (o.limit > 0 && all.size() > static_cast<size_t>(o.limit)) all.resize(static_cast<size_t>(o.limit));
  return all;
}

Json cold(const std::vector<Wanted>& kernels, const Backend& backend, std::vector<double>& times) {
  TempDir dir(temp_directory());
  KernelCache cache = empty_cache(dir);
  Json rows = Json::array();
  Progress progress("compiling", kernels.size());
  for (size_t i = 0; i < kernels.size(); ++i) {
    const auto start = Clock::now();
    backend.load(cache.get_or_build(kernels[i].source, backend).binary);
    times.push_back(ms_since(start));
    progress.update(i + 1, kernels[i].config);
    rows.push(Json::object({{"config", kernels[i].config},
                            {"problem", kernels[i].problem},
                            {"uses", kernels[i].uses},
                            {"ms", times.back()}}));
  }
  return rows;
}

double wall_ms(const std::vector<Wanted>& kernels, size_t count, size_t workers, const Backend& backend) {
  TempDir dir(temp_directory());
  KernelCache cache = empty_cache(dir);
  std::atomic<bool> failed{false};
  const auto start = Clock::now();
  in_parallel(count, static_cast<int>(workers), [&](size_t i) {
    try {
      backend.load(cache.get_or_build(kernels[i].source, backend).binary);
    } catch (const std::exception& e) {
      std::fprintf(stderr, "error: %s\n", e.what());
      failed = true;
    }
  });
  if (failed) throw Error(ErrorCode::compile_failed, "a kernel did not compile");
  return ms_since(start);
}

// The child's half of "new process": prints milliseconds.
int child(const std::string& directory, const std::string& problem_text, const std::string& config_text) {
  const auto start = Clock::now();
  const auto backend = make_backend("cpu", 1);
  const double device_ms = ms_since(start);
  const Problem problem = Problem::parse(problem_text);
  std::string why;
  const auto config = KernelConfig::parse(config_text, &why);
  const auto began = Clock::now();
  KernelCache cache({.directory = directory, .standard_packs = false});
  const CacheResult result = cache.get_or_build(render(lower(problem), *config, backend->arch()), *backend);
  backend->prepare(backend->load(result.binary), problem, {*config, 0, ChoiceSource::explicit_config});
  const double ms = ms_since(began);
  std::printf("%s %.4f %.4f\n", result.from == CacheResult::From::disk ? "disk" : "not-disk", ms, device_ms);
  return 0;
}

Json new_process(const std::vector<Wanted>& kernels, int64_t repeat, const Backend& backend,
                 std::vector<double>& times) {
  TempDir dir(temp_directory());
  const std::string self = "/proc/self/exe";
  const size_t count = std::min<size_t>(kernels.size(), 8);
  Json rows = Json::array();
  for (size_t i = 0; i < count; ++i) empty_cache(dir).get_or_build(kernels[i].source, backend);
  for (int64_t r = 0; r < repeat * 3; ++r) {
    for (size_t i = 0; i < count; ++i) {
      const ProcessResult run =
          run_process({self, "--child", dir.path(), kernels[i].problem, kernels[i].config}, "", 60,
                      {"TESSERA_CACHE_DIR=" + dir.path()});
      auto words = split_words(run.out);
      if (!run.ok() || words.size() != 3 || words[0] != "disk") {
        throw Error(ErrorCode::internal, "the new process " + run.describe() + ": " + run.out);
      }
      // The first round fills the memo of the compiler's version, as any earlier process would have.
      if (r > 0) times.push_back(*parse_number(words[1]));
    }
  }
  for (double t : times) rows.push(t);
  return rows;
}

Options parse(int argc, char** argv) {
  Options o;
  std::string epilogue;
  const Setting settings[] = {{"--suite", &o.suite},    {"--dtype", &o.dtypes},     {"--epilogue", &epilogue},
                              {"--limit", &o.limit, 0}, {"--repeat", &o.repeat, 0}, {"--out", &o.out}};
  read_settings(argc, argv, settings, "bench/jit.cpp");
  if (!epilogue.empty()) o.epilogue = "epilogue=" + epilogue;
  o.repeat = std::max<int64_t>(o.repeat, 1);
  return o;
}

int run(const Options& o) {
  const auto backend = make_backend("cpu", 1);
  if (backend->compiler_identity().empty()) throw Error(ErrorCode::unsupported, "there is no C++ compiler");
  const std::vector<Wanted> kernels = chosen_kernels(o, *backend);
  std::printf("%s, %s\n%zu distinct kernels chosen over %s in %s\n\n", backend->arch().name.c_str(),
              backend->compiler_identity().c_str(), kernels.size(), o.suite.c_str(), o.dtypes.c_str());

  std::vector<double> cold_ms;
  Json cold_rows = cold(kernels, *backend, cold_ms);
  const double cold_median = median(cold_ms);
  std::printf("cold kernel      median %.0f ms, 90%% %.0f ms, worst %.0f ms   (bar: median <= %.0f ms) %s\n",
              cold_median, quantile(cold_ms, 0.9), quantile(cold_ms, 1), kBarColdS * 1e3,
              verdict(cold_median <= kBarColdS * 1e3));

  const size_t cores = std::max(1u, std::thread::hardware_concurrency());
  std::vector<size_t> workers{1, 2};
  if (cores > 2) workers.push_back(cores);
  Json table = Json::array();
  double speedup = 0;
  std::printf("\nkernels");
  for (size_t w : workers) std::printf("  %2zu worker%s", w, w == 1 ? " " : "s");
  std::printf("   (seconds)\n");
  for (int count : kCounts) {
    if (static_cast<size_t>(count) > kernels.size()) break;
    std::map<size_t, double> best;
    // The least of interleaved rounds: what other programs do to the machine only ever adds.
    std::map<size_t, std::vector<double>> samples;
    for (int64_t r = 0; r < o.repeat; ++r) {
      for (size_t w : workers)
        samples[w].push_back(wall_ms(kernels, static_cast<size_t>(count), w, *backend));
    }
    std::printf("%7d", count);
    Json row = Json::object({{"kernels", count}});
    for (size_t w : workers) {
      best[w] = quantile(samples[w], 0);
      std::printf("  %10.2f", best[w] / 1e3);
      row.set("workers_" + std::to_string(w) + "_s", best[w] / 1e3);
    }
    speedup = best[1] / best[2];
    std::printf("   %.2fx\n", speedup);
    row.set("speedup_2", speedup);
    table.push(std::move(row));
  }
  std::printf("2 workers on the last row: %.2fx   (bar: >= %.1fx) %s\n", speedup, kBarSpeedup,
              verdict(speedup >= kBarSpeedup));

  std::vector<double> disk_ms;
  Json disk_rows = new_process(kernels, o.repeat, *backend, disk_ms);
  std::printf("\nnew process      median %.2f ms, worst %.2f ms from the disk cache   (bar: <= %.0f ms) %s\n",
              median(disk_ms), quantile(disk_ms, 1), kBarDiskMs, verdict(median(disk_ms) <= kBarDiskMs));

  const Json result = Json::object({{"arch", backend->arch().name},
                                    {"compiler", backend->compiler_identity()},
                                    {"cores", static_cast<int64_t>(cores)},
                                    {"suite", o.suite},
                                    {"dtypes", o.dtypes},
                                    {"kernels", static_cast<int64_t>(kernels.size())},
                                    {"cold_median_ms", cold_median},
                                    {"speedup_2_workers", speedup},
                                    {"disk_median_ms", median(disk_ms)},
                                    {"table", std::move(table)},
                                    {"cold", std::move(cold_rows)},
                                    {"disk_ms", std::move(disk_rows)}});
  write_result(o.out, result);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return exit_status([&] {
    if (argc == 5 && std::string(argv[1]) == "--child") return child(argv[2], argv[3], argv[4]);
    return run(parse(argc, argv));
  });
}
