// What it costs to rank candidates by a learned model, its parts by themselves.
//
//   bench_ranking [--suite gemm] [--dtype bf16,f32] [--arch x86_amx] [--threads 1] [--candidates 500]
//                 [--repeat 15] [--out FILE]
//
//   ranking     LearnedModel::predict of so many legal configurations, spread evenly over all, as the
//               dispatcher ranks them: all trees are asked of the most promising alone
//   analytic    the analytic model's prediction of the same ones, a part of it
//   each        LearnedModel::predict_each: all trees asked of every one
//   each_trees  the forest alone, of every one, its features given
//
// Problems that have fewer legal configurations are left out. One core, everything warm but the problem: the
// problems are asked in turn, round after round, and of each the median round counts.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "base/text.h"
#include "core/gemm_view.h"
#include "model/features.h"
#include "model/learned.h"
#include "program.h"
#include "space/space.h"
#include "tessera/error.h"
#include "tessera/json.h"
#include "tune/suite.h"

using namespace tessera;

namespace {

constexpr double kBarUs = 100;

struct Options {
  std::string suite = "gemm", dtypes = "bf16,f32", arch = "x86_amx", out = "build/bench/ranking.json";
  int64_t threads = 1, candidates = 500, repeat = 15;
};

Options parse(int argc, char** argv) {
  Options o;
  const Setting settings[] = {
      {"--suite", &o.suite},     {"--dtype", &o.dtypes},          {"--arch", &o.arch},    {"--out", &o.out},
      {"--threads", &o.threads}, {"--candidates", &o.candidates}, {"--repeat", &o.repeat}};
  read_settings(argc, argv, settings, "bench/ranking.cpp");
  return o;
}

struct Asked {
  GemmView view;
  std::vector<KernelConfig> configs;
  std::array<std::vector<double>, 4> us;  // by part, of every round
};

constexpr std::array<const char*, 4> kParts = {"ranking", "analytic", "each", "each_trees"};

// Trees that are given their features.
class Trees {
 public:
  explicit Trees(const LearnedModel& m) : model_(m), matrix_(m.feature_names().size() * Forest::kRows) {
    for (size_t i = 0; i < m.feature_names().size(); ++i) {
      const auto& name = m.feature_names()[i];
      const auto table = features();
      const auto row =
          std::find_if(table.begin(), table.end(), [&](const Feature& f) { return f.name == name; });
      columns_.push_back(matrix_.data() + i * Forest::kRows);
      same_.push_back(row->tag == FeatureTag::problem);
    }
  }
  void prepare(const Asked& q, const ArchSpec& a, size_t first, size_t count) {
    model_.inputs(q.view, a, std::span(q.configs).subspan(first, count), matrix_.data());
  }
  void add(size_t count, float* sums) const { model_.add_trees(columns_, same_, count, sums); }

 private:
  const LearnedModel& model_;
  std::vector<float> matrix_;
  std::vector<const float*> columns_;
  std::vector<uint8_t> same_;
};

template <class F>
double timed(const F& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
}

int run(const Options& o) {
  ArchSpec arch = find_arch(o.arch);
  if (arch.backend == BackendKind::cpu) arch.compute_units = static_cast<int>(o.threads);
  const auto wanted = static_cast<size_t>(o.candidates);
  std::vector<Asked> all;
  const LearnedModel* model = nullptr;
  size_t problems = 0;
  for (std::string_view dtype : split(o.dtypes, ',')) {
    for (const SuiteRow& row : read_suite(o.suite, {.dtype = std::string(dtype)})) {
      const auto* learned = dynamic_cast<const LearnedModel*>(&model_for("", arch, row.problem));
      if (!learned) throw Error(ErrorCode::unsupported, "no learned model of " + to_string(row.problem));
      if (model && model != learned) throw Error(ErrorCode::bad_input, "the suite asks several models");
      model = learned;
      ++problems;
      Asked q{lower(row.problem), {}, {}};
      const std::vector<KernelConfig> legal = runnable_configs(q.view, arch);
      if (legal.size() < wanted) continue;
      for (size_t i = 0; i < wanted; ++i) q.configs.push_back(legal[i * legal.size() / wanted]);
      all.push_back(std::move(q));
    }
  }
  if (all.empty()) throw Error(ErrorCode::bad_input, "no problem has so many candidates");
  std::printf("%s, %zu trees of %zu nodes, %zu of %zu problems of %s in %s have %zu candidates\n",
              arch.name.c_str(), model->forest().trees(), model->forest().nodes().size(), all.size(),
              problems, o.suite.c_str(), o.dtypes.c_str(), wanted);

  Trees trees(*model);
  std::vector<double> us(wanted);
  std::array<float, Forest::kRows> sums{};
  for (int64_t r = 0; r < o.repeat; ++r) {
    for (Asked& q : all) q.us[0].push_back(timed([&] { model->predict(q.view, arch, q.configs, us); }));
    for (Asked& q : all)
      q.us[1].push_back(timed([&] { analytic_model().predict(q.view, arch, q.configs, us); }));
    for (Asked& q : all) q.us[2].push_back(timed([&] { model->predict_each(q.view, arch, q.configs, us); }));
    for (Asked& q : all) {
      double spent = 0;
      for (size_t first = 0; first < wanted; first += Forest::kRows) {
        const size_t count = std::min(Forest::kRows, wanted - first);
        trees.prepare(q, arch, first, count);
        spent += timed([&] { trees.add(count, sums.data()); });
      }
      q.us[3].push_back(spent);
    }
  }
  Json result = Json::object({{"arch", arch.name},
                              {"suite", o.suite},
                              {"dtypes", o.dtypes},
                              {"candidates", o.candidates},
                              {"problems", static_cast<int64_t>(all.size())},
                              {"trees", static_cast<int64_t>(model->forest().trees())},
                              {"nodes", static_cast<int64_t>(model->forest().nodes().size())}});
  for (size_t part = 0; part < kParts.size(); ++part) {
    std::vector<double> medians;
    for (const Asked& q : all) medians.push_back(quantile(q.us[part], 0.5));
    const double median = quantile(medians, 0.5);
    std::printf("%-10s  median %.1f us, 90%% %.1f us, worst %.1f us", kParts[part], median,
                quantile(medians, 0.9), quantile(medians, 1));
    if (part == 0) std::printf("   (bar: <= %.0f us) %s", kBarUs, verdict(median <= kBarUs));
    std::printf("\n");
    const std::string name = kParts[part];
    result.set(name + "_median_us", median);
    result.set(name + "_p90_us", quantile(medians, 0.9));
    result.set(name + "_worst_us", quantile(medians, 1));
  }
  write_result(o.out, result);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return exit_status([&] { return run(parse(argc, argv)); });
}
