// Our GEMMs against cuBLASLt on one CUDA device, in one run: gpu_gemm SUITE.csv OUT.csv [key=value ...]
//   dtype=bf16  policy=model|model_topk  top_k=3  every=1  offset=0 (rows of the suite)  limit=0  rounds=7
//   final_ms=1.5 max_mb=4000  all_algos=1  configs=0 (N: time N legal configs of each problem, half of them
//   the best predicted, half drawn at random; OUT.csv then holds these, and cuBLASLt is left out)
// cuBLASLt: its first choice, and the best of the algorithms it offers (64 MiB of workspace). Launches are
// replayed as CUDA graphs over buffer sets beyond the L2 cache, candidates interleaved, data random. Results
// are compared with cuBLASLt's.
#include <cublasLt.h>
#include <cuda.h>
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "backend/backend.h"
#include "codegen/render.h"
#include "core/family.h"
#include "core/gemm_view.h"
#include "model/model.h"
#include "space/space.h"
#include "tessera/dispatcher.h"
#include "tune/operands.h"
#include "tune/suite.h"

namespace {

using namespace tessera;

#define DRIVER(X)                                                                                        \
  X(cuInit)                                                                                              \
  X(cuDevicePrimaryCtxRetain)                                                                            \
  X(cuCtxSetCurrent) X(cuStreamCreate) X(cuStreamSynchronize) X(cuStreamBeginCapture_v2)                 \
      X(cuStreamEndCapture) X(cuGraphInstantiateWithFlags) X(cuGraphLaunch) X(cuGraphDestroy)            \
          X(cuGraphExecDestroy) X(cuEventCreate) X(cuEventRecord) X(cuEventElapsedTime) X(cuMemAlloc_v2) \
              X(cuMemFree_v2) X(cuMemcpyHtoD_v2) X(cuMemcpyDtoH_v2) X(cuMemcpyDtoD_v2) X(cuMemsetD8Async)
#define LT(X)                                                                                  \
  X(cublasLtCreate)                                                                            \
  X(cublasLtMatmulDescCreate)                                                                  \
  X(cublasLtMatmulDescDestroy) X(cublasLtMatmulDescSetAttribute) X(cublasLtMatrixLayoutCreate) \
      X(cublasLtMatrixLayoutDestroy) X(cublasLtMatmulPreferenceCreate)                         \
          X(cublasLtMatmulPreferenceSetAttribute) X(cublasLtMatmulAlgoGetHeuristic) X(cublasLtMatmul)
#define DECLARE(f) decltype(&f) p_##f;
DRIVER(DECLARE)
LT(DECLARE)

void check(int result, const char* what) {
  if (result) std::printf("error %d in %s\n", result, what), std::exit(1);
}
#define CU(call) check(p_##call, #call)

std::map<std::string, std::string> options = {{"dtype", "bf16"},  {"policy", "model"}, {"top_k", "3"},
                                              {"every", "1"},     {"offset", "0"},     {"limit", "0"},
                                              {"rounds", "7"},    {"final_ms", "1.5"}, {"max_mb", "4000"},
                                              {"all_algos", "1"}, {"warm_ms", "60"},   {"configs", "0"}};
double number(const char* key) { return std::atof(options[key].c_str()); }

CUstream stream;
CUevent before, after;
cublasLtHandle_t lt;
constexpr size_t kWorkspace = 64 << 20;
CUdeviceptr workspace;

struct Timed {
  std::string name;
  std::function<void(int)> enqueue;  // on buffer set i
  CUgraphExec graph = nullptr;
  int count = 0;
  std::vector<double> us;
  double median() const {
    auto s = us;
    std::sort(s.begin(), s.end());
    return s.empty() ? 0 : s[s.size() / 2];
  }
};

void capture(Timed& c, int count, int sets) {
  CUgraph g;
  if (c.graph) CU(cuGraphExecDestroy(c.graph));
  CU(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  for (int i = 0; i < count; ++i) c.enqueue(i % sets);
  CU(cuStreamEndCapture(stream, &g));
  CU(cuGraphInstantiateWithFlags(&c.graph, g, 0));
  CU(cuGraphDestroy(g));
  c.count = count;
}
double replay(Timed& c) {
  CU(cuEventRecord(before, stream));
  CU(cuGraphLaunch(c.graph, stream));
  CU(cuEventRecord(after, stream));
  CU(cuStreamSynchronize(stream));
  float ms = 0;
  CU(cuEventElapsedTime(&ms, before, after));
  return ms * 1e3 / c.count;
}

cudaDataType_t lt_type(DType t) {
  switch (t) {
    case DType::bf16: return CUDA_R_16BF;
    case DType::f16: return CUDA_R_16F;
    case DType::f8e4m3: return CUDA_R_8F_E4M3;
    case DType::f8e5m2: return CUDA_R_8F_E5M2;
    case DType::i8: return CUDA_R_8I;
    case DType::i32: return CUDA_R_32I;
    default: return CUDA_R_32F;
  }
}

// cuBLASLt computes C^T, column-major, = B^T A^T.
struct LtMatmul {
  cublasLtMatmulDesc_t desc;
  cublasLtMatrixLayout_t a, b, c;
  std::vector<cublasLtMatmulHeuristicResult_t> algos;
  bool integer;

  LtMatmul(const GemmView& v, int count) : algos(static_cast<size_t>(count)), integer(v.acc == DType::i32) {
    p_cublasLtMatmulDescCreate(&desc, integer ? CUBLAS_COMPUTE_32I : CUBLAS_COMPUTE_32F,
                               integer ? CUDA_R_32I : CUDA_R_32F);
    const cublasOperation_t op_a = v.b.row_major() ? CUBLAS_OP_N : CUBLAS_OP_T,
                            op_b = v.a.row_major() ? CUBLAS_OP_N : CUBLAS_OP_T;
    p_cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSA, &op_a, sizeof op_a);
    p_cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSB, &op_b, sizeof op_b);
    auto layout = [](cublasLtMatrixLayout_t* out, const Operand& o) {
      const auto inner = static_cast<uint64_t>(o.row_major() ? o.cols : o.rows),
                 outer = static_cast<uint64_t>(o.row_major() ? o.rows : o.cols);
      p_cublasLtMatrixLayoutCreate(out, lt_type(o.type), inner, outer, o.leading());
    };
    layout(&a, v.b);
    layout(&b, v.a);
    layout(&c, v.c);
    cublasLtMatmulPreference_t preference;
    p_cublasLtMatmulPreferenceCreate(&preference);
    p_cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kWorkspace,
                                           sizeof kWorkspace);
    // Buffers here start at multiples of 256 bytes.
    int found = 0;
    p_cublasLtMatmulAlgoGetHeuristic(lt, desc, a, b, c, c, preference, count, algos.data(), &found);
    algos.resize(static_cast<size_t>(found));
  }
  ~LtMatmul() {
    p_cublasLtMatmulDescDestroy(desc);
    for (auto l : {a, b, c}) p_cublasLtMatrixLayoutDestroy(l);
  }
  void enqueue(size_t i, const Buffers& x) {
    const float one = 1, zero = 0;
    const int ione = 1, izero = 0;
    check(p_cublasLtMatmul(lt, desc, integer ? static_cast<const void*>(&ione) : &one, x.b, a, x.a, b,
                           integer ? static_cast<const void*>(&izero) : &zero, x.c, c, x.c, c, &algos[i].algo,
                           reinterpret_cast<void*>(workspace), kWorkspace,
                           reinterpret_cast<cudaStream_t>(stream)),
          "cublasLtMatmul");
  }
};

