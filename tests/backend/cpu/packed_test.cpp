// cpu_packed against the reference: exact on integer-valued data, inputs and outputs against guard pages.
#include "backend/cpu/packed.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "backend/cpu/kernels.h"

namespace tessera {
namespace {

using testing_cpu::result;
using testing_cpu::runs_here;

std::unique_ptr<Kernel> kernel_for(std::string_view arch, const std::string& problem,
                                   const std::string& config, int threads = 1) {
  return testing_cpu::make_kernel(make_packed_kernel, arch, problem, "cpu_packed " + config, threads);
}

void expect_right(std::string_view arch, const std::string& config, const std::string& problem,
                  int threads = 1, FillKind kind = FillKind::integers) {
  SCOPED_TRACE(problem + " | " + config + " | " + std::string(arch));
  testing_cpu::expect_right(*kernel_for(arch, problem, config, threads), kind);
}

struct Case {
  const char* arch;
  const char* inst;  // of a tile of `vectors` times its n
  int lanes;
  const char* dtype;
};

class PackedTest : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (!runs_here(GetParam().arch)) GTEST_SKIP() << "this processor is no " << GetParam().arch;
  }
  std::string config(int rows, int vectors, const std::string& more) const {
    return "tile=" + std::to_string(rows) + "x" + std::to_string(vectors * GetParam().lanes) +
           " inst=" + GetParam().inst + " " + more;
  }
  std::string problem(const std::string& sizes, const char* layout, const std::string& more = "") const {
    return "gemm " + sizes + " dtype=" + GetParam().dtype + " layout=" + layout + " " + more;
  }
};

constexpr const char* kLayouts[] = {"rcr", "rrr", "crr", "ccr"};

TEST_P(PackedTest, EdgesOfTilesInEveryLayout) {
  for (const char* layout : kLayouts) {
    for (int m : {1, 3, 4, 5, 7, 13}) {
      const int n = GetParam().lanes * 2, k = 2 * m + 1;
      for (int dn : {-1, 0, 1, n - 1}) {
        const std::string sizes =
            "m=" + std::to_string(m) + " n=" + std::to_string(n + dn) + " k=" + std::to_string(k);
        expect_right(GetParam().arch, config(4, 2, "pack_a=1"), problem(sizes, layout));
      }
    }
  }
}

TEST_P(PackedTest, BlocksAndPartsOfK) {
  for (const char* layout : kLayouts) {
    for (const char* more :
         {"block=0x0x16 pack_a=1", "block=8x32x16 pack_a=1", "block=12x0x0 pack_a=1", "split_k=3 pack_a=1"}) {
      for (const char* prepack : {"", "prepack=b"}) {
        expect_right(GetParam().arch, config(4, 2, std::string(more) + (*prepack ? " preshuffle=1" : "")),
                     problem("m=29 n=67 k=61", layout, prepack));
      }
    }
  }
}

// Runs of whole tiles in one call, in the first block of rows, in later ones and behind their last tile.
TEST_P(PackedTest, ManyTilesOfFewSteps) {
  for (const char* sizes : {"m=128 n=67 k=1", "m=131 n=64 k=33", "m=301 n=67 k=64"}) {
    for (const char* more : {"pack_a=1", "block=132x0x0 pack_a=1"}) {
      for (const char* prepack : {"", "prepack=b"}) {
        expect_right(GetParam().arch, config(4, 2, std::string(more) + (*prepack ? " preshuffle=1" : "")),
                     problem(sizes, "rcr", prepack));
      }
    }
  }
}

TEST_P(PackedTest, ReadsAInPlaceWhereItCan) {
  for (const char* layout : kLayouts) {
    for (const char* sizes : {"m=4 n=16 k=4", "m=7 n=33 k=64", "m=22 n=70 k=128"}) {
      expect_right(GetParam().arch, config(4, 2, ""), problem(sizes, layout));
    }
  }
  // A k that is one part, whose sums are kept apart all the same.
  expect_right(GetParam().arch, config(4, 2, "split_k=2 preshuffle=1"),
               problem("m=4 n=64 k=4", "rcr", "prepack=b"));
}

