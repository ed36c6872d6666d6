// How cpu_packed shares out columns to panels of B.
#include <gtest/gtest.h>

#include "backend/cpu/kernels.h"
#include "backend/cpu/packed.h"
#include "backend/cpu/packed_plan.h"

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

}  // namespace
}  // namespace tessera
