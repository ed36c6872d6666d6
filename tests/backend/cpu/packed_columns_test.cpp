// B packed in columns for cpu_dot, and for cpu_direct with the operands exchanged.
#include <gtest/gtest.h>

#include "backend/cpu/kernels.h"
#include "backend/cpu/unpacked.h"

namespace tessera {
namespace {

using testing_cpu::runs_here;

void expect_right(std::string_view arch, const std::string& config, const std::string& problem,
                  int threads = 1) {
  testing_cpu::expect_right(make_unpacked_kernel, arch, config, problem, threads);
}

// Columns of B packed ahead, long ones and short ones: kernels that read them are those of a B in memory.
TEST(PackedColumns, OfAnyLayoutAndSize) {
  struct {
    const char *arch, *config, *types;
  } const kernels[] = {{"x86_avx512", "cpu_dot tile=4x6 inst=1x16x1", "f32"},
                       {"x86_avx512", "cpu_dot tile=1x8 inst=1x16x1 swap_ab=1", "f16"},
                       {"x86_avx512", "cpu_dot tile=2x4 inst=1x16x2", "i8"},
                       {"x86_avx512", "cpu_direct tile=6x32 inst=1x16x1 swap_ab=1", "f32"},
                       {"x86_avx512", "cpu_direct tile=4x64 inst=1x16x1 swap_ab=1", "f8e4m3"},
                       {"x86_avx512_bf16", "cpu_dot tile=4x2 inst=1x16x2 swap_ab=1", "bf16"},
                       {"x86_avx512_bf16", "cpu_direct tile=8x32 inst=1x16x2 swap_ab=1", "bf16"},
                       {"x86_avx512_bf16", "cpu_direct tile=4x32 inst=1x16x4 swap_ab=1", "i8"},
                       {"x86_avx2", "cpu_dot tile=2x2 inst=1x8x2 swap_ab=1", "u8xi8"}};
  testing_cpu::LeftOut left_out;
  for (const auto& kernel : kernels) {
    if (left_out(kernel.arch)) continue;
    const std::string config = kernel.config + std::string(" preshuffle=1");
    const bool dot = config.starts_with("cpu_dot");
    for (const char* layout : {"rcr", "rrr", "crr", "ccr"}) {
      if (dot && layout[0] == 'c') continue;
      const std::string rest = std::string(" prepack=b layout=") + layout + " dtype=" + kernel.types;
      for (const char* shape :
           {"m=23 n=50 k=20", "m=9 n=24 k=257", "m=40 n=9 k=1030", "m=8 n=8 k=1024 batch=3 epilogue=bias",
            "m=9 n=17 k=0 beta=1", "m=14 n=37 k=300 batch=2 stride_b=0 epilogue=relu"})
        expect_right(kernel.arch, config, std::string("gemm ") + shape + rest);
      for (int threads : {2, 3}) {
        expect_right(kernel.arch, config, "gemm m=70 n=90 k=700" + rest, threads);
        expect_right(kernel.arch, config + " split_k=3", "gemm m=9 n=70 k=700 beta=1" + rest, threads);
      }
    }
  }
  if (left_out("x86_avx512")) return;
  expect_right("x86_avx512", "cpu_dot tile=4x4 inst=1x16x1 preshuffle=1",
               "conv_fwd n=3 c=40 k=30 in=9x7 filter=1x1 dtype=f32 prepack=b", 2);
}

TEST(PackedColumns, OfALargerMatrix) {
  if (!runs_here("x86_avx512")) GTEST_SKIP() << "this processor has no AVX-512";
  for (const char* layout : {"rcr", "rrr"}) {
    const auto kernel = testing_cpu::make_kernel(
        make_unpacked_kernel, "x86_avx512",
        std::string("gemm m=9 n=70 k=300 batch=2 dtype=f32 prepack=b layout=") + layout,
        "cpu_dot tile=4x4 inst=1x16x1 preshuffle=1");
    testing_cpu::expect_packed_alike<float>(*kernel, 311);
  }
}

}  // namespace
}  // namespace tessera