double element(DType t, const void* p, size_t i) {
  if (t == DType::bf16) {
    const uint32_t bits = static_cast<uint32_t>(static_cast<const uint16_t*>(p)[i]) << 16;
    float f;
    std::memcpy(&f, &bits, 4);
    return f;
  }
  if (t == DType::f16) return static_cast<double>(static_cast<const _Float16*>(p)[i]);
  if (t == DType::i32) return static_cast<const int32_t*>(p)[i];
  return static_cast<const float*>(p)[i];
}

// ||x - y|| / ||y|| over what both hold, at most 32 MiB of it.
double difference(DType t, const void* x, const void* y, size_t count) {
  const size_t n = std::min(count, (size_t{32} << 20) / static_cast<size_t>(bytes_of(t)));
  std::vector<char> a(n * static_cast<size_t>(bytes_of(t))), b(a.size());
  CU(cuMemcpyDtoH_v2(a.data(), reinterpret_cast<CUdeviceptr>(x), a.size()));
  CU(cuMemcpyDtoH_v2(b.data(), reinterpret_cast<CUdeviceptr>(y), b.size()));
  double error = 0, norm = 0;
  for (size_t i = 0; i < n; ++i) {
    const double p = element(t, a.data(), i), q = element(t, b.data(), i);
    error += (p - q) * (p - q);
    norm += q * q;
  }
  return std::sqrt(error / std::max(norm, 1e-30));
}

