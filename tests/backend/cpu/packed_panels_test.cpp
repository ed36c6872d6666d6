// How cpu_packed shares out columns to panels of B, and what their last vector takes.
#include <gtest/gtest.h>

#include "backend/cpu/kernels.h"
#include "backend/cpu/packed.h"
#include "backend/cpu/packed_plan.h"
#include "backend/cpu/scatter.h"
#include "backend/cpu/winograd.h"
#include "core/packed_shape.h"

namespace tessera {
namespace {

constexpr const char* kArch = "x86_avx512_bf16";

std::vector<int64_t> panels(const char* sizes, const char* tile) {
  const ArchSpec arch = find_arch(kArch);
  const GemmView view = lower(Problem::parse("gemm dtype=bf16 " + std::string(sizes)));
  const KernelConfig c = testing_cpu::config("cpu_packed inst=1x16x2 tile=" + std::string(tile));
  const PackedPlan plan(view, c, *arch.find_instruction(view.a.type, view.b.type, c), arch, 1, false);
  std::vector<int64_t> out;
  for (int64_t n = 0; n < plan.n; n += out.back()) out.push_back(plan.panel_cols(n, plan.n));
  return out;
}

TEST(PackedPanels, NoneOfOneVectorIsLast) {
  using Panels = std::vector<int64_t>;
  EXPECT_EQ(panels("m=64 n=64 k=64", "8x48"), (Panels{32, 32}));
  EXPECT_EQ(panels("m=64 n=50 k=64", "8x48"), (Panels{32, 18}));
  EXPECT_EQ(panels("m=64 n=256 k=64", "8x48"), (Panels{48, 48, 48, 48, 32, 32}));
  EXPECT_EQ(panels("m=64 n=80 k=64", "6x64"), (Panels{48, 32}));
  EXPECT_EQ(panels("m=64 n=80 k=64", "8x48"), (Panels{48, 32}));
  EXPECT_EQ(panels("m=64 n=48 k=64", "8x48"), (Panels{48}));
  // Enough sums for the instruction, columns that are neighbours of no panel, and B as it was packed.
  EXPECT_EQ(panels("m=64 n=48 k=64", "14x32"), (Panels{32, 16}));
  EXPECT_EQ(panels("m=64 n=16 k=64", "8x48"), (Panels{16}));
  EXPECT_EQ(panels("m=64 n=64 k=64 prepack=b", "8x48"), (Panels{48, 16}));
}

// Pieces come out about as many for every thread: of six groups five each for sixteen threads, not three.
TEST(PackedPanels, PiecesKeepThreadsBusy) {
  const ArchSpec arch = find_arch(kArch);
  const auto tasks = [&](const std::string& problem, int threads) {
    const GemmView view = lower(Problem::parse("gemm dtype=f32 " + problem));
    const KernelConfig c = testing_cpu::config("cpu_packed inst=1x16x1 tile=6x64");
    const PackedPlan plan(view, c, *arch.find_instruction(view.a.type, view.b.type, c), arch, threads, false);
    return plan.tasks.size();
  };
  EXPECT_EQ(tasks("m=784 n=120 k=1080 batch=6", 16), 30u);
  EXPECT_EQ(tasks("m=784 n=120 k=1080 batch=16", 16), 16u);
  EXPECT_EQ(tasks("m=784 n=120 k=1080 batch=160", 16), 160u);
  EXPECT_EQ(tasks("m=1024 n=1024 k=1024", 16), 16u);
  EXPECT_EQ(tasks("m=1024 n=1024 k=1024", 1), 1u);
}

TEST(PackedPanels, Right) {
  if (!testing_cpu::runs_here(kArch)) GTEST_SKIP() << "no " << kArch << " here";
  for (const char* tile : {"8x48", "5x64"}) {
    for (const char* sizes : {"m=63 n=65 k=67", "m=37 n=50 k=131", "m=9 n=160 k=20 layout=rrr",
                              "m=29 n=208 k=66 layout=ccr beta=1",
                              "m=65 n=255 k=300 batch=2 epilogue=bias,relu", "m=300 n=145 k=70 out=f32"}) {
      for (const char* more :
           {"pack_a=1", "pack_a=1 block=0x0x64", "pack_a=1 block=64x96x64", "pack_a=1 split_k=2"}) {
        const std::string problem = "gemm dtype=bf16 " + std::string(sizes);
        const std::string c = "cpu_packed inst=1x16x2 tile=" + std::string(tile) + ' ' + more;
        SCOPED_TRACE(problem + " | " + c);
        for (const int threads : {1, 2})
          testing_cpu::expect_right(
              *testing_cpu::make_kernel(make_packed_kernel, kArch, problem, c, threads));
      }
    }
  }
}

// Half an instruction for a last vector that is half empty: of a panel among others, of the only one, of
// columns whose few neighbours are dot products, and of panels that share columns out.
TEST(HalfEdge, VectorsOfTheLastPanel) {
  const struct {
    const char *problem, *config;
    int64_t vectors;
  } cases[] = {{"gemm m=64 n=24 k=64 dtype=f32", "cpu_packed inst=1x16x1 tile=8x32", 2},
               {"gemm m=64 n=25 k=64 dtype=f32", "cpu_packed inst=1x16x1 tile=8x32", 0},
               {"gemm m=64 n=32 k=64 dtype=f32", "cpu_packed inst=1x16x1 tile=8x32", 0},
               {"gemm m=64 n=100 k=64 dtype=f32", "cpu_packed inst=1x16x1 tile=8x48", 1},
               {"gemm m=64 n=34 k=64 dtype=f32", "cpu_packed inst=1x16x1 tile=8x32 edge_dot=1", 0},
               {"gemm m=64 n=34 k=64 dtype=bf16", "cpu_packed inst=1x16x2 tile=8x32", 1},
               {"gemm m=64 n=34 k=640 dtype=bf16", "cpu_packed inst=1x16x2 tile=8x32", 0},
               {"gemm m=64 n=24 k=64 dtype=i8", "cpu_packed inst=1x16x4 tile=8x32", 2},
               {"gemm m=64 n=24 k=64 dtype=i8", "cpu_packed inst=1x16x2 tile=8x32", 0},
               {"gemm m=8 n=24 k=64 dtype=f32", "cpu_direct inst=1x16x1 tile=8x32", 0},
               {"conv_fwd n=1 c=16 k=56 in=9x9 filter=3x3 pad=1x1 dtype=f32",
                "cpu_winograd inst=1x16x1 block=24x0x0 tile=8x48", 1},
               {"conv_bwd_weight n=1 c=40 k=16 in=9x9 filter=3x3 pad=1x1 dtype=f32",
                "cpu_winograd_weight inst=1x16x1 block=24x0x0 tile=8x48", 3},
               {"conv_bwd_data n=1 c=4 k=16 in=9x9 filter=3x3 pad=1x1 dtype=f32",
                "cpu_scatter inst=1x16x1 block=48x0x0 tile=8x48", 3}};
  for (const auto& at : cases) {
    SCOPED_TRACE(std::string(at.problem) + " | " + at.config);
    const GemmView view = lower(Problem::parse(at.problem));
    const KernelConfig c = testing_cpu::config(at.config);
    EXPECT_EQ(half_edge(view, c, find_arch("x86_zen4")), at.vectors);
    EXPECT_EQ(half_edge(view, c, find_arch(kArch)), 0) << "no processor that issues halves";
  }
}

TEST(HalfEdge, Right) {
  if (!testing_cpu::runs_here(kArch)) GTEST_SKIP() << "no " << kArch << " here";
  const auto right = [](testing_cpu::MakeCpuKernel make, const std::string& problem, const std::string& c) {
    SCOPED_TRACE(problem + " | " + c);
    ASSERT_NE(half_edge(lower(Problem::parse(problem)), testing_cpu::config(c), find_arch("x86_zen4")), 0);
    for (const int threads : {1, 2})
      testing_cpu::expect_right(*testing_cpu::make_kernel(make, "x86_zen4", problem, c, threads));
  };
  const struct {
    const char *dtype, *inst;
  } types[] = {{"f32", "1x16x1"}, {"bf16", "1x16x2"}, {"i8", "1x16x4"}};
  for (const auto& type : types) {
    for (const char* sizes :
         {"m=29 n=24 k=33", "m=61 n=72 k=40 layout=crr", "m=13 n=53 k=20 layout=rrr beta=1",
          "m=9 n=1 k=70 layout=ccr", "m=30 n=97 k=17 batch=2 epilogue=bias,relu"}) {
      for (const char* more : {"pack_a=1", "pack_a=1 block=12x0x16", "pack_a=1 split_k=2"}) {
        right(make_packed_kernel, "gemm dtype=" + std::string(type.dtype) + ' ' + sizes,
              "cpu_packed tile=5x64 inst=" + std::string(type.inst) + ' ' + more);
      }
    }
  }
  for (const char* problem : {"conv_fwd n=2 g=3 c=24 k=24 in=9x7 filter=3x3 pad=1x1 dtype=f32",
                              "conv_bwd_data n=2 c=40 k=24 in=9x10 filter=3x3 stride=2x2 pad=1x1 dtype=f32"})
    right(make_packed_kernel, problem, "cpu_packed tile=7x32 inst=1x16x1");
  right(make_winograd_kernel, "conv_fwd n=2 g=2 c=24 k=24 in=9x7 filter=3x3 pad=1x1 dtype=f32",
        "cpu_winograd block=24x0x0 tile=7x32 inst=1x16x1");
  right(make_winograd_kernel, "conv_bwd_data n=1 c=56 k=20 in=9x12 filter=3x3 dtype=f32",
        "cpu_winograd block=24x0x0 tile=6x64 inst=1x16x1");
  right(make_winograd_weight_kernel, "conv_bwd_weight n=2 g=2 c=24 k=24 in=9x7 filter=3x3 pad=1x1 dtype=f32",
        "cpu_winograd_weight block=24x0x0 tile=7x32 inst=1x16x1");
  right(make_winograd_weight_kernel, "conv_bwd_weight n=1 c=70 k=20 in=9x12 filter=3x3 dtype=f32",
        "cpu_winograd_weight block=24x0x0 tile=6x64 inst=1x16x1");
  right(make_scatter_kernel, "conv_bwd_data n=2 c=4 k=16 in=12x11 filter=3x3 pad=1x1 dtype=f32",
        "cpu_scatter block=48x0x0 tile=8x48 inst=1x16x1");
}

}  // namespace
}  // namespace tessera
