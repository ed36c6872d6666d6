// cpu_amx where C is more than the caches hold.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "backend/cpu/amx.h"
#include "backend/cpu/amx_plan.h"
#include "backend/cpu/kernels.h"

namespace tessera {
namespace {

// bf16 rows that are lines of memory, without steps behind the product.
TEST(AmxFar, StreamsRowsThatAreLines) {
  const ArchSpec arch = find_arch("x86_amx");
  const KernelConfig c = testing_cpu::config("cpu_amx tile=32x32 inst=16x16x32");
  const auto streams = [&](const char* problem) {
    return streams_c(lower(Problem::parse(problem)), c, arch);
  };
  EXPECT_TRUE(streams("gemm m=1000000 n=64 k=32 dtype=bf16"));
  EXPECT_FALSE(streams("gemm m=10000 n=64 k=32 dtype=bf16"));
  EXPECT_FALSE(streams("gemm m=1000000 n=64 k=32 dtype=bf16 out=f32"));
  EXPECT_FALSE(streams("gemm m=1000000 n=72 k=32 dtype=bf16"));
  EXPECT_FALSE(streams("gemm m=1000000 n=64 k=32 dtype=bf16 epilogue=relu"));
  EXPECT_TRUE(streams("conv_fwd n=32 g=2 c=64 k=64 in=128x128 filter=3x3 pad=1x1 dtype=bf16"));
  EXPECT_FALSE(streams("conv_fwd n=32 g=2 c=48 k=48 in=128x128 filter=3x3 pad=1x1 dtype=bf16"));
}

// What is written is asked for ahead where L2 does not hold it, as far as it is one run of memory.
TEST(AmxFar, AsksForResultsBeyondL2) {
  const ArchSpec arch = find_arch("x86_amx");
  const auto fetches = [&](const char* problem, const char* config = "cpu_amx tile=32x32 inst=16x16x32") {
    const GemmView view = lower(Problem::parse(problem));
    const KernelConfig c = testing_cpu::config(config);
    return AmxPlan(view, c, *arch.find_instruction(view.a.type, view.b.type, c), arch, 1).fetches_c;
  };
  EXPECT_TRUE(fetches("gemm m=10000 n=192 k=64 dtype=bf16"));
  EXPECT_FALSE(fetches("gemm m=1000 n=192 k=64 dtype=bf16"));
  EXPECT_FALSE(fetches("gemm m=10000 n=192 k=64 ldc=1000 dtype=bf16"));
  EXPECT_FALSE(fetches("gemm m=10000 n=192 k=64 dtype=bf16", "cpu_amx tile=32x32 inst=16x16x32 swap_ab=1"));
  EXPECT_FALSE(
      fetches("gemm m=10000 n=192 k=64 dtype=bf16", "cpu_amx block=512x0x0 tile=32x32 inst=16x16x32"));
}

// Pieces cover C once whatever the threads; where the left operand is packed both sides are cut, so that no
// thread packs all of one.
TEST(AmxPlan, PiecesOfThreads) {
  const ArchSpec arch = find_arch("x86_amx");
  for (const char* problem : {"gemm m=2048 n=768 k=1024 layout=crr", "gemm m=130 n=70 k=64 layout=crr",
                              "gemm m=17 n=3000 k=128 layout=rrr", "gemm m=3000 n=17 k=128"}) {
    const GemmView view = lower(Problem::parse(std::string(problem) + " dtype=bf16"));
    for (const char* rest : {"", " pack_a=1", " pack_a=1 swap_ab=1"}) {
      const KernelConfig c = testing_cpu::config("cpu_amx tile=32x32 inst=16x16x32" + std::string(rest));
      for (const int threads : {1, 2, 5, 16, 64}) {
        SCOPED_TRACE(std::string(problem) + rest + " " + std::to_string(threads));
        const AmxPlan plan(view, c, *arch.find_instruction(view.a.type, view.b.type, c), arch, threads);
        std::vector<int> covered(static_cast<size_t>(plan.rows * plan.cols));
        for (const AmxPiece& p : plan.pieces) {
          for (int64_t row = p.row0; row < p.row1; ++row) {
            for (int64_t col = p.col0; col < p.col1; ++col)
              ++covered[static_cast<size_t>(row * plan.cols + col)];
          }
        }
        EXPECT_EQ(std::count(covered.begin(), covered.end(), 1), std::ssize(covered));
      }
    }
  }
  const GemmView view = lower(Problem::parse("gemm m=1000 n=1024 k=256 layout=crr dtype=bf16"));
  const KernelConfig c = testing_cpu::config("cpu_amx tile=32x32 inst=16x16x32 pack_a=1");
  const Instruction& inst = *arch.find_instruction(view.a.type, view.b.type, c);
  for (const AmxPiece& p : AmxPlan(view, c, inst, arch, 16).pieces) {
    EXPECT_LT(p.row1 - p.row0, 1000);
    EXPECT_LT(p.col1 - p.col0, 1024);
  }
}

// Caches so small that whole tiles are written past them, or are asked for ahead.
TEST(AmxFar, ResultsBeyondTheCaches) {
  if (!testing_cpu::runs_here("x86_amx")) GTEST_SKIP() << "this processor has no AMX";
  ArchSpec arch = find_arch("x86_amx");
  arch.compute_units = 1;
  for (const char* problem :
       {"gemm m=128 n=64 k=70", "gemm m=256 n=64 k=32 alpha=0", "gemm m=131 n=96 k=33 ldc=128",
        "gemm m=128 n=70 k=64 ldc=96", "gemm m=64 n=64 k=3000", "gemm m=128 n=64 k=70 beta=1",
        "gemm m=128 n=65 k=64", "gemm m=96 n=64 k=64 batch=3 layout=rrr",
        "conv_fwd n=2 c=32 k=64 in=12x16 filter=3x3 pad=1x1",
        "conv_fwd n=2 g=2 c=16 k=32 in=12x16 filter=3x3 pad=1x1 stride=2x2",
        "conv_bwd_data n=2 c=64 k=24 in=12x16 filter=3x3 pad=1x1 stride=2x2",
        "conv_bwd_data n=2 c=64 k=32 in=4x6x8 filter=1x1x1 stride=1x2x2",
        "conv_fwd n=2 g=9 c=16 k=16 in=24x25 filter=3x3 pad=1x1",
        "conv_fwd n=3 c=32 k=64 in=33x32 filter=1x2"}) {
    for (const char* tile : {"16x64", "32x32", "32x16"}) {
      const Problem p = Problem::parse(std::string(problem) + " dtype=bf16");
      const KernelConfig c = testing_cpu::config("cpu_amx inst=16x16x32 tile=" + std::string(tile));
      SCOPED_TRACE(to_string(p) + " | " + tile);
      const Source source = render(lower(p), c, arch);
      const auto module = std::make_shared<CpuModule>(testing_cpu::backend(1).compile(source, ""));
      for (const int64_t last_level : {1 << 12, 1 << 30}) {
        arch.l2.bytes = 1 << 15;
        arch.l3.bytes = last_level;
        testing_cpu::expect_right(
            *make_amx_kernel(module, arch, p, Choice{c, 0, ChoiceSource::explicit_config}),
            FillKind::integers);
      }
    }
  }
}

// Of a second-level cache so small that lines are copied in pieces though others are read with them.
TEST(AmxFar, PiecesOfLinesThatAreReadTogether) {
  if (!testing_cpu::runs_here("x86_amx")) GTEST_SKIP() << "this processor has no AMX";
  ArchSpec arch = find_arch("x86_amx");
  arch.compute_units = 1;
  arch.l2.bytes = 8192;
  for (const char* window : {"in=9x1500 filter=3x3 pad=1x1", "in=9x1501 filter=3x5 pad=1x2 stride=2x2",
                             "in=3x4x1200 filter=3x1x3 pad=1x0x1", "in=9x1500 filter=2x3 dilation=1x3"}) {
    for (const char* conv : {"conv_fwd n=2", "conv_bwd_data n=1", "conv_bwd_weight pack_b=0 n=2"}) {
      std::string problem(conv), tile = "cpu_amx inst=16x16x32 tile=32x32";
      if (const size_t at = problem.find(" pack_b=0"); at != std::string::npos) {
        problem.erase(at, 9);
        tile += " pack_a=1 pack_b=0";
      }
      const Problem p = Problem::parse(problem + " g=2 c=16 k=16 dtype=bf16 " + window);
      const KernelConfig c = testing_cpu::config(tile);
      SCOPED_TRACE(to_string(p));
      const Source source = render(lower(p), c, arch);
      const auto module = std::make_shared<CpuModule>(testing_cpu::backend(1).compile(source, ""));
      testing_cpu::expect_right(
          *make_amx_kernel(module, arch, p, Choice{c, 0, ChoiceSource::explicit_config}), FillKind::integers);
    }
  }
}

}  // namespace
}  // namespace tessera
