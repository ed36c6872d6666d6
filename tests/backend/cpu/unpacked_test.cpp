// cpu_direct and cpu_dot against the reference: exact on integer-valued data, inputs and outputs against
// guard pages.
#include "backend/cpu/unpacked.h"

#include <gtest/gtest.h>

#include "backend/cpu/kernels.h"

namespace tessera {
namespace {

using testing_cpu::runs_here;

void expect_right(std::string_view arch, const std::string& config, const std::string& problem,
                  int threads = 1) {
  testing_cpu::expect_right(make_unpacked_kernel, arch, config, problem, threads);
}

struct Case {
  const char* arch;
  const char* config;  // %s: the instruction's shape
  const char* dtype;
};

std::string with_types(const std::string& shape, const char* dtype) {
  return "gemm " + shape + " dtype=" + dtype;
}

// Around whole vectors, tiles and blocks of k; single rows and columns.
constexpr const char* kShapes[] = {"m=1 n=1 k=1",    "m=5 n=7 k=11",   "m=16 n=16 k=16", "m=17 n=33 k=65",
                                   "m=3 n=70 k=130", "m=40 n=9 k=257", "m=64 n=1 k=64",  "m=2 n=48 k=1030",
                                   "m=23 n=50 k=20", "m=9 n=24 k=24"};

class DirectTest : public testing::TestWithParam<Case> {};

TEST_P(DirectTest, AnyLayoutAndSize) {
  const Case& c = GetParam();
  if (!runs_here(c.arch)) GTEST_SKIP() << "this processor is no " << c.arch;
  for (const char* layout : {"rcr", "rrr", "crr", "ccr"}) {
    for (const char* shape : kShapes) {
      expect_right(c.arch, c.config, with_types(shape, c.dtype) + " layout=" + layout);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Unpacked, DirectTest,
    testing::Values(Case{"x86_avx512", "cpu_direct tile=16x16 inst=1x16x1", "f32"},
                    Case{"x86_avx512", "cpu_direct tile=6x64 inst=1x16x1 swap_ab=1", "f32"},
                    Case{"x86_avx512", "cpu_direct tile=12x32 inst=1x16x1", "bf16"},
                    Case{"x86_avx512", "cpu_direct tile=3x16 inst=1x16x1 swap_ab=1", "f16 out=f32"},
                    Case{"x86_avx512", "cpu_direct tile=1x128 inst=1x16x1", "f8e4m3"},
                    Case{"x86_avx512", "cpu_direct tile=8x32 inst=1x16x1", "f8e5m2"},
                    Case{"x86_avx512", "cpu_direct tile=7x32 inst=1x16x2", "i8"},
                    Case{"x86_avx512", "cpu_direct tile=5x16 inst=1x16x2", "u8xi8"},
                    Case{"x86_avx512_bf16", "cpu_direct tile=8x32 inst=1x16x2", "bf16 out=f32"},
                    Case{"x86_avx512_bf16", "cpu_direct tile=12x32 inst=1x16x4", "i8"},
                    Case{"x86_avx512_bf16", "cpu_direct tile=4x64 inst=1x16x4 swap_ab=1", "i8"},
                    Case{"x86_avx512_bf16", "cpu_direct tile=16x16 inst=1x16x4", "u8xi8"},
                    Case{"x86_avx512_bf16", "cpu_direct tile=6x32 inst=1x16x4 swap_ab=1", "u8xi8"},
                    Case{"x86_avx2_vnni", "cpu_direct tile=4x16 inst=1x8x4 swap_ab=1", "u8xi8"},
                    Case{"x86_avx2_vnni", "cpu_direct tile=4x16 inst=1x8x4", "u8xi8"},
                    Case{"x86_avx2_vnni", "cpu_direct tile=6x16 inst=1x8x4 swap_ab=1", "i8"},
                    Case{"x86_avx2", "cpu_direct tile=6x16 inst=1x8x1", "f32"},
                    Case{"x86_avx2", "cpu_direct tile=4x8 inst=1x8x1 swap_ab=1", "bf16"},
                    Case{"x86_avx2", "cpu_direct tile=4x16 inst=1x8x1", "f16"},
                    Case{"x86_avx2", "cpu_direct tile=4x24 inst=1x8x1", "f8e4m3"},
                    Case{"x86_avx2", "cpu_direct tile=4x16 inst=1x8x2", "i8"},
                    Case{"x86_avx2", "cpu_direct tile=2x8 inst=1x8x2 swap_ab=1", "u8xi8"}));

class DotTest : public testing::TestWithParam<Case> {};

TEST_P(DotTest, AnySizeThatHoldsATile) {
  const Case& c = GetParam();
  if (!runs_here(c.arch)) GTEST_SKIP() << "this processor is no " << c.arch;
  const KernelConfig config = testing_cpu::config(c.config);
  for (const char* shape : {"m=4 n=6 k=1", "m=6 n=16 k=33", "m=16 n=37 k=257", "m=33 n=20 k=1100",
                            "m=41 n=17 k=512", "m=9 n=100 k=100", "m=1 n=50 k=2003", "m=19 n=1 k=131"}) {
    const Problem p = Problem::parse(with_types(shape, c.dtype));
    const GemmView v = lower(p);
    if ((config.swap_ab ? v.n : v.m) < config.tile_m || (config.swap_ab ? v.m : v.n) < config.tile_n)
      continue;
    expect_right(c.arch, c.config, to_string(p));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Unpacked, DotTest,
    testing::Values(Case{"x86_avx512", "cpu_dot tile=1x8 inst=1x16x1", "f32"},
                    Case{"x86_avx512", "cpu_dot tile=4x6 inst=1x16x1", "f32"},
                    Case{"x86_avx512", "cpu_dot tile=1x1 inst=1x16x1", "f32"},
                    Case{"x86_avx512", "cpu_dot tile=8x3 inst=1x16x1 swap_ab=1", "bf16"},
                    Case{"x86_avx512", "cpu_dot tile=4x4 inst=1x16x1", "bf16"},
                    Case{"x86_avx512", "cpu_dot tile=2x8 inst=1x16x1", "f16"},
                    Case{"x86_avx512", "cpu_dot tile=1x16 inst=1x16x1", "f8e5m2"},
                    Case{"x86_avx512", "cpu_dot tile=3x4 inst=1x16x2", "i8"},
                    Case{"x86_avx2_vnni", "cpu_dot tile=4x2 inst=1x8x4 swap_ab=1", "u8xi8"},
                    Case{"x86_avx2_vnni", "cpu_dot tile=2x4 inst=1x8x4", "u8xi8"},
                    Case{"x86_avx512_bf16", "cpu_dot tile=4x6 inst=1x16x2", "bf16"},
                    Case{"x86_avx512_bf16", "cpu_dot tile=4x6 inst=1x16x4", "i8"},
                    Case{"x86_avx512_bf16", "cpu_dot tile=1x8 inst=1x16x4 swap_ab=1", "i8"},
                    Case{"x86_avx512_bf16", "cpu_dot tile=1x8 inst=1x16x4", "u8xi8"},
                    Case{"x86_avx512_bf16", "cpu_dot tile=4x2 inst=1x16x4 swap_ab=1", "u8xi8"},
                    Case{"x86_avx2", "cpu_dot tile=3x3 inst=1x8x1", "f32"},
                    Case{"x86_avx2", "cpu_dot tile=1x4 inst=1x8x1 swap_ab=1", "bf16"},
                    Case{"x86_avx2", "cpu_dot tile=2x3 inst=1x8x1", "f8e4m3"},
                    Case{"x86_avx2", "cpu_dot tile=2x4 inst=1x8x2", "u8xi8"}));

class Unpacked : public testing::Test {
 protected:
  void SetUp() override {
    if (!runs_here("x86_avx512")) GTEST_SKIP() << "this processor has no AVX-512";
  }
};

// Several rows of C in a vector: whole turns of them and less, up to the last byte of A.
TEST_F(Unpacked, NarrowRowsSideBySide) {
  if (!runs_here("x86_avx512_bf16")) GTEST_SKIP() << "this processor has no AVX-512 with BF16";
  const auto gemm = [](int m, int n, int k, const char* more) {
    return "gemm m=" + std::to_string(m) + " n=" + std::to_string(n) + " k=" + std::to_string(k) + more;
  };
  for (const int m : {1, 33, 64, 65, 71, 95, 97, 129, 300}) {
    for (const int n : {1, 2, 4, 8}) {
      for (int words = 1; words <= n; ++words) {
        for (const int threads : {1, 3}) {
          expect_right("x86_avx512_bf16", "cpu_direct tile=16x16 inst=1x16x1",
                       gemm(m, n, words, " dtype=f32 layout=rrr"), threads);
          expect_right("x86_avx512_bf16", "cpu_direct tile=5x16 inst=1x16x2",
                       gemm(m, n, 2 * words, " dtype=bf16 layout=rcr"), threads);
          expect_right("x86_avx512_bf16", "cpu_direct tile=16x16 inst=1x16x1 preshuffle=1",
                       gemm(m, n, words, " dtype=f32 layout=rcr prepack=b"), threads);
          expect_right("x86_avx512_bf16", "cpu_direct tile=5x16 inst=1x16x2 preshuffle=1",
                       gemm(m, n, 2 * words, " dtype=bf16 layout=rrr prepack=b"), threads);
        }
      }
    }
  }
  expect_right("x86_avx512_bf16", "cpu_direct tile=16x16 inst=1x16x2",
               "conv_fwd n=3 c=8 k=8 in=21x17 filter=1x1 dtype=bf16", 2);
  expect_right("x86_avx512_bf16", "cpu_direct tile=16x16 inst=1x16x2 preshuffle=1",
               "conv_fwd n=3 c=8 k=8 in=21x17 filter=1x1 dtype=bf16 prepack=b", 2);
  expect_right("x86_avx512_bf16", "cpu_direct tile=16x16 inst=1x16x2",
               "conv_fwd n=3 c=8 k=8 in=21x17 filter=1x1 dtype=bf16 epilogue=bias alpha=2 beta=1", 2);
}

// A column of a row-major B is contiguous along k when it is the only one.
TEST_F(Unpacked, DotOverTheOnlyColumnOfARowMajorB) {
  expect_right("x86_avx512", "cpu_dot tile=1x8 inst=1x16x1 swap_ab=1",
               "gemm m=997 n=1 k=203 dtype=f32 layout=rrr");
}

constexpr const char* kConfigs[] = {"cpu_direct tile=6x32 inst=1x16x1",
                                    "cpu_direct tile=6x16 inst=1x16x1 swap_ab=1",
                                    "cpu_dot tile=4x4 inst=1x16x1", "cpu_dot tile=2x6 inst=1x16x1 swap_ab=1"};

TEST_F(Unpacked, Epilogues) {
  for (const char* config : {kConfigs[0], kConfigs[3]}) {
    for (const char* rest :
         {"alpha=2", "beta=3", "alpha=2 beta=-1", "alpha=0", "alpha=0 beta=2", "epilogue=bias,relu",
          "epilogue=mul_col,add", "epilogue=add_row,clamp:-5:9 out=f16", "epilogue=gelu", "out=bf16"}) {
      expect_right("x86_avx512", config, "gemm m=14 n=37 k=50 dtype=f32 layout=rcr " + std::string(rest));
    }
  }
  testing_cpu::LeftOut left_out;
  for (const char* config : {"cpu_direct tile=12x32 inst=1x16x4", "cpu_dot tile=4x6 inst=1x16x4"}) {
    if (left_out("x86_avx512_bf16")) continue;
    expect_right("x86_avx512_bf16", config,
                 "gemm m=14 n=37 k=50 dtype=i8 layout=rcr epilogue=quant:0.01:3 out=i8");
    expect_right("x86_avx512_bf16", config, "gemm m=14 n=37 k=50 dtype=i8 layout=rcr beta=1");
  }
}

// Tiles that overlap, or stand still, store nothing twice that C's old values enter.
TEST_F(Unpacked, RowsThatDoNotFillATile) {
  for (const char* tile : {"6x32", "12x32", "5x16", "2x64"}) {
    const std::string config = "cpu_direct tile=" + std::string(tile) + " inst=1x16x1";
    for (int m : {1, 2, 3, 4, 5, 7, 8, 11, 13, 19, 27}) {
      for (const char* rest :
           {"layout=rrr", "layout=rrr beta=3", "layout=crr epilogue=bias", "layout=rcr beta=1"}) {
        expect_right("x86_avx512", config, "gemm n=41 k=18 dtype=f32 m=" + std::to_string(m) + ' ' + rest);
      }
    }
  }
}

// Rows a power of two apart are staged, a block of a deep k at a time.
TEST_F(Unpacked, DeepRowsPagesApart) {
  for (const char* config : {"cpu_direct tile=24x16 inst=1x16x1", "cpu_direct tile=16x16 inst=1x16x1"}) {
    expect_right("x86_avx512", config, "gemm m=40 n=16 k=8192 dtype=f32 layout=rrr");
    expect_right("x86_avx512", config, "gemm m=5 n=13 k=2048 dtype=f32 layout=rrr beta=1");
  }
}

// Columns that come from memory are read a few rows at a time.
TEST_F(Unpacked, ColumnsBeyondTheCache) {
  for (const char* config : {"cpu_direct tile=6x64 inst=1x16x1", "cpu_direct tile=4x64 inst=1x16x1"}) {
    for (int m : {1, 3, 5, 20}) {
      expect_right("x86_avx512", config,
                   "gemm n=1160 k=1030 dtype=f32 layout=rrr beta=2 m=" + std::to_string(m));
    }
  }
}

// Columns of cpu_dot from a last-level cache and from memory, for rows that L1 keeps and that it does not,
// caches slow and fast: side by side, and with room between them.
TEST_F(Unpacked, DotOverColumnsFromAfar) {
  ArchSpec arch = find_arch("x86_avx512");
  arch.compute_units = 1;
  arch.l2.bytes = 2048;
  struct Caches {
    int64_t l1, l3;
    double l3_bytes_per_cycle;
  };
  for (const char* tile : {"1x16", "2x8", "3x6", "4x6", "4x1"}) {
    const KernelConfig config = testing_cpu::config("cpu_dot inst=1x16x1 tile=" + std::string(tile));
    std::map<std::string, std::shared_ptr<CpuModule>> modules;
    for (const char* sizes : {"n=16 k=1030", "n=41 k=67", "n=41 k=67 ldb=70", "n=41 k=67 ldb=300",
                              "n=33 k=800", "n=33 k=800 ldb=811"}) {
      for (int m = config.tile_m; m <= config.tile_m + 1; ++m) {
        const Problem p = Problem::parse("gemm dtype=f32 m=" + std::to_string(m) + " " + sizes);
        SCOPED_TRACE(to_string(p) + " | " + tile);
        const Source source = render(lower(p), config, arch);
        auto& module = modules[source.symbol];
        if (!module) module = std::make_shared<CpuModule>(testing_cpu::backend(1).compile(source, ""));
        for (const Caches& caches : {Caches{32768, 4096, 10}, Caches{32768, 1 << 24, 10},
                                     Caches{512, 4096, 10}, Caches{32768, 4096, 28}, Caches{512, 4096, 28}}) {
          arch.l1.bytes = caches.l1;
          arch.l3.bytes = caches.l3;
          arch.l3.bytes_per_cycle = caches.l3_bytes_per_cycle;
          testing_cpu::expect_right(
              *make_unpacked_kernel(module, arch, p, Choice{config, 0, ChoiceSource::explicit_config}));
        }
      }
    }
  }
}

// Few rows times row-major bytes: columns around whole sets of 64, k around whole words and copies of A.
TEST_F(Unpacked, InterleavedBytes) {
  if (!runs_here("x86_avx512_bf16")) GTEST_SKIP() << "this processor has no VNNI";
  for (const char* tile : {"1x64", "4x64", "2x128", "1x256"}) {
    const std::string config = "cpu_direct tile=" + std::string(tile) + " inst=1x16x4";
    const int most = tile[0] - '0';
    for (const char* type : {"i8", "u8xi8"}) {
      for (const char* shape :
           {"n=1 k=1", "n=64 k=4", "n=63 k=18", "n=130 k=257", "n=300 k=515", "n=4200 k=35"}) {
        for (int m : {1, most}) {
          const std::string problem =
              "gemm m=" + std::to_string(m) + ' ' + shape + " dtype=" + type + " layout=";
          expect_right("x86_avx512_bf16", config, problem + "rrr beta=1");
          expect_right("x86_avx512_bf16", config, problem + "crr epilogue=quant:0.01:3 out=i8");
        }
      }
      const std::string batched =
          std::string("gemm m=1 n=150 k=300 ldb=160 batch=3 layout=rrr dtype=") + type;
      expect_right("x86_avx512_bf16", config, batched, 2);
      expect_right("x86_avx512_bf16", config + " split_k=3", batched + " alpha=2", 2);
    }
  }
}

// The same from a last-level cache and from memory, slow and fast.
TEST_F(Unpacked, InterleavedBytesFromAfar) {
  if (!runs_here("x86_avx512_bf16")) GTEST_SKIP() << "this processor has no VNNI";
  ArchSpec arch = find_arch("x86_avx512_bf16");
  arch.compute_units = 1;
  arch.l2.bytes = 2048;
  for (const char* tile : {"4x64", "2x128", "1x256"}) {
    const KernelConfig config = testing_cpu::config("cpu_direct inst=1x16x4 tile=" + std::string(tile));
    std::shared_ptr<CpuModule> module;
    for (const char* sizes : {"n=300 k=515", "n=64 k=515", "n=4200 k=35", "n=4200 k=35 ldb=5000"}) {
      const Problem p = Problem::parse("gemm dtype=i8 layout=rrr m=" + std::string(1, tile[0]) + " " + sizes);
      SCOPED_TRACE(to_string(p) + " | " + tile);
      if (!module)
        module =
            std::make_shared<CpuModule>(testing_cpu::backend(1).compile(render(lower(p), config, arch), ""));
      for (int64_t l3 : {4096, 1 << 24}) {
        for (double rate : {10, 28}) {
          arch.l3 = {l3, rate};
          testing_cpu::expect_right(
              *make_unpacked_kernel(module, arch, p, Choice{config, 0, ChoiceSource::explicit_config}));
        }
      }
    }
  }
}

// Panels of B packed ahead, for rows in place and staged.
TEST_F(Unpacked, PrepackedB) {
  struct {
    const char *arch, *config, *types;
  } const kernels[] = {{"x86_avx512", "cpu_direct tile=4x16 inst=1x16x1 preshuffle=1", "f32"},
                       {"x86_avx512", "cpu_direct tile=8x48 inst=1x16x1 preshuffle=1", "f32"},
                       {"x86_avx512", "cpu_direct tile=1x128 inst=1x16x1 preshuffle=1", "bf16"},
                       {"x86_avx512", "cpu_direct tile=4x32 inst=1x16x2 preshuffle=1", "i8"},
                       {"x86_avx512_bf16", "cpu_direct tile=12x32 inst=1x16x2 preshuffle=1", "bf16"},
                       {"x86_avx512_bf16", "cpu_direct tile=4x64 inst=1x16x4 preshuffle=1", "i8"},
                       {"x86_avx512_bf16", "cpu_direct tile=16x16 inst=1x16x4 preshuffle=1", "u8xi8"},
                       {"x86_avx2", "cpu_direct tile=4x24 inst=1x8x1 preshuffle=1", "f16"},
                       {"x86_avx2", "cpu_direct tile=12x8 inst=1x8x1 preshuffle=1", "f16"}};
  testing_cpu::LeftOut left_out;
  for (const auto& kernel : kernels) {
    if (left_out(kernel.arch)) continue;
    const std::string types = std::string(" prepack=b dtype=") + kernel.types;
    for (const char* shape : kShapes) {
      for (const char* layout : {" layout=rcr", " layout=crr"})
        expect_right(kernel.arch, kernel.config, "gemm " + std::string(shape) + types + layout);
    }
    expect_right(kernel.arch, kernel.config,
                 "gemm m=9 n=1160 k=1030 layout=rrr" + types);  // beyond L2 as f32
    // Rows that fill the room for their words nearly, turned eight or sixteen at a time.
    for (const char* k : {"128", "230", "300", "330", "500"}) {
      for (const char* m : {"9", "12"})
        expect_right(kernel.arch, kernel.config,
                     std::string("gemm n=70 m=") + m + " k=" + k + types + " layout=crr");
    }
    expect_right(kernel.arch, kernel.config, "gemm m=5 n=70 k=90 batch=2 alpha=0 beta=1 layout=rrr" + types);
    expect_right(kernel.arch, std::string(kernel.config) + " split_k=3",
                 "gemm m=5 n=70 k=700 layout=rcr beta=1" + types, 2);
  }
}

TEST_F(Unpacked, LeadingDimensionsAndBatches) {
  for (const char* config : kConfigs) {
    expect_right("x86_avx512", config, "gemm m=14 n=37 k=50 dtype=f32 layout=rcr lda=64 ldb=77 ldc=40");
    expect_right("x86_avx512", config, "gemm m=14 n=37 k=50 dtype=f32 layout=rcr batch=3 epilogue=add,bias");
    expect_right("x86_avx512", config, "gemm m=14 n=37 k=50 dtype=f32 layout=rcr batch=3 stride_b=0", 2);
  }
}

TEST_F(Unpacked, ThreadsAndPartsOfK) {
  for (const char* config : kConfigs) {
    for (int threads : {2, 3}) {
      expect_right("x86_avx512", config, "gemm m=70 n=90 k=700 dtype=f32 layout=rcr epilogue=bias", threads);
      expect_right("x86_avx512", std::string(config) + " split_k=4",
                   "gemm m=14 n=37 k=1000 dtype=f32 layout=rcr beta=2 epilogue=bias batch=2", threads);
    }
    expect_right("x86_avx512", std::string(config) + " split_k=4",
                 "gemm m=14 n=37 k=70 dtype=f32 layout=rcr");
  }
}

// The same parts are added in the same order, whoever computed them.
TEST_F(Unpacked, ThreadsDoNotChangeASplitResult) {
  std::vector<std::vector<char>> results;
  for (int threads : {1, 2, 4}) {
    results.push_back(testing_cpu::result(*testing_cpu::make_kernel(
        make_unpacked_kernel, "x86_avx512", "gemm m=9 n=21 k=3000 dtype=f32 layout=rcr",
        "cpu_dot tile=1x4 inst=1x16x1 split_k=4", threads)));
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

TEST_F(Unpacked, NoDepthAtAll) {
  for (const char* config : {kConfigs[0], kConfigs[1]}) {
    expect_right("x86_avx512", config, "gemm m=14 n=37 k=0 dtype=f32 layout=rcr beta=2 epilogue=bias");
  }
}

}  // namespace
}  // namespace tessera
