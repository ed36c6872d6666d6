// Measures every legal configuration of every problem of a suite and judges the model's choice against the
// best.
//
//   model_oracle SUITE.csv --dtype f32 [--limit N] [--budget-ms 2] [--prepack] [--csv FILE] [--epilogue E]
//
// One CSV row per (problem, config): times, prediction and the terms of the analytic model, which its
// constants are fitted to. The summary is efficiency = best time / chosen time: mean, 10th percentile and
// worst, for the first choice and for the best of the first three.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <numeric>
#include <sstream>
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
#include "runtime/kernel_cache.h"
#include "runtime/race.h"
#include "space/space.h"
#include "tessera/error.h"
#include "tessera/problem.h"

using namespace tessera;

namespace {

struct Options {
  std::string suite, dtype = "f32", csv, extra, only, families;
  size_t limit = SIZE_MAX;
  double budget_ms = 2;
};

struct Row {
  std::string name;
  Problem problem;
};

// name,op,dtype,layout,m,n,k
std::vector<Row> read_suite(const Options& o) {
  std::ifstream in(o.suite);
  if (!in) throw Error(ErrorCode::io, "cannot read " + o.suite);
  std::vector<Row> rows;
  std::string line;
  std::getline(in, line);
  while (std::getline(in, line) && rows.size() < o.limit) {
    std::vector<std::string> f;
    for (auto piece : split(trim(line), ',')) f.emplace_back(piece);
    if (f.size() < 7) continue;
    if (!o.only.empty() && !glob_match(o.only, f[0])) continue;
    rows.push_back({f[0], Problem::parse("gemm m=" + f[4] + " n=" + f[5] + " k=" + f[6] +
                                         " dtype=" + o.dtype + " layout=" + f[3] + o.extra)});
  }
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
  for (const Row& row : read_suite(o)) {
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
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    auto value = [&] { return i + 1 < argc ? std::string(argv[++i]) : std::string(); };
    if (arg == "--dtype") {
      o.dtype = value();
    } else if (arg == "--limit") {
      o.limit = std::stoul(value());
    } else if (arg == "--budget-ms") {
      o.budget_ms = std::stod(value());
    } else if (arg == "--prepack") {
      o.extra += " prepack=b";
    } else if (arg == "--epilogue") {
      o.extra += " epilogue=" + value();
    } else if (arg == "--family") {
      o.families = value();
    } else if (arg == "--only") {
      o.only = value();
    } else if (arg == "--csv") {
      o.csv = value();
    } else {
      o.suite = arg;
    }
  }
  if (o.suite.empty()) {
    std::fprintf(stderr,
                 "usage: model_oracle SUITE.csv [--dtype T] [--limit N] [--only GLOB] [--family GLOB] "
                 "[--budget-ms B] [--prepack] [--epilogue E] [--csv FILE]\n");
    return 2;
  }
  try {
    return run(o);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