TEST_P(PackedTest, BatchesStridesAlphaBeta) {
  for (const char* layout : kLayouts) {
    expect_right(
        GetParam().arch, config(4, 2, "pack_a=1"),
        problem("m=9 n=35 k=21", layout, "batch=3 lda=40 ldb=41 ldc=37 stride_a=2000 stride_c=400 beta=1"));
    expect_right(GetParam().arch, config(4, 2, "pack_a=1"),
                 problem("m=9 n=35 k=21", layout, "batch=2 stride_b=0 alpha=2 beta=-1"), 2);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Types, PackedTest,
    testing::Values(Case{"x86_avx2", "1x8x1", 8, "f32"}, Case{"x86_avx2", "1x8x1", 8, "bf16"},
                    Case{"x86_avx2", "1x8x2", 8, "i8"}, Case{"x86_avx2_vnni", "1x8x4", 8, "i8"},
                    Case{"x86_avx2_vnni", "1x8x4", 8, "u8xi8"}, Case{"x86_avx512", "1x16x1", 16, "f32"},
                    Case{"x86_avx512", "1x16x1", 16, "f16"}, Case{"x86_avx512", "1x16x1", 16, "f8e4m3"},
                    Case{"x86_avx512", "1x16x2", 16, "u8xi8"}, Case{"x86_avx512_bf16", "1x16x2", 16, "bf16"},
                    Case{"x86_avx512_bf16", "1x16x4", 16, "i8"},
                    Case{"x86_avx512_bf16", "1x16x4", 16, "u8xi8"}),
    [](const auto& one) {
      std::string name = std::string(one.param.arch) + '_' + one.param.inst + '_' + one.param.dtype;
      return name;
    });

// The rest does not depend on the instruction: the widest plain FMA there is.
struct Fma {
  const char* arch = runs_here("x86_avx512") ? "x86_avx512" : "x86_avx2";
  std::string config = runs_here("x86_avx512") ? "tile=6x64 inst=1x16x1 " : "tile=6x16 inst=1x8x1 ";
};

// Blocks of k are cut between taps, also where 16 is asked for and a tap has 24 channels; with B packed ahead
// nothing but the table of patches needs memory.
TEST(Packed, PatchesInPlace) {
  const Fma f;
  for (const char* problem : {"conv_fwd n=2 c=24 k=70 in=9x7 filter=3x3 pad=1x1",
                              "conv_fwd n=1 c=8 k=19 in=6 filter=2 stride=2 pad=3",
                              "conv_fwd n=2 g=2 c=16 k=33 in=5x6x4 filter=2x3x1 stride=2x1x1 pad=1:0x0:2x0",
                              "conv_bwd_data n=1 c=40 k=24 in=9x10 filter=3x3 stride=2x2 pad=1x1",
                              "conv_bwd_data n=2 c=16 k=64 in=8x8 filter=1x1 stride=2x2"}) {
    for (const char* more : {"", "block=0x0x16", "block=12x0x0"}) {
      for (int threads : {1, 3}) {
        expect_right(f.arch, f.config + more, problem + std::string(" dtype=f32"), threads);
        expect_right(f.arch, f.config + more + " preshuffle=1", problem + std::string(" dtype=f32 prepack=b"),
                     threads);
      }
    }
  }
}

// Lines of memory that groups share: they take turns over some rows of C, whatever the threads.
TEST(Packed, GroupsTakeTurns) {
  if (!runs_here("x86_avx512_bf16")) GTEST_SKIP() << "this processor has no AVX-512 with BF16";
  const std::string shape = "n=4 g=5 c=12 k=12 in=37x41 filter=3x2 stride=2x2 pad=1x1 dtype=";
  for (const char* op : {"conv_fwd ", "conv_bwd_data "}) {
    for (const int threads : {1, 2, 5}) {
      expect_right("x86_avx512_bf16", "tile=8x32 inst=1x16x1", op + shape + "f32", threads);
      expect_right("x86_avx512_bf16", "tile=8x32 inst=1x16x2", op + shape + "bf16", threads);
    }
  }
}

// ... and so do strided parts, each thread with rows of its own where there are enough turns: the
// second-level cache is a small one. Odd extents: parts differ in rows. A filter smaller than its stride:
// some have no taps.
TEST(Packed, StridedPartsTakeTurns) {
  if (!runs_here("x86_avx512_bf16")) GTEST_SKIP() << "this processor has no AVX-512 with BF16";
  for (const char* shape : {"n=9 g=5 c=12 k=12 in=37x41 filter=3x2 stride=2x2 pad=1x1",
                            "n=6 g=3 c=20 k=12 in=6x17x19 filter=1x3x2 stride=2x1x3 pad=0x1x1"}) {
    for (const char* more : {"", " prepack=b"}) {
      const Problem p = Problem::parse(std::string("conv_bwd_data ") + shape + " dtype=bf16" + more);
      const KernelConfig c = testing_cpu::config(std::string("cpu_packed tile=8x32 inst=1x16x2") +
                                                 (*more ? " preshuffle=1" : ""));
      for (const int threads : {1, 2}) {
        SCOPED_TRACE(to_string(p) + ", threads: " + std::to_string(threads));
        ArchSpec arch = find_arch("x86_avx512_bf16");
        arch.compute_units = threads;
        arch.l2.bytes = 16384;
        const auto module =
            std::make_shared<CpuModule>(testing_cpu::backend(1).compile(render(lower(p), c, arch), ""));
        testing_cpu::expect_right(
            *make_packed_kernel(module, arch, p, Choice{c, 0, ChoiceSource::explicit_config}));
      }
    }
  }
}

// Columns of which only some panels of B are packed at once, over one and several blocks of k.
TEST(Packed, StripsOfColumns) {
  if (!runs_here("x86_avx512_bf16")) GTEST_SKIP() << "this processor has no AVX-512 with BF16";
  const std::string problem = "conv_bwd_weight n=2 g=1 c=270 k=5 in=14x13 filter=5x4 pad=2x2 dtype=";
  expect_right("x86_avx512_bf16", "tile=6x64 inst=1x16x2 pack_a=1", problem + "bf16");
  expect_right("x86_avx512_bf16", "block=0x0x256 tile=6x64 inst=1x16x1 pack_a=1", problem + "f32");
}

// A step of k of packed A holds all rows, or those of a tile.
TEST(Packed, ManyRowsAlongMemory) {
  if (!runs_here("x86_avx512_bf16")) GTEST_SKIP() << "this processor has no AVX-512 with BF16";
  for (const int m : {100, 127, 128, 129}) {
    const std::string sizes = "gemm m=" + std::to_string(m) + " n=70 k=83 layout=crr dtype=";
    expect_right("x86_avx512_bf16", "tile=14x32 inst=1x16x2 pack_a=1", sizes + "bf16");
    expect_right("x86_avx512_bf16", "tile=6x64 inst=1x16x1 pack_a=1", sizes + "f32", 3);
  }
}

TEST(Packed, PrimesAndPanelEdges) {
  const Fma f;
  for (const char* sizes : {"m=61 n=127 k=257", "m=6 n=193 k=31", "m=257 n=3 k=64", "m=97 n=65 k=1"}) {
    for (const char* layout : kLayouts) {
      expect_right(f.arch, f.config + "pack_a=1",
                   std::string("gemm ") + sizes + " dtype=f32 layout=" + layout);
      expect_right(f.arch, f.config, std::string("gemm ") + sizes + " dtype=f32 layout=" + layout);
    }
  }
}

TEST(Packed, EveryEpilogueStepOnWholeAndEdgeTiles) {
  const Fma f;
  for (int i = 0; i < kEpilogueKindCount; ++i) {
    const std::string step(info(static_cast<EpilogueKind>(i)).name);
    const std::string problem = "gemm m=13 n=70 k=40 dtype=f32 layout=rrr epilogue=" + step;
    expect_right(f.arch, f.config, problem, 1, FillKind::uniform);
  }
  expect_right(f.arch, f.config,
               "gemm m=13 n=70 k=40 batch=2 dtype=bf16 layout=rcr d=f32 beta=0.5 alpha=0.25 "
               "epilogue=bias,add,mul_col,gelu,clamp:-1:1",
               1, FillKind::uniform);
}

TEST(Packed, NothingToMultiplyLeavesBetaC) {
  const Fma f;
  expect_right(f.arch, f.config + "pack_a=1", "gemm m=7 n=70 k=0 dtype=f32 layout=rcr beta=2");
  expect_right(f.arch, f.config + "pack_a=1", "gemm m=7 n=70 k=0 dtype=f32 layout=rcr epilogue=bias batch=2");
}

TEST(Packed, ZeroAlphaHidesAAndBAndZeroBetaHidesC) {
  const Fma f;
  auto kernel = kernel_for(f.arch, "gemm m=7 n=70 k=9 dtype=f32 layout=rcr", f.config);
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> a(7 * 9, kNan), b(70 * 9, kNan), c(7 * 70, 3.0f);
  kernel->run({.a = a.data(), .b = b.data(), .c = c.data(), .alpha = 0.0, .beta = 2.0});
  EXPECT_EQ(c, std::vector<float>(7 * 70, 6.0f));

  a.assign(a.size(), 1.0f);
  b.assign(b.size(), 1.0f);
  c.assign(c.size(), kNan);
  kernel->run({.a = a.data(), .b = b.data(), .c = c.data(), .alpha = 2.0, .beta = 0.0});
  EXPECT_EQ(c, std::vector<float>(7 * 70, 18.0f));
}

TEST(Packed, NanAndInfinityReachC) {
  const Fma f;
  auto kernel =
      kernel_for(f.arch, "gemm m=7 n=70 k=9 dtype=f32 layout=rrr epilogue=relu,clamp:-5:1e30,gelu", f.config);
  std::vector<float> a(7 * 9, 1.0f), b(70 * 9, 1.0f), c(7 * 70);
  a[0] = std::numeric_limits<float>::quiet_NaN();
  kernel->run({.a = a.data(), .b = b.data(), .c = c.data()});
  for (int j = 0; j < 70; ++j) EXPECT_TRUE(std::isnan(c[static_cast<size_t>(j)])) << j;
  EXPECT_FLOAT_EQ(c[70], 9.0f);
}

// Rows of C that meet no tap are cut for the threads, and so are sums of parts of k that are added up.
TEST(Packed, ThreadsShareWhatHasNoProduct) {
  const Fma f;
  for (const int threads : {1, 3, 16}) {
    for (const char* more : {"", " epilogue=bias,relu", " beta=2", " alpha=0 beta=1"}) {
      expect_right(
          f.arch, f.config,
          "conv_bwd_data n=3 g=2 c=96 k=16 in=17x19 filter=1x1 stride=2x2 dtype=f32" + std::string(more),
          threads);
    }
    for (const char* problem : {"gemm m=67 n=300 k=900 batch=2 dtype=f32 epilogue=bias beta=1",
                                "gemm m=3 n=2000 k=700 dtype=f32", "gemm m=700 n=5 k=2000 dtype=bf16"}) {
      expect_right(f.arch, f.config + "pack_a=1 split_k=5", problem, threads);
    }
  }
}

TEST(Packed, ThreadsChangeNoBit) {
  const Fma f;
  for (const char* problem :
       {"gemm m=131 n=257 k=300 dtype=f32 layout=rcr", "gemm m=300 n=40 k=77 dtype=bf16 layout=rrr out=f32",
        "gemm m=20 n=30 k=100 batch=5 dtype=f32 layout=ccr"}) {
    for (const char* more : {"pack_a=1", "pack_a=1 block=24x64x64", "pack_a=1 split_k=4"}) {
      const auto one = result(*kernel_for(f.arch, problem, f.config + more));
      for (int threads : {2, 3, 8}) {
        EXPECT_EQ(one, result(*kernel_for(f.arch, problem, f.config + more, threads)))
            << problem << more << threads;
      }
    }
  }
}

TEST(Packed, PackedBOfALargerMatrix) {
  const Fma f;
  for (const char* layout : {"rcr", "rrr"}) {
    auto kernel =
        kernel_for(f.arch, std::string("gemm m=9 n=70 k=33 batch=2 dtype=f32 prepack=b layout=") + layout,
                   f.config + "preshuffle=1");
    testing_cpu::expect_packed_alike<float>(*kernel, 99);
  }
}

TEST(Packed, RefusesBadBuffersAndWritesNothing) {
  const Fma f;
  auto kernel = kernel_for(f.arch, "gemm m=8 n=16 k=4 dtype=f32 layout=rrr epilogue=bias,add", f.config);
  std::vector<float> a(32, 1.0f), b(64, 1.0f), bias(16, 1.0f), d(128, 1.0f), c(256, 7.0f);
  const Buffers good{.a = a.data(), .b = b.data(), .c = c.data(), .d = {bias.data(), d.data()}};
  const auto refuse = [&](Buffers bad, const char* what) {
    const std::vector<float> before = c;
    try {
      kernel->run(bad);
      ADD_FAILURE() << what << " was accepted";
    } catch (const Error& e) { EXPECT_EQ(e.code(), ErrorCode::bad_input) << what; }
    EXPECT_EQ(c, before) << what;
  };
  Buffers bad = good;
  bad.a = nullptr;
  refuse(bad, "null A");
  bad = good;
  bad.b = nullptr;
  refuse(bad, "null B");
  bad = good;
  bad.c = nullptr;
  refuse(bad, "null C");
  bad = good;
  bad.d[1] = nullptr;
  refuse(bad, "null D");
  bad = good;
  bad.a = reinterpret_cast<const char*>(a.data()) + 2;
  refuse(bad, "misaligned A");
  bad = good;
  bad.c = reinterpret_cast<char*>(c.data()) + 1;
  refuse(bad, "misaligned C");
  bad = good;
  bad.a = c.data() + 127;
  refuse(bad, "A that ends inside C");
  bad = good;
  bad.b = c.data() + 8;
  refuse(bad, "B inside C");
  bad = good;
  bad.d[1] = c.data();
  refuse(bad, "D at C");
  bad = good;
  bad.workspace = reinterpret_cast<char*>(d.data()) + 4;
  refuse(bad, "misaligned workspace");
  EXPECT_NO_THROW(kernel->run(good));
  EXPECT_EQ(c[0], 6.0f);
  EXPECT_EQ(c[128], 7.0f);
}

}  // namespace
}  // namespace tessera