// Kernels of many configs of one problem, compiled on all cores and kept by symbol.
class Workshop {
 public:
  Workshop() : backend_(make_backend("cuda:0")) {}
  const ArchSpec& arch() const { return backend_->arch(); }

  std::vector<std::unique_ptr<Kernel>> make(const Problem& p, const std::vector<Choice>& choices) {
    const GemmView v = lower(p);
    std::vector<std::unique_ptr<Kernel>> out(choices.size());
    std::atomic<size_t> next{0};
    auto work = [&] {
      for (size_t i; (i = next.fetch_add(1)) < choices.size();) {
        try {
          const Source source = render(v, choices[i].config, arch());
          std::shared_ptr<Module> module;
          {
            std::lock_guard lock(mutex_);
            module = modules_[source.symbol];
          }
          if (!module) module = backend_->load(backend_->compile(source, ""));
          {
            std::lock_guard lock(mutex_);
            modules_[source.symbol] = module;
          }
          out[i] = backend_->prepare(module, p, choices[i]);
        } catch (const std::exception& e) {
          std::printf("%s: %s\n", to_string(choices[i].config).c_str(), e.what());
        }
      }
    };
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < std::thread::hardware_concurrency(); ++i) threads.emplace_back(work);
    for (std::thread& t : threads) t.join();
    return out;
  }

 private:
  std::unique_ptr<Backend> backend_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Module>> modules_;
};

// The best predicted and some drawn at random among the legal configs that have a kernel.
std::vector<Choice> sample_configs(const GemmView& v, const ArchSpec& arch, size_t count) {
  std::vector<KernelConfig> legal = legal_configs(v, arch);
  std::erase_if(legal, [](const KernelConfig& c) { return info(c.family_id()).header.empty(); });
  std::vector<double> us(legal.size());
  analytic_model().predict(v, arch, legal, us);
  std::vector<size_t> order(legal.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t x, size_t y) { return us[x] < us[y]; });
  std::mt19937 random(1);
  if (order.size() > count)
    std::shuffle(order.begin() + static_cast<ptrdiff_t>(count / 2), order.end(), random);
  std::vector<Choice> out;
  for (size_t i = 0; i < std::min(count, order.size()); ++i)
    out.push_back({legal[order[i]], us[order[i]], ChoiceSource::measured});
  return out;
}

struct Totals {
  double best = 0, first = 0;
  int count = 0;
};

