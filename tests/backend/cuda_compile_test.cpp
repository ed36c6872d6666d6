// Kernels compile for sm_90a without spills and without serialised wgmma: those named here, and of every
// family some of a sampled space (TESSERA_WALK=all: sixteen times as many). Needs NVRTC, no GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <regex>
#include <string>

#include "backend/cuda/nvrtc.h"
#include "codegen/render.h"
#include "core/gemm_view.h"
#include "space/rules.h"
#include "space/space.h"
#include "tessera/problem.h"

namespace tessera {
namespace {

// What NVRTC finds in the driver's cache comes without a log. It looks for this when it is loaded.
[[maybe_unused]] const int kNoCache = setenv("CUDA_CACHE_DISABLE", "1", 1);

struct Case {
  const char* problem;
  const char* config;
};

std::string named(const testing::TestParamInfo<Case>& p) { return "case" + std::to_string(p.index); }

class CudaCompile : public testing::TestWithParam<Case> {};

struct Compiled {
  int registers = 0, shared = 0;  // bytes of shared memory that are not asked for at the launch
};

Compiled compile(const GemmView& view, const KernelConfig& config) {
  const Source source = render(view, config, find_arch("sm_90a"));
  std::string log;
  const Binary binary = cuda::compile_nvrtc(source, "", &log);
  EXPECT_EQ(binary.bytes.substr(1, 3), "ELF");
  EXPECT_NE(binary.bytes.find(source.symbol), std::string::npos);
  const auto numbers = [&](const char* pattern) {
    std::vector<int> out;
    const std::regex words(pattern);
    for (std::sregex_iterator i(log.begin(), log.end(), words), end; i != end; ++i)
      out.push_back(std::stoi((*i)[1]));
    return out;
  };
  const auto spilt = numbers("(\\d+) bytes spill stores");
  EXPECT_FALSE(spilt.empty()) << log;
  for (int bytes : spilt) EXPECT_EQ(bytes, 0) << log;
  EXPECT_EQ(log.find("serializ"), std::string::npos) << log;
  Compiled out;
  for (int n : numbers("Used (\\d+) registers")) out.registers = std::max(out.registers, n);
  for (int n : numbers("(\\d+) bytes smem")) out.shared = std::max(out.shared, n);
  return out;
}

TEST_P(CudaCompile, WithoutSpills) {
  std::string why;
  if (cuda::nvrtc_identity(&why).empty()) GTEST_SKIP() << "SKIPPED, nothing was compiled: " << why;
  const ArchSpec& arch = find_arch("sm_90a");
  const GemmView view = lower(Problem::parse(GetParam().problem));
  const auto config = KernelConfig::parse(GetParam().config, &why);
  ASSERT_TRUE(config) << why;
  const Rule* rule = rejected_by(view, *config, arch);
  ASSERT_FALSE(rule) << GetParam().config << " rejected " << rule->name << ": " << rule->reason;
  compile(view, *config);
}

class CudaSpace : public testing::TestWithParam<const char*> {};

TEST_P(CudaSpace, WithoutSpills) {
  std::string why;
  if (cuda::nvrtc_identity(&why).empty()) GTEST_SKIP() << "SKIPPED, nothing was compiled: " << why;
  const ArchSpec& arch = find_arch("sm_90a");
  const GemmView view = lower(Problem::parse(GetParam()));
  std::map<int, std::vector<KernelConfig>> families;
  for (const KernelConfig& c : legal_configs(view, arch)) families[c.family].push_back(c);
  ASSERT_FALSE(families.empty());
  const char* mode = std::getenv("TESSERA_WALK");
  const size_t each = mode && std::string_view(mode) == "all" ? 32 : 2;
  for (auto& [family, list] : families) {
    const auto key = [](const KernelConfig& c) {
      return std::hash<std::string>{}(GetParam() + to_string(c));
    };
    std::sort(list.begin(), list.end(), [&](const auto& x, const auto& y) { return key(x) < key(y); });
    Compiled most;
    for (size_t i = 0; i < std::min(each, list.size()); ++i) {
      SCOPED_TRACE(to_string(list[i]));
      const Compiled one = compile(view, list[i]);
      EXPECT_LE(one.registers, arch.registers_per_thread);
      most.registers = std::max(most.registers, one.registers);
      most.shared = std::max(most.shared, one.shared);
    }
    const std::string name(to_string(static_cast<Family>(family)));
    RecordProperty(name + "_registers", most.registers);
    RecordProperty(name + "_shared", most.shared);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Space, CudaSpace,
    testing::Values("gemm m=2048 n=2048 k=2048 dtype=bf16", "gemm m=1000 n=768 k=1000 dtype=f16 layout=rrr",
                    "gemm m=8 n=4096 k=4096 dtype=bf16", "gemm m=32 n=4096 k=4096 dtype=bf16 layout=crr",
                    "gemm m=3 n=1001 k=777 dtype=bf16 layout=rrr",
                    "gemm m=1023 n=1025 k=1027 dtype=bf16 layout=ccr",
                    "gemm m=512 n=1024 k=2048 dtype=f8e4m3", "gemm m=16 n=2048 k=2048 dtype=f8e5m2",
                    "gemm m=512 n=512 k=512 dtype=i8", "gemm m=5 n=333 k=512 dtype=i8",
                    "gemm m=300 n=200 k=100 dtype=f32",
                    "gemm m=256 n=512 k=512 dtype=bf16 epilogue=bias,add,gelu out=f32",
                    "gemm m=64 n=4096 k=8192 dtype=bf16 epilogue=bias,silu batch=2",
                    "gemm m=7 n=777 k=1001 dtype=bf16 prepack=b"),
    [](const testing::TestParamInfo<const char*>& p) { return "problem" + std::to_string(p.index); });

constexpr const char* kLarge = "gemm m=4096 n=4096 k=4096 dtype=bf16";
INSTANTIATE_TEST_SUITE_P(
    TmaWs, CudaCompile,
    testing::Values(
        Case{kLarge,
             "tma_ws block=128x256x64 wave=8x1x1 inst=64x256x16 stages=4 pipeline=cooperative store=cshuffle "
             "persistent=1"},
        Case{kLarge,
             "tma_ws block=128x256x64 wave=8x1x1 inst=64x256x16 stages=4 pipeline=cooperative store=cshuffle "
             "persistent=1 cluster=2x1"},
        Case{kLarge,
             "tma_ws block=128x192x64 wave=4x1x1 inst=64x192x16 stages=4 pipeline=pingpong store=cshuffle "
             "persistent=1 wave_groups=2"},
        Case{kLarge,
             "tma_ws block=128x256x64 wave=8x1x1 inst=64x256x16 stages=4 pipeline=cooperative store=cshuffle "
             "stream_k=1 persistent=1 cluster=2x1"},
        Case{kLarge,
             "tma_ws block=128x96x64 wave=4x1x1 inst=64x96x16 stages=4 pipeline=pingpong store=cshuffle "
             "stream_k=1 persistent=1 cluster=2x1 wave_groups=2"},
        Case{"gemm m=1023 n=1025 k=4096 dtype=bf16",
             "tma_ws block=256x128x64 wave=8x1x1 inst=64x128x16 stages=4 pipeline=cooperative stream_k=1 "
             "persistent=1"},
        Case{"gemm m=32 n=4096 k=4096 dtype=bf16",
             "tma_ws block=64x32x128 wave=4x1x1 inst=64x32x16 stages=6 pipeline=cooperative store=cshuffle "
             "swap_ab=1 split_k=4 persistent=1 cluster=4x1"},
        Case{"gemm m=1536 n=384 k=50432 dtype=bf16",
             "tma_ws block=128x256x64 wave=8x1x1 inst=64x256x16 stages=4 pipeline=cooperative store=cshuffle "
             "persistent=1 cluster_k=7"},
        Case{"gemm m=64 n=2112 k=7168 dtype=bf16",
             "tma_ws block=64x64x128 wave=4x1x1 inst=64x64x16 stages=6 pipeline=cooperative store=cshuffle "
             "swap_ab=1 persistent=1 cluster=4x1 cluster_k=2"},
        Case{"gemm m=257 n=263 k=4099 dtype=bf16 layout=crr epilogue=bias,gelu",
             "tma_ws block=128x64x64 wave=8x1x1 inst=64x64x16 stages=4 pipeline=cooperative persistent=1 "
             "cluster_k=8"},
        Case{kLarge,
             "tma_ws block=64x64x64 wave=4x1x1 inst=64x64x16 stages=8 pipeline=cooperative persistent=1"},
        Case{"gemm m=4096 n=4096 k=4096 dtype=bf16 layout=crr epilogue=bias,add,gelu",
             "tma_ws block=256x128x64 wave=8x1x1 inst=64x128x16 stages=4 pipeline=cooperative persistent=1 "
             "cluster=1x2"},
        Case{"gemm m=16 n=4096 k=4096 dtype=f16 layout=ccr",
             "tma_ws block=64x16x64 wave=4x1x1 inst=64x16x16 stages=8 pipeline=cooperative store=cshuffle "
             "persistent=1 swap_ab=1 split_k=2"},
        Case{"gemm m=1023 n=1001 k=1001 dtype=bf16",
             "tma_ws block=128x128x64 wave=8x1x1 inst=64x128x16 stages=4 pipeline=cooperative persistent=1"},
        Case{"gemm m=512 n=512 k=512 dtype=f8e4m3",
             "tma_ws block=64x128x128 wave=4x1x1 inst=64x128x32 stages=4 pipeline=pingpong persistent=1 "
             "wave_groups=2"},
        Case{"gemm m=512 n=512 k=512 dtype=i8",
             "tma_ws block=128x128x128 wave=8x1x1 inst=64x128x32 stages=4 pipeline=cooperative "
             "store=cshuffle persistent=1"}),
    named);

}  // namespace
}  // namespace tessera
