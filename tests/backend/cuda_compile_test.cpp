// Every kind of tma_ws kernel compiles for sm_90a, without spills and without serialised wgmma. Needs NVRTC,
// no GPU.
#include <gtest/gtest.h>

#include <regex>
#include <string>

#include "backend/cuda/nvrtc.h"
#include "codegen/render.h"
#include "core/gemm_view.h"
#include "space/rules.h"
#include "tessera/problem.h"

namespace tessera {
namespace {

struct Case {
  const char* problem;
  const char* config;
};

std::string named(const testing::TestParamInfo<Case>& p) { return "case" + std::to_string(p.index); }

class CudaCompile : public testing::TestWithParam<Case> {};

TEST_P(CudaCompile, WithoutSpills) {
  std::string why;
  if (cuda::nvrtc_identity(&why).empty()) GTEST_SKIP() << "SKIPPED, nothing was compiled: " << why;
  const ArchSpec& arch = find_arch("sm_90a");
  const GemmView view = lower(Problem::parse(GetParam().problem));
  const auto config = KernelConfig::parse(GetParam().config, &why);
  ASSERT_TRUE(config) << why;
  const Rule* rule = rejected_by(view, *config, arch);
  ASSERT_FALSE(rule) << GetParam().config << " rejected " << rule->name << ": " << rule->reason;
  const Source source = render(view, *config, arch);
  std::string log;
  const Binary binary = cuda::compile_nvrtc(source, "", &log);
  EXPECT_EQ(binary.bytes.substr(1, 3), "ELF");
  EXPECT_NE(binary.bytes.find(source.symbol), std::string::npos);
  std::smatch found;
  ASSERT_TRUE(std::regex_search(log, found, std::regex("(\\d+) bytes spill stores"))) << log;
  EXPECT_EQ(found[1], "0") << log;
  EXPECT_EQ(log.find("serializ"), std::string::npos) << log;
}

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