void* open(std::initializer_list<const char*> names) {
  for (const char* n : names)
    if (void* h = dlopen(n, RTLD_NOW)) return h;
  std::printf("%s\n", dlerror());
  std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return std::printf("gpu_gemm SUITE.csv OUT.csv [key=value ...]\n"), 2;
  setvbuf(stdout, nullptr, _IOLBF, 0);
  for (int i = 3; i < argc; ++i) {
    const std::string a = argv[i];
    const size_t e = a.find('=');
    if (e == a.npos || !options.count(a.substr(0, e))) return std::printf("unknown option %s\n", argv[i]), 2;
    options[a.substr(0, e)] = a.substr(e + 1);
  }
  void* h = open({"libcuda.so.1"});
#define RESOLVE(f) p_##f = reinterpret_cast<decltype(p_##f)>(dlsym(h, #f));
  DRIVER(RESOLVE)
  h = open({"libcublasLt.so.13", "/usr/local/cuda/lib64/libcublasLt.so.13", "libcublasLt.so.12"});
  LT(RESOLVE)
  CU(cuInit(0));
  CUcontext context;
  CU(cuDevicePrimaryCtxRetain(&context, 0));
  CU(cuCtxSetCurrent(context));
  CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CU(cuEventCreate(&before, 0));
  CU(cuEventCreate(&after, 0));
  CU(cuMemAlloc_v2(&workspace, kWorkspace));
  check(p_cublasLtCreate(&lt), "cublasLtCreate");

  DispatcherOptions o;
  o.device = "cuda:0";
  o.policy = options["policy"] == "model_topk" ? Policy::model_topk : Policy::model;
  o.top_k = static_cast<int>(number("top_k"));
  Dispatcher dispatcher(o);
  FILE* csv = std::fopen(argv[2], "w");
  const auto configs = static_cast<size_t>(number("configs"));
  std::unique_ptr<Workshop> workshop = configs ? std::make_unique<Workshop>() : nullptr;
  if (configs)
    std::fprintf(csv, "name,problem,config,predicted_us,us\n");
  else
    std::fprintf(csv,
                 "name,problem,config,predicted_us,ours_us,lt_first_us,lt_best_us,lt_algos,tflops,rel_error,"
                 "jit_ms,select_us\n");

  std::map<std::string, Totals> classes;
  int index = -1, done = 0, wrong = 0, failed = 0;
  for (const SuiteRow& row : read_suite(argv[1], {.dtype = options["dtype"], .extra = {}, .name = {}})) {
    ++index;
    if (index % static_cast<int>(number("every")) != static_cast<int>(number("offset"))) continue;
    if (number("limit") > 0 && done >= number("limit")) break;
    const Problem& p = row.problem;
    const GemmView v = lower(p);
    const auto round = [](int64_t x) { return (x + (1 << 18) - 1) >> 18 << 18; };
    const int64_t bytes[] = {round(v.a.extent * bytes_of(v.a.type)), round(v.b.extent * bytes_of(v.b.type)),
                             round(v.c.extent * bytes_of(v.c.type))};
    const int64_t all = bytes[0] + bytes[1] + bytes[2];
    if (all > number("max_mb") * 1e6) continue;
    ++done;
    try {
      BuildInfo build;
      const Kernel& kernel = dispatcher.get(p, &build);
      std::vector<std::unique_ptr<Kernel>> kernels;
      if (configs) kernels = workshop->make(p, sample_configs(v, workshop->arch(), configs));
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
        for (const auto& k : kernels) {
          if (!k) continue;
          Timed c{
              .name = "", .enqueue = [&](int i) { k->run_unchecked(set[static_cast<size_t>(i)]); }, .us = {}};
          k->run(set[0]);
          capture(c, 2, sets);
          replay(c);
          const double once = replay(c);
          capture(c, static_cast<int>(std::clamp(1000 / once, 1.0, 300.0)), sets);
          for (int r = 0; r < 4; ++r) c.us.push_back(replay(c));
          std::sort(c.us.begin(), c.us.end());
          CU(cuGraphExecDestroy(c.graph));
          std::fprintf(csv, "%s,%s,%s,%.2f,%.3f\n", row.name.c_str(), to_string(p).c_str(),
                       to_string(k->choice().config).c_str(), k->choice().predicted_us, c.us[1]);
          best = std::min(best, c.us[1]);
          if (chosen == 0) chosen = c.us[1];
        }
        std::printf("%-36s %-56s best %8.2f chosen %8.2f  %.3f of %zu\n", row.name.c_str(),
                    to_string(p).c_str(), best, chosen, best / chosen, kernels.size());
        std::fflush(csv);
        kernels.clear();
        CU(cuMemFree_v2(pool));
        continue;
      }
      LtMatmul matmul(v, number("all_algos") > 0 ? 32 : 1);
      std::vector<Timed> candidates(1);
      candidates[0].name = "ours";
      candidates[0].enqueue = [&](int i) { kernel.run_unchecked(set[static_cast<size_t>(i)]); };
      for (size_t i = 0; i < matmul.algos.size(); ++i) {
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
        relative = difference(v.c.type, set[0].c, reference, static_cast<size_t>(v.c.extent));
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
                   kernel.choice().predicted_us, ours, first, best, matmul.algos.size(),
                   v.flops() / ours * 1e-6, relative, build.build_ms, build.select_us);
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
  std::fclose(csv);
  return wrong || failed ? 1 : 0;
}
