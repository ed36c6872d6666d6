// Measures every legal configuration of every problem of a suite and judges the model's choice against the
// best.
//
//   bench_model_oracle SUITE.csv [--dtype f32] [--only NAMES] [--limit N] [--family F] [--prepack]
//                      [--epilogue E] [--budget-ms 2] [--csv FILE]
//
// NAMES and F may have * and ?.
//
// One CSV row per (problem, config): times, prediction and the terms of the analytic model, which its
// constants are fitted to. The summary is efficiency = best time / chosen time: mean, 10th percentile and
// worst, for the first choice and for the best of the first three.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/parallel.h"
#include "base/text.h"
#include "codegen/render.h"
#include "core/gemm_view.h"
#include "model/model.h"
#include "model/view_memo.h"
#include "model/work.h"
#include "program.h"
#include "runtime/kernel_cache.h"
#include "runtime/race.h"
#include "space/space.h"
#include "tessera/error.h"
#include "tune/suite.h"

using namespace tessera;

namespace {

struct Options {
  std::string suite, dtype = "f32", csv, epilogue, only, families;
  int64_t limit = 0;  // 0: all
  double budget_ms = 2;
  bool prepack = false;
};

std::vector<SuiteRow> rows_of(const Options& o) {
  std::string extra;
  if (o.prepack) extra += " prepack=b";
  if (!o.epilogue.empty()) extra += " epilogue=" + o.epilogue;
  std::vector<SuiteRow> rows = read_suite(o.suite, {.dtype = o.dtype, .extra = extra, .name = o.only});
  if (o.limit > 0 && static_cast<int64_t>(rows.size()) > o.limit)
    rows.erase(rows.begin() + o.limit, rows.end());
  return rows;
}

std::vector<std::unique_ptr<Kernel>> prepare_all(const Problem& p, const std::vector<KernelConfig>& configs,
                                                 const Backend& backend, KernelCache& cache) {
  std::vector<std::unique_ptr<Kernel>> kernels(configs.size());
  in_parallel(configs.size(), 0, [&](size_t i) {
    try {
      const Source source = render(lower(p), configs[i], backend.arch());
      kernels[i] = backend.prepare(backend.load(cache.get_or_build(source, backend).binary), p, {configs[i]});
    } catch (const std::exception& e) {
      std::fprintf(stderr, "%s: %s\n", to_string(configs[i]).c_str(), e.what());
    }
  });
  return kernels;
}

struct Score {
  std::vector<double> values;
  void print(const char* what) {
    std::sort(values.begin(), values.end());
    if (values.empty()) return;
    std::printf("%-8s mean %5.1f%%  P10 %5.1f%%  worst %5.1f%%\n", what,
                100 * std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size()),
                100 * values[values.size() / 10], 100 * values[0]);
  }
};

int run(const Options& o) {
  auto backend = make_backend("cpu", 1);
  KernelCache cache({});
  std::ofstream csv;
  if (!o.csv.empty()) {
    csv.open(o.csv);
    csv << "name,problem,config,us,predicted_us,math,memory,pack_a,pack_b,epilogue,overhead,serial,row_tiles,"
           "col_tiles\n";
  }
  const CostTable costs(backend->arch());
  Score first, third;
  for (const SuiteRow& row : rows_of(o)) {
    const GemmView v = lower(row.problem);
    auto configs = legal_configs(v, backend->arch());
    if (!o.families.empty()) {
      std::erase_if(configs,
                    [&](const KernelConfig& c) { return !glob_match(o.families, to_string(c.family_id())); });
    }
    if (configs.empty()) continue;
    std::vector<double> predicted(configs.size());
    ViewMemo memo(v, backend->arch());
    analytic_model().predict(v, backend->arch(), configs, predicted);
    auto kernels = prepare_all(row.problem, configs, *backend, cache);
    if (std::any_of(kernels.begin(), kernels.end(), [](const auto& k) { return !k; })) return 1;
    const std::vector<double> us = race(kernels, o.budget_ms);
    std::vector<size_t> order(configs.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t x, size_t y) { return predicted[x] < predicted[y]; });
    const size_t best = static_cast<size_t>(std::min_element(us.begin(), us.end()) - us.begin());
    double top3 = us[order[0]];
    for (size_t i = 1; i < std::min<size_t>(3, order.size()); ++i) top3 = std::min(top3, us[order[i]]);
    first.values.push_back(us[best] / us[order[0]]);
    third.values.push_back(us[best] / top3);
    std::printf(
        "%5.1f%% of %4zu  %-34s chose %s (%.1f us, predicted %.1f)  best %s (%.1f us, predicted %.1f)\n",
        100 * us[best] / us[order[0]], configs.size(), row.name.c_str(), to_string(configs[order[0]]).c_str(),
        us[order[0]], predicted[order[0]], to_string(configs[best]).c_str(), us[best], predicted[best]);
    std::fflush(stdout);
    for (size_t i = 0; csv.is_open() && i < configs.size(); ++i) {
      const Work w = work_of(v, configs[i], backend->arch(), costs, memo);
      csv << row.name << ',' << to_string(row.problem) << ',' << to_string(configs[i]) << ',' << us[i] << ','
          << predicted[i] << ',' << w.math << ',' << w.memory << ',' << w.pack_a << ',' << w.pack_b << ','
          << w.epilogue << ',' << w.overhead << ',' << w.serial << ',' << w.row_tiles << ',' << w.col_tiles
          << '\n';
    }
  }
  first.print("top-1");
  third.print("top-3");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  const Setting settings[] = {{"suite", &o.suite},       {"--dtype", &o.dtype},
                              {"--limit", &o.limit, 0},  {"--budget-ms", &o.budget_ms, 0},
                              {"--prepack", &o.prepack}, {"--epilogue", &o.epilogue},
                              {"--family", &o.families}, {"--only", &o.only},
                              {"--csv", &o.csv}};
  read_settings(argc, argv, settings, "bench/model_oracle.cpp");
  return exit_status([&] { return run(o); });
}
