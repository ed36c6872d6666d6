// What a CUDA kernel costs beside its own time: gpu_overheads OUT.json
//   launch: a call of a prepared kernel beside an empty kernel's cuLaunchKernelEx; compile: NVRTC on what the
//   dispatcher chooses for some problems; cache: the same kernels from disk, by a dispatcher of its own.
#include <chrono>
#include <cstdio>
#include <functional>
#include <vector>

#include "backend/cuda/cuda_driver.h"
#include "backend/cuda/nvrtc.h"
#include "base/clock.h"
#include "base/fs.h"
#include "program.h"
#include "tessera/dispatcher.h"
#include "tessera/error.h"
#include "tune/operands.h"

namespace {

using namespace tessera;
// Host time of one call, of batches that the device's queue takes at once.
double per_call(const std::function<void()>& call, const std::function<void()>& wait) {
  constexpr int kCalls = 200, kBatches = 41;
  std::vector<double> times;
  for (int b = 0; b < kBatches; ++b) {
    wait();
    const auto start = Clock::now();
    for (int i = 0; i < kCalls; ++i) call();
    times.push_back(us_since(start) / kCalls);
  }
  wait();
  return quantile(times, 0.5);
}

constexpr const char* kProblems[] = {
    "gemm m=64 n=64 k=64 dtype=bf16",
    "gemm m=1 n=256 k=256 dtype=bf16",
    "gemm m=1 n=4096 k=4096 dtype=bf16",
    "gemm m=256 n=256 k=256 dtype=bf16",
    "gemm m=2048 n=2048 k=2048 dtype=bf16",
    "gemm m=8192 n=8192 k=8192 dtype=bf16",
    "gemm m=4096 n=4096 k=4096 dtype=f16 layout=rrr epilogue=bias,gelu",
    "gemm m=1023 n=1025 k=1027 dtype=bf16 layout=crr",
    "gemm m=512 n=512 k=512 dtype=f32",
    "gemm m=4096 n=4096 k=4096 dtype=f8e4m3",
    "gemm m=4096 n=4096 k=4096 dtype=i8",
};

}  // namespace

int main(int argc, char** argv) {
  std::string out;
  const Setting settings[] = {{"out", &out}};
  read_settings(argc, argv, settings, "bench/gpu_overheads.cpp");
  return exit_status([&] {
    const TempDir cache(temp_directory());
    DispatcherOptions options;
    options.device = "cuda:0";
    options.cache_dir = cache.path();
    auto driver = std::make_shared<cuda::CudaDriver>(0);
    Source source;
    source.arch = "sm_90a";
    source.symbol = "empty";
    source.unit = "extern \"C\" __global__ void empty() {}\n";
    const auto module = driver->load(cuda::compile_nvrtc(source, ""));
    const cuda::LibCuda* cu = cuda::libcuda(nullptr);
    cuda::LaunchConfig config = {1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, 0};
    auto* function = static_cast<cuda::Function*>(module->function());
    driver->wait();
    // The library's calls leave the thread's context as it was; this one needs it current.
    driver->launch({module->function(), 1, 32, 0, nullptr, false}, nullptr);
    const double empty_through = per_call(
        [&] {
          driver->launch({module->function(), 1, 32, 0, nullptr, false}, nullptr);
        },
        [&] { driver->wait(); });
    cuda::Context* context = nullptr;
    cuda::Device device = 0;
    cu->device_get(&device, 0);
    cu->primary_retain(&context, device);
    cu->context_push(context);
    const double empty =
        per_call([&] { cu->launch(&config, function, nullptr, nullptr); }, [&] { driver->wait(); });
    std::printf("empty kernel: %.2f us a call, %.2f through the driver object\n", empty, empty_through);
    Json rows = Json::array();
    for (const char* text : kProblems) {
      const Problem p = Problem::parse(text);
      BuildInfo cold, warm;
      Dispatcher first(options);
      const Kernel& kernel = first.get(p, &cold);
      Dispatcher second(options);
      second.get(p, &warm);
      Operands operands(p, FillKind::uniform);
      const Buffers buffers = operands.bind(kernel);
      kernel.run(buffers);
      kernel.wait();
      const double call = per_call([&] { kernel.run_unchecked(buffers); }, [&] { kernel.wait(); });
      std::printf("%-70s compile %6.0f ms, cache %5.2f ms, select %6.0f us, call %5.2f us (%+.2f)\n", text,
                  cold.build_ms, warm.build_ms, cold.select_us, call, call - empty);
      rows.push(Json::object({{"problem", to_string(p)},
                              {"config", to_string(kernel.choice().config)},
                              {"compile_ms", cold.build_ms},
                              {"cache_ms", warm.build_ms},
                              {"select_us", cold.select_us},
                              {"call_us", call}}));
    }
    write_result(out, Json::object({{"empty_us", empty}, {"kernels", rows}}));
    return 0;
  });
}
