// Our GEMMs against cuBLASLt on one CUDA device, in one run: gpu_gemm SUITE.csv OUT.csv [key=value ...]
//   dtype=bf16  policy=model|model_topk  top_k=3  every=1  offset=0 (rows of the suite)  limit=0  rounds=7
//   final_ms=1.5 max_mb=4000  all_algos=1  configs=0 (N: time N legal configs of each problem, see
//   gpu_configs.h, and compare their results; OUT.csv then holds these, and cuBLASLt is left out)
//   --all-configs (every legal one instead; OUT.csv then tells of each problem the best and the models'
//   choices)
//   ahead=0 (1: needs no device, only compiles the configs into the kernel cache, to be carried to one)
// cuBLASLt: its first choice, and the best of the algorithms it offers (64 MiB of workspace). Launches are
// replayed as CUDA graphs over buffer sets beyond the L2 cache, candidates interleaved, data random. Results
// are compared with cuBLASLt's.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cuda_graphs.h"
#include "gpu_configs.h"
#include "lt_matmul.h"
#include "oracle.h"
#include "tessera/dispatcher.h"
#include "tune/element.h"
#include "tune/operands.h"
#include "tune/suite.h"

namespace {

using namespace tessera;

std::map<std::string, std::string> options = {
    {"dtype", "bf16"}, {"policy", "model"}, {"top_k", "3"},      {"every", "1"},     {"offset", "0"},
    {"limit", "0"},    {"rounds", "7"},     {"final_ms", "1.5"}, {"max_mb", "4000"}, {"all_algos", "1"},
    {"warm_ms", "60"}, {"configs", "0"},    {"ahead", "0"}};
double number(const char* key) { return std::atof(options[key].c_str()); }
constexpr const char *kAllFlag = "--all-configs", *kAll = "all";
bool all_configs() { return options["configs"] == kAll; }
size_t most_configs() { return all_configs() ? SIZE_MAX : static_cast<size_t>(number("configs")); }

// ||x - y|| / ||y|| over what both hold, at most most_bytes of it.
double difference(DType t, const void* x, const void* y, size_t count, size_t most_bytes) {
  const size_t n = std::min(count, most_bytes / static_cast<size_t>(bytes_of(t)));
  std::vector<char> a(n * static_cast<size_t>(bytes_of(t))), b(a.size());
  CU(cuMemcpyDtoH_v2(a.data(), reinterpret_cast<CUdeviceptr>(x), a.size()));
  CU(cuMemcpyDtoH_v2(b.data(), reinterpret_cast<CUdeviceptr>(y), b.size()));
  double error = 0, norm = 0;
  for (size_t i = 0; i < n; ++i) {
    const auto at = static_cast<int64_t>(i);
    const double p = load_element(t, a.data(), at), q = load_element(t, b.data(), at);
    error += (p - q) * (p - q);
    norm += q * q;
  }
  return std::sqrt(error / std::max(norm, 1e-30));
}

std::array<int64_t, 3> bytes_of_set(const GemmView& v) {
  const auto round = [](int64_t x) { return (x + (1 << 18) - 1) >> 18 << 18; };
  return {round(v.a.extent * bytes_of(v.a.type)), round(v.b.extent * bytes_of(v.b.type)),
          round(v.c.extent * bytes_of(v.c.type))};
}

std::vector<SuiteRow> drawn_rows(const char* suite) {
  int index = 0;
  std::vector<SuiteRow> rows;
  for (const SuiteRow& row : read_suite(suite, {.dtype = options["dtype"], .extra = {}, .name = {}})) {
    if (number("limit") > 0 && static_cast<double>(rows.size()) >= number("limit")) break;
    const auto bytes = bytes_of_set(lower(row.problem));
    const bool drawn = index++ % static_cast<int>(number("every")) == static_cast<int>(number("offset"));
    if (drawn && static_cast<double>(bytes[0] + bytes[1] + bytes[2]) <= number("max_mb") * 1e6)
      rows.push_back(row);
  }
  return rows;
}

struct Totals {
  double best = 0, first = 0;
  int count = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return std::printf("gpu_gemm SUITE.csv OUT.csv [key=value ...]\n"), 2;
  setvbuf(stdout, nullptr, _IOLBF, 0);
  for (int i = 3; i < argc; ++i) {
    const std::string a = argv[i] == std::string(kAllFlag) ? std::string("configs=") + kAll : argv[i];
    const size_t e = a.find('=');
    if (e == a.npos || !options.count(a.substr(0, e))) return std::printf("unknown option %s\n", argv[i]), 2;
    options[a.substr(0, e)] = a.substr(e + 1);
  }
  if (number("ahead") > 0) {
    KernelCache cache({});
    for (const SuiteRow& row : drawn_rows(argv[1])) {
      const GemmView v = lower(row.problem);
      compile_ahead(v, sample_configs(v, find_arch("sm_90a"), most_configs()), cache);
    }
    return 0;
  }
  open_device();
  open_cublas_lt();

