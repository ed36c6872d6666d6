// The correctness walk on a CUDA device: configurations of every family that the device runs, on the case
// lists, against the reference. By default some of each family; TESSERA_WALK=all takes all,
// TESSERA_WALK=tma_ws some of that family alone. Skipped where there is no device.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "backend/backend.h"
#include "base/fs.h"
#include "base/parallel.h"
#include "base/text.h"
#include "codegen/render.h"
#include "gpu/gpu_device.h"
#include "runtime/kernel_cache.h"
#include "space/rules.h"
#include "space/space.h"
#include "tessera/error.h"
#include "tune/verify.h"

namespace tessera {
namespace {

struct Case {
  std::string file;
  int line;
  std::string problem;
};

std::vector<Case> cases() {
  std::vector<Case> out;
  for (const char* folder : {"cases", "gpu/cases"}) {
    const std::string path = test_data() + "/" + folder + "/";
    for (const std::string& file : list_directory(path)) {
      if (!file.ends_with(".txt")) continue;
      int number = 0;
      const std::string text = read_file(path + file);
      for (std::string_view line : split(text, '\n')) {
        ++number;
        line = trim(line.substr(0, line.find('#')));
        if (!line.empty()) out.push_back({file.substr(0, file.size() - 4), number, std::string(line)});
      }
    }
  }
  return out;
}

struct Unit {
  Source source;
  std::shared_ptr<Module> module;
  std::string error;
};

// Each configuration on integers, exactly, and on uniform numbers, within their bound.
void check_configs(const Problem& problem, const std::vector<KernelConfig>& chosen, const Backend& device) {
  const GemmView view = lower(problem);
  std::vector<Unit> units(chosen.size());
  KernelCache cache({});
  in_parallel(units.size(), 0, [&](size_t i) {
    try {
      units[i].source = render(view, chosen[i], device.arch());
      units[i].module = device.load(cache.get_or_build(units[i].source, device).binary);
    } catch (const std::exception& e) { units[i].error = e.what(); }
  });

  Operands integers(problem, FillKind::integers, 1, 64), uniform(problem, FillKind::uniform, 2, 64);
  const Verifier exact(integers);
  Verifiers bounded(uniform);
  int failures = 0, runs = 0;
  std::map<int, double> worst;  // by family: error in relation to its bound
  for (size_t i = 0; i < chosen.size(); ++i) {
    std::string said = units[i].error;
    try {
      if (said.empty()) {
        const auto kernel = device.prepare(units[i].module, problem, {.config = chosen[i]});
        // Twice on the integers: counters that a kernel leaves behind must be as it found them.
        for (int round = 0; round < 3 && said.empty(); ++round) {
          Operands& operands = round < 2 ? integers : uniform;
          operands.reset_c();
          kernel->run(operands.bind(*kernel));
          kernel->wait();
          operands.fetch(*kernel);
          const Verification v = (round < 2 ? exact : bounded.of(arithmetic_of(*kernel))).check();
          if (round == 2 && v.bound > 0)
            worst[chosen[i].family] = std::max(worst[chosen[i].family], v.max_err / v.bound);
          said = v.failure;
          if (!said.empty()) said = (round < 2 ? "integers: " : "uniform: ") + said;
          ++runs;
        }
      }
    } catch (const Error& e) {
      said = e.what();
      if (e.code() == ErrorCode::device) {
        std::fprintf(stderr, "%s --config '%s': %s\n", to_string(problem).c_str(),
                     to_string(chosen[i]).c_str(), e.what());
        std::exit(1);  // the context is lost
      }
    }
    if (!said.empty() && ++failures <= 4)
      ADD_FAILURE() << to_string(problem) << " --config '" << to_string(chosen[i]) << "'\n  " << said;
  }
  if (failures > 4)
    ADD_FAILURE() << failures << " failures in all, of " << chosen.size() << " configurations";
  testing::Test::RecordProperty("configs", static_cast<int>(chosen.size()));
  testing::Test::RecordProperty("runs", runs);
  for (const auto& [family, ratio] : worst)
    testing::Test::RecordProperty("worst_" + std::string(to_string(static_cast<Family>(family))),
                                  std::to_string(ratio));
}

class GpuWalk : public testing::TestWithParam<Case> {};

TEST_P(GpuWalk, LegalConfigs) {
  const Backend* device = gpu_device();
  if (!device) GTEST_SKIP() << "SKIPPED, nothing was run: " << why_no_gpu();
  const char* mode = std::getenv("TESSERA_WALK");
  const size_t per_family = mode && std::string_view(mode) == "all" ? SIZE_MAX : 6;
  const Problem problem = Problem::parse(GetParam().problem);
  const GemmView view = lower(problem);

  // Those whose place in a shuffle by their names comes first.
  std::map<int, std::vector<KernelConfig>> families;
  for (const KernelConfig& c : legal_configs(view, device->arch())) families[c.family].push_back(c);
  const auto only = mode ? parse_family(mode) : std::nullopt;
  if (only) std::erase_if(families, [&](const auto& f) { return f.first != static_cast<int>(*only); });
  if (families.empty() && only) GTEST_SKIP() << "refused: no configuration of that family";
  if (families.empty()) {
    KernelConfig any;
    any.family = static_cast<int>(Family::simt);
    const Rule* rule = rejected_by(view, any, device->arch());
    ASSERT_TRUE(rule) << "nothing is legal and no rule says why";
    GTEST_SKIP() << "refused: " << rule->reason;
  }
  std::vector<KernelConfig> chosen;
  for (auto& [family, list] : families) {
    const auto key = [&](const KernelConfig& c) {
      return std::hash<std::string>{}(GetParam().problem + to_string(c));
    };
    std::sort(list.begin(), list.end(), [&](const auto& x, const auto& y) { return key(x) < key(y); });
    chosen.insert(chosen.end(), list.begin(),
                  list.begin() + static_cast<ptrdiff_t>(std::min(per_family, list.size())));
  }
  check_configs(problem, chosen, *device);
}

// Configurations that the space does not offer.
struct Explicit {
  const char* problem;
  const char* config;
};
class GpuExplicit : public testing::TestWithParam<Explicit> {};

TEST_P(GpuExplicit, Config) {
  const Backend* device = gpu_device();
  if (!device) GTEST_SKIP() << "SKIPPED, nothing was run: " << why_no_gpu();
  std::string why;
  const auto config = KernelConfig::parse(GetParam().config, &why);
  ASSERT_TRUE(config) << why;
  const Problem problem = Problem::parse(GetParam().problem);
  const Rule* rule = rejected_by(lower(problem), *config, device->arch());
  ASSERT_FALSE(rule) << rule->reason;
  check_configs(problem, {*config}, *device);
}

INSTANTIATE_TEST_SUITE_P(
    StreamK, GpuExplicit,
    testing::Values(
        Explicit{"gemm m=1024 n=768 k=3072 dtype=bf16",
                 "tma_ws block=128x128x64 wave=8x1x1 inst=64x128x16 stages=5 pipeline=cooperative "
                 "store=cshuffle stream_k=1 persistent=1 cluster=2x1"},
        Explicit{"gemm m=300 n=776 k=1000 dtype=bf16 batch=3",
                 "tma_ws block=128x128x64 wave=8x1x1 inst=64x128x16 stages=5 pipeline=cooperative "
                 "store=cshuffle stream_k=1 persistent=1"},
        Explicit{"gemm m=777 n=1001 k=1003 dtype=bf16 beta=1",
                 "tma_ws block=128x128x64 wave=8x1x1 inst=64x128x16 stages=4 pipeline=cooperative stream_k=1 "
                 "persistent=1 cluster=1x2"},
        Explicit{"gemm m=2100 n=1536 k=512 dtype=bf16 layout=crr",
                 "tma_ws block=64x96x64 wave=4x1x1 inst=64x96x16 stages=4 pipeline=pingpong store=cshuffle "
                 "stream_k=1 persistent=1 cluster=2x1 wave_groups=2"},
        Explicit{"gemm m=33 n=1001 k=2048 dtype=bf16 layout=rrr",
                 "tma_ws block=64x64x64 wave=4x1x1 inst=64x64x16 stages=4 pipeline=cooperative swap_ab=1 "
                 "stream_k=1 persistent=1"},
        Explicit{"gemm m=512 n=528 k=2048 dtype=i8",
                 "tma_ws block=128x128x128 wave=8x1x1 inst=64x128x32 stages=4 pipeline=cooperative "
                 "store=cshuffle stream_k=1 persistent=1"}),
    [](const testing::TestParamInfo<Explicit>& p) { return "config" + std::to_string(p.index); });

// Every number of blocks that add up a tile, with slices fewer, as many and more, each store, each type, with
// and without multicast, and k that the blocks share out unevenly.
INSTANTIATE_TEST_SUITE_P(
    ClusterK, GpuExplicit,
    testing::Values(
        Explicit{"gemm m=300 n=776 k=3000 dtype=bf16",
                 "tma_ws block=128x128x64 wave=8x1x1 inst=64x128x16 stages=5 pipeline=cooperative "
                 "store=cshuffle persistent=1 cluster_k=2"},
        Explicit{"gemm m=1024 n=768 k=3072 dtype=bf16 batch=3",
                 "tma_ws block=128x256x64 wave=8x1x1 inst=64x256x16 stages=4 pipeline=cooperative "
                 "store=cshuffle persistent=1 cluster=2x1 cluster_k=3"},
        Explicit{"gemm m=777 n=1001 k=1003 dtype=bf16 beta=1",
                 "tma_ws block=128x128x64 wave=8x1x1 inst=64x128x16 stages=4 pipeline=cooperative "
                 "persistent=1 cluster=1x2 cluster_k=4"},
        Explicit{"gemm m=64 n=64 k=8192 dtype=f16 layout=crr",
                 "tma_ws block=64x64x64 wave=4x1x1 inst=64x64x16 stages=8 pipeline=cooperative "
                 "store=cshuffle persistent=1 cluster_k=8"},
        Explicit{"gemm m=24 n=3584 k=3584 dtype=bf16",
                 "tma_ws block=64x32x128 wave=4x1x1 inst=64x32x16 stages=8 pipeline=cooperative "
                 "store=cshuffle swap_ab=1 persistent=1 cluster=2x1 cluster_k=4"},
        Explicit{"gemm m=7 n=520 k=1304 dtype=bf16 layout=rrr epilogue=bias,add,gelu out=f32",
                 "tma_ws block=64x8x64 wave=4x1x1 inst=64x8x16 stages=8 pipeline=cooperative swap_ab=1 "
                 "persistent=1 cluster_k=7"},
        Explicit{"gemm m=257 n=263 k=4099 dtype=bf16 layout=ccr epilogue=bias,relu",
                 "tma_ws block=256x96x64 wave=8x1x1 inst=64x96x16 stages=4 pipeline=cooperative "
                 "persistent=1 cluster_k=5"},
        Explicit{"gemm m=200 n=528 k=2064 dtype=f8e4m3",
                 "tma_ws block=128x64x128 wave=8x1x1 inst=64x64x32 stages=6 pipeline=cooperative "
                 "store=cshuffle persistent=1 cluster_k=6"},
        Explicit{"gemm m=512 n=528 k=2048 dtype=i8",
                 "tma_ws block=128x128x128 wave=8x1x1 inst=64x128x32 stages=4 pipeline=cooperative "
                 "store=cshuffle persistent=1 cluster_k=4"},
        Explicit{"gemm m=190 n=96 k=4096 dtype=f16",
                 "tma_ws block=192x96x64 wave=12x1x1 inst=64x96x16 stages=4 pipeline=cooperative "
                 "store=cshuffle persistent=1 cluster_k=8"},
        // With split_k the sums of a block's own slices meet in memory, of parts as uneven as can be.
        Explicit{"gemm m=64 n=64 k=8256 dtype=bf16",
                 "tma_ws block=64x64x128 wave=4x1x1 inst=64x64x16 stages=6 pipeline=cooperative "
                 "store=cshuffle split_k=4 persistent=1 cluster_k=8"},
        Explicit{"gemm m=300 n=776 k=1160 dtype=bf16 layout=crr batch=2 epilogue=bias,relu",
                 "tma_ws block=256x128x64 wave=8x1x1 inst=64x128x16 stages=4 pipeline=cooperative "
                 "store=cshuffle split_k=3 persistent=1 cluster=2x1 cluster_k=3"},
        Explicit{"gemm m=24 n=777 k=2051 dtype=f16 beta=1",
                 "tma_ws block=64x32x128 wave=4x1x1 inst=64x32x16 stages=8 pipeline=cooperative "
                 "swap_ab=1 split_k=2 persistent=1 cluster_k=7"},
        Explicit{"gemm m=200 n=528 k=2064 dtype=f8e4m3",
                 "tma_ws block=128x64x128 wave=8x1x1 inst=64x64x32 stages=6 pipeline=cooperative "
                 "store=cshuffle split_k=5 persistent=1 cluster_k=2"},
        Explicit{"gemm m=512 n=528 k=2048 dtype=i8",
                 "tma_ws block=128x128x128 wave=8x1x1 inst=64x128x32 stages=4 pipeline=cooperative "
                 "store=cshuffle split_k=4 persistent=1 cluster_k=4"},
        // Two rows of k a stage, each of 8-bit floats promoted apart.
        Explicit{"gemm m=30 n=528 k=2064 dtype=f8e4m3",
                 "tma_ws block=64x32x256 wave=4x1x1 inst=64x32x32 stages=6 pipeline=cooperative "
                 "store=cshuffle swap_ab=1 persistent=1 cluster_k=3"},
        Explicit{"gemm m=130 n=528 k=1040 dtype=f8e4m3xf8e5m2",
                 "tma_ws block=64x64x256 wave=4x1x1 inst=64x64x32 stages=5 pipeline=pingpong "
                 "store=cshuffle persistent=1 wave_groups=2"},
        Explicit{"gemm m=60 n=512 k=1040 dtype=i8",
                 "tma_ws block=64x64x256 wave=4x1x1 inst=64x64x32 stages=5 pipeline=cooperative "
                 "store=cshuffle persistent=1"}),
    [](const testing::TestParamInfo<Explicit>& p) { return "config" + std::to_string(p.index); });

std::string case_name(const testing::TestParamInfo<Case>& info) {
  return info.param.file + "_" + std::to_string(info.param.line);
}

INSTANTIATE_TEST_SUITE_P(Cases, GpuWalk, testing::ValuesIn(cases()), case_name);

}  // namespace
}  // namespace tessera
