// What it costs to ask for a kernel.
//
//   bench_dispatch [--suite cpu_gemm] [--dtype f32,bf16,i8] [--device null:sm_90a] [--repeat N] [--out FILE]
//
//   hit          Dispatcher::get of a problem that the process has a kernel for: one problem, and all of the
//   suite
//                in an order that no cache or branch predictor knows
//   first        the first new problem of this process: its operation's model is read for it
//   new problem  enumeration of everything legal and ranking of it, for each problem of the suite
//
// On a null device, where nothing can be compiled, only new problems are measured.
// Kernels come from the standard pack and the user's cache; what is missing there is compiled beforehand.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "base/text.h"
#include "program.h"
#include "tessera/dispatcher.h"
#include "tessera/error.h"
#include "tessera/json.h"
#include "tune/suite.h"

using namespace tessera;

namespace {

constexpr double kBarHitNs = 100, kBarSelectUs = 1000;
constexpr size_t kLookUps = 1 << 16;

struct Options {
  std::string suite = "cpu_gemm", dtypes = "f32,bf16,i8", device = "cpu", out = "build/bench/dispatch.json";
  int64_t repeat = 31;
};

using Clock = std::chrono::steady_clock;

// Nanoseconds of one look-up, in each of `repeat` rounds.
std::vector<double> hit_ns(Dispatcher& dispatcher, const std::vector<Problem>& problems, int64_t repeat) {
  std::mt19937 random(1);
  std::vector<uint32_t> order(kLookUps);
  for (uint32_t& i : order) i = static_cast<uint32_t>(random() % problems.size());
  for (const Problem& p : problems) dispatcher.get(p);
  std::vector<double> out;
  uintptr_t sum = 0;
  for (int64_t r = 0; r < repeat; ++r) {
    const auto start = Clock::now();
    for (uint32_t i : order) sum += reinterpret_cast<uintptr_t>(&dispatcher.get(problems[i]));
    out.push_back(std::chrono::duration<double, std::nano>(Clock::now() - start).count() / kLookUps);
  }
  if (sum == 1) std::puts("");  // the sum is used
  return out;
}

Options parse(int argc, char** argv) {
  Options o;
  const Setting settings[] = {{"--suite", &o.suite},
                              {"--dtype", &o.dtypes},
                              {"--device", &o.device},
                              {"--out", &o.out},
                              {"--repeat", &o.repeat}};
  read_settings(argc, argv, settings, "bench/dispatch.cpp");
  return o;
}

void add_hits(Dispatcher& dispatcher, const std::vector<Problem>& problems, int64_t repeat, Json& result) {
  for (const std::string& e : dispatcher.build(problems, 0)) {
    if (!e.empty()) throw Error(ErrorCode::compile_failed, e);
  }
  const std::vector<double> one = hit_ns(dispatcher, {problems[0]}, repeat);
  std::printf("hit          one problem: median %.1f ns   (bar: <= %.0f ns) %s\n", quantile(one, 0.5),
              kBarHitNs, verdict(quantile(one, 0.5) <= kBarHitNs));
  const std::vector<double> all = hit_ns(dispatcher, problems, repeat);
  std::printf("hit          %zu problems in random order: median %.1f ns   (bar: <= %.0f ns) %s\n",
              problems.size(), quantile(all, 0.5), kBarHitNs, verdict(quantile(all, 0.5) <= kBarHitNs));
  Json samples = Json::array();
  for (double ns : all) samples.push(ns);
  result.set("hit_one_median_ns", quantile(one, 0.5));
  result.set("hit_all_median_ns", quantile(all, 0.5));
  result.set("hit_all_ns", std::move(samples));
}

int run(const Options& o) {
  Dispatcher dispatcher({.device = o.device, .threads = 1});
  std::vector<Problem> problems;
  for (std::string_view dtype : split(o.dtypes, ',')) {
    for (const SuiteRow& row : read_suite(o.suite, {.dtype = std::string(dtype)}))
      problems.push_back(row.problem);
  }
  const std::string arch = dispatcher.describe().at("arch").as_string();
  std::printf("%s, %zu problems of %s in %s\n\n", arch.c_str(), problems.size(), o.suite.c_str(),
              o.dtypes.c_str());

  double first_us = 0;
  dispatcher.select(problems.at(0), &first_us);
  std::printf("first        %.0f us\n", first_us);
  std::vector<double> select_us;
  for (const Problem& p : problems) dispatcher.select(p);  // tables that later answers share
  for (const Problem& p : problems) {
    std::vector<double> samples(5);
    for (double& us : samples) dispatcher.select(p, &us);
    select_us.push_back(quantile(samples, 0.5));
  }
  const double worst_us = quantile(select_us, 1);
  std::printf("new problem  median %.0f us, 90%% %.0f us, worst %.0f us   (bar: <= %.0f us) %s\n",
              quantile(select_us, 0.5), quantile(select_us, 0.9), worst_us, kBarSelectUs,
              verdict(worst_us <= kBarSelectUs));
  const auto worst = std::max_element(select_us.begin(), select_us.end()) - select_us.begin();
  std::printf("             worst: %s\n", to_string(problems[static_cast<size_t>(worst)]).c_str());

  Json result = Json::object({{"arch", arch},
                              {"suite", o.suite},
                              {"dtypes", o.dtypes},
                              {"problems", static_cast<int64_t>(problems.size())},
                              {"select_first_us", first_us},
                              {"select_median_us", quantile(select_us, 0.5)},
                              {"select_p90_us", quantile(select_us, 0.9)},
                              {"select_worst_us", worst_us}});
  if (!o.device.starts_with("null:")) add_hits(dispatcher, problems, o.repeat, result);
  write_result(o.out, result);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return exit_status([&] { return run(parse(argc, argv)); });
}