  DispatcherOptions o;
  o.device = "cuda:0";
  o.policy = options["policy"] == "model_topk" ? Policy::model_topk : Policy::model;
  o.background = false;
  o.top_k = static_cast<int>(number("top_k"));
  Dispatcher dispatcher(o);
  const size_t configs = most_configs();
  std::unique_ptr<Workshop> workshop = configs ? std::make_unique<Workshop>() : nullptr;
  std::unique_ptr<Oracle> oracle =
      all_configs() ? std::make_unique<Oracle>(argv[2], o.device, workshop->arch()) : nullptr;
  FILE* csv = oracle ? nullptr : std::fopen(argv[2], "w");
  if (configs && csv)
    std::fprintf(csv, "name,problem,config,predicted_us,us\n");
  else if (csv)
    std::fprintf(csv,
                 "name,problem,config,predicted_us,ours_us,lt_first_us,lt_best_us,lt_algos,tflops,rel_error,"
                 "jit_ms,select_us\n");

  std::map<std::string, Totals> classes;
  int done = 0, wrong = 0, failed = 0;
  const std::vector<SuiteRow> rows = drawn_rows(argv[1]);
  const auto prepare = [&](const SuiteRow& row) {
    return std::async(std::launch::async, [&] {
      return workshop->make(row.problem, sample_configs(lower(row.problem), workshop->arch(), configs));
    });
  };
  std::future<std::vector<std::unique_ptr<Kernel>>> ahead;
  if (configs && !rows.empty()) ahead = prepare(rows[0]);
  for (const SuiteRow& row : rows) {
    const Problem& p = row.problem;
    const GemmView v = lower(p);
    const auto bytes = bytes_of_set(v);
    const int64_t all = bytes[0] + bytes[1] + bytes[2];
    ++done;
    try {
      BuildInfo build;
      std::vector<std::unique_ptr<Kernel>> kernels;
      if (configs) {
        // The next problem's kernels are compiled while this one's are measured.
        kernels = ahead.get();
        if (&row != &rows.back()) ahead = prepare(*(&row + 1));
      }
      const int sets = static_cast<int>(std::min<int64_t>(48, (int64_t{200} << 20) / all + 2));
      CUdeviceptr pool;
      CU(cuMemAlloc_v2(&pool, static_cast<size_t>(all * (sets + 1))));
      std::vector<Buffers> set(static_cast<size_t>(sets));
      std::vector<char> host;
      for (int i = 0; i < sets; ++i) {
        CUdeviceptr at = pool + static_cast<CUdeviceptr>(all * i);
        const Operand* operands[] = {&v.a, &v.b};
        for (int j = 0; j < 2; ++j) {
          const int64_t count = operands[j]->extent;
          if (i == 0) {
            host.resize(static_cast<size_t>(count * bytes_of(operands[j]->type)));
            fill(operands[j]->type, FillKind::uniform, static_cast<uint64_t>(j + 1), host.data(), count);
            CU(cuMemcpyHtoD_v2(at, host.data(), host.size()));
          } else {
            CU(cuMemcpyDtoD_v2(at, pool + static_cast<CUdeviceptr>(j ? bytes[0] : 0),
                               static_cast<size_t>(bytes[j])));
          }
          at += static_cast<CUdeviceptr>(bytes[j]);
        }
        auto& b = set[static_cast<size_t>(i)];
        char* base = reinterpret_cast<char*>(pool) + all * i;
        b.a = base, b.b = base + bytes[0], b.c = base + bytes[0] + bytes[1], b.stream = stream;
      }
      void* reference = reinterpret_cast<char*>(pool) + all * sets;
      if (configs) {
        double best = 1e30, chosen = 0;
        std::map<std::string, double> times;
        for (const auto& k : kernels) {
          if (!k) continue;
          Timed c{
              .name = "", .enqueue = [&](int i) { k->run_unchecked(set[static_cast<size_t>(i)]); }, .us = {}};
          CU(cuMemsetD8Async(reinterpret_cast<CUdeviceptr>(set[0].c), 0xff, static_cast<size_t>(bytes[2]),
                             stream));
          k->run(set[0]);
          CU(cuStreamSynchronize(stream));
          const size_t elements = static_cast<size_t>(v.c.extent);
          if (best == 1e30) {
            CU(cuMemcpyDtoD_v2(reinterpret_cast<CUdeviceptr>(reference),
                               reinterpret_cast<CUdeviceptr>(set[0].c), static_cast<size_t>(bytes[2])));
          } else if (const double off = difference(v.c.type, set[0].c, reference, elements, size_t{2} << 20);
                     !(off < 5e-3)) {
            ++wrong;
            std::printf("WRONG %s --config '%s': %g\n", to_string(p).c_str(),
                        to_string(k->choice().config).c_str(), off);
          }
          capture(c, 2, sets);
          replay(c);
          const double once = replay(c);
          capture(c, static_cast<int>(std::clamp(1000 / once, 1.0, 300.0)), sets);
          for (int r = 0; r < 4; ++r) c.us.push_back(replay(c));
          std::sort(c.us.begin(), c.us.end());
          CU(cuGraphExecDestroy(c.graph));
          const std::string config = to_string(k->choice().config);
          times[config] = c.us[1];
          if (csv)
            std::fprintf(csv, "%s,%s,%s,%.2f,%.3f\n", row.name.c_str(), to_string(p).c_str(), config.c_str(),
                         k->choice().predicted_us, c.us[1]);
          best = std::min(best, c.us[1]);
          if (chosen == 0) chosen = c.us[1];
        }
        std::printf("%-36s %-56s best %8.2f chosen %8.2f  %.3f of %zu\n", row.name.c_str(),
                    to_string(p).c_str(), best, chosen, best / chosen, kernels.size());
        if (oracle) oracle->add(p, times);
        if (csv) std::fflush(csv);
        kernels.clear();
        CU(cuMemFree_v2(pool));
        continue;
      }
      const Kernel& kernel = dispatcher.get(p, &build);
      LtMatmul matmul(v, number("all_algos") > 0 ? 32 : 1);
      std::vector<Timed> candidates(1);
      candidates[0].name = "ours";
      candidates[0].enqueue = [&](int i) { kernel.run_unchecked(set[static_cast<size_t>(i)]); };
      for (size_t i = 0; i < matmul.algos(); ++i) {
        candidates.push_back({.name = "lt" + std::to_string(i), .enqueue = [&matmul, &set, i](int s) {
                                matmul.enqueue(i, set[static_cast<size_t>(s)]);
                              }});
      }
      double relative = 0;
      if (candidates.size() > 1) {
        Buffers r = set[0];
        r.c = reference;
        matmul.enqueue(0, r);
        CU(cuMemsetD8Async(reinterpret_cast<CUdeviceptr>(set[0].c), 0xff, static_cast<size_t>(bytes[2]),
                           stream));
        kernel.run(set[0]);
        CU(cuStreamSynchronize(stream));
        relative =
            difference(v.c.type, set[0].c, reference, static_cast<size_t>(v.c.extent), size_t{32} << 20);
        if (!(relative < 5e-3)) ++wrong, std::printf("WRONG %s: %g\n", to_string(p).c_str(), relative);
      } else {
        kernel.run(set[0]);
        CU(cuStreamSynchronize(stream));
      }
      std::vector<double> quick;
      for (Timed& c : candidates) {
        capture(c, 2, sets);
        replay(c);
        const double us = replay(c);
        capture(c, static_cast<int>(std::clamp(400 / us, 1.0, 300.0)), sets);
        replay(c);
        quick.push_back(replay(c));
      }
      // Ours, cuBLASLt's first and the three that did best.
      std::vector<size_t> finals, order;
      for (size_t i = 2; i < candidates.size(); ++i) order.push_back(i);
      std::sort(order.begin(), order.end(), [&](size_t x, size_t y) { return quick[x] < quick[y]; });
      for (size_t i = 0; i < candidates.size() && i < 2; ++i) finals.push_back(i);
      for (size_t i = 0; i < order.size() && i < 3; ++i) finals.push_back(order[i]);
      for (size_t i : finals)
        capture(candidates[i], static_cast<int>(std::clamp(number("final_ms") * 1e3 / quick[i], 2.0, 1000.0)),
                sets);
      const auto start = std::chrono::steady_clock::now();
      while (std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count() <
             number("warm_ms"))
        for (size_t i : finals) replay(candidates[i]);
      for (int r = 0; r < number("rounds"); ++r)
        for (size_t i : finals) candidates[i].us.push_back(replay(candidates[i]));
      const double ours = candidates[0].median(), first = candidates.size() > 1 ? candidates[1].median() : 0;
      double best = first;
      for (size_t i : finals)
        if (i > 0) best = std::min(best, candidates[i].median());
      std::fprintf(csv, "%s,%s,%s,%.2f,%.3f,%.3f,%.3f,%zu,%.1f,%.3g,%.1f,%.0f\n", row.name.c_str(),
                   to_string(p).c_str(), to_string(kernel.choice().config).c_str(),
                   kernel.choice().predicted_us, ours, first, best, matmul.algos(), v.flops() / ours * 1e-6,
                   relative, build.build_ms, build.select_us);
      std::fflush(csv);
      if (best > 0) {
        const bool aligned = p.m % 8 == 0 && p.n % 8 == 0 && p.k % 8 == 0;
        for (const std::string& name :
             {std::string("all"), std::string(aligned ? "multiples of 8" : "other sizes"),
              std::string(p.m <= 64 ? "m <= 64" : "m > 64")}) {
          Totals& t = classes[name];
          t.best += std::log(best / ours), t.first += std::log(first / ours), ++t.count;
        }
      }
      std::printf("%-36s %-56s ours %8.2f lt %8.2f best %8.2f  x%.3f %s\n", row.name.c_str(),
                  to_string(p).c_str(), ours, first, best, best / ours,
                  to_string(kernel.choice().config).substr(7).c_str());
      for (Timed& c : candidates) CU(cuGraphExecDestroy(c.graph));
      CU(cuMemFree_v2(pool));
    } catch (const std::exception& e) {
      ++failed;
      std::printf("FAILED %s: %s\n", to_string(p).c_str(), e.what());
    }
  }
  for (const auto& [name, t] : classes) {
    std::printf("%-16s %4d problems: %.3fx the best of cuBLASLt, %.3fx its first choice\n", name.c_str(),
                t.count, std::exp(t.best / t.count), std::exp(t.first / t.count));
  }
  std::printf("%d problems, %d wrong, %d failed\n", done, wrong, failed);
  if (oracle) oracle->print();
  if (csv) std::fclose(csv);
  return wrong || failed ? 1 : 0;
}
