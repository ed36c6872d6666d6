// Columns of cpu_packed past whole vectors, as dot products along k: against the reference, inputs and
// outputs against guard pages.
#include <gtest/gtest.h>

#include "backend/cpu/kernels.h"
#include "backend/cpu/packed.h"

namespace tessera {
namespace {

using testing_cpu::runs_here;

void expect_right(std::string_view arch, const std::string& config, const std::string& problem,
                  int threads = 1, FillKind kind = FillKind::integers) {
  SCOPED_TRACE(problem + " | " + config + " | " + std::string(arch));
  testing_cpu::expect_right(
      *testing_cpu::make_kernel(make_packed_kernel, arch, problem, "cpu_packed " + config, threads), kind);
}

TEST(EdgeColumns, OfFloats) {
  testing_cpu::LeftOut left_out;
  for (const char* arch : {"x86_avx2", "x86_avx512"}) {
    if (left_out(arch)) continue;
    const int lanes = std::string_view(arch) == "x86_avx2" ? 8 : 16;
    const std::string config =
        "tile=4x" + std::to_string(2 * lanes) + " inst=1x" + std::to_string(lanes) + "x1 edge_dot=1 ";
    for (int edge : {1, 2, 3, 4}) {
      for (const char* layout : {"rcr", "rrr"}) {
        for (const char* sizes : {"m=1 k=16", "m=6 k=17", "m=53 k=131", "m=100 k=33"}) {
          for (const char* more : {"pack_a=1", "pack_a=1 block=8x32x16", "pack_a=1 block=0x0x16"}) {
            for (int vectors : {1, 2, 5}) {
              expect_right(arch, config + more,
                           "gemm " + std::string(sizes) + " n=" + std::to_string(vectors * lanes + edge) +
                               " dtype=f32 layout=" + layout);
              if (edge % 2) continue;
              expect_right(arch, config + more + " preshuffle=1",
                           "gemm " + std::string(sizes) + " n=" + std::to_string(vectors * lanes + edge) +
                               " dtype=f32 prepack=b layout=" + layout);
            }
          }
        }
      }
    }
    const std::string wide = "gemm m=61 n=" + std::to_string(4 * lanes + 3) + " k=70 dtype=f32 layout=";
    expect_right(arch, config, wide + "rcr", 3);
    expect_right(arch, config + "pack_b=0", wide + "rrr batch=2 lda=80 ldb=200 ldc=150 beta=1", 2);
    expect_right(arch, config + "pack_a=1", wide + "rrr batch=3 epilogue=bias,relu", 2, FillKind::uniform);
    expect_right(arch, config + "preshuffle=1", wide + "rcr prepack=b batch=2 beta=1", 3);
    expect_right(arch, config + "preshuffle=1 pack_a=1", wide + "rrr prepack=b batch=3 epilogue=bias,relu",
                 2);
  }
}

// The driver's own choice where a word holds several elements of k: columns of 16, and 1 to 4 past them.
TEST(EdgeColumns, OfWords) {
  const char* arch = "x86_avx512_bf16";
  if (!runs_here(arch)) GTEST_SKIP() << "no " << arch << " here";
  for (const char* type : {"bf16", "u8xi8", "i8"}) {
    const int group = type[0] == 'b' ? 2 : 4;
    const std::string config = "tile=4x32 inst=1x16x" + std::to_string(group) + " pack_a=1";
    for (int edge : {0, 1, 2, 3, 4, 5}) {
      for (const char* layout : {"rcr", "rrr", "crr"}) {
        for (const int k : {12 * group, 24 * group, 96 * group, 96 * group - 1, 130 * group + 1}) {
          for (const char* more : {"", " block=0x0x64"}) {
            for (const int m : {1, 6, 53}) {
              const std::string sizes = "gemm m=" + std::to_string(m) + " n=" + std::to_string(48 + edge) +
                                        " k=" + std::to_string(k) + " dtype=";
              expect_right(arch, config + more, sizes + type + " layout=" + layout);
              if (m == 6) continue;
              expect_right(arch, config + more + " preshuffle=1",
                           sizes + type + " prepack=b layout=" + layout);
            }
          }
        }
      }
    }
    const std::string wide = std::string("gemm m=61 n=67 k=470 dtype=") + type + " layout=";
    expect_right(arch, config, wide + "rcr", 3);
    expect_right(arch, config, wide + "rrr batch=2 lda=480 ldb=200 ldc=150 beta=1", 2);
    expect_right(arch, config, wide + "rrr batch=3 epilogue=bias,relu", 2);
    expect_right(arch, config + " preshuffle=1", wide + "rcr prepack=b batch=2 epilogue=bias,relu", 2);
  }
}

// What B is packed to is the same whatever the kernel that packs it does else.
TEST(EdgeColumns, PackedBServesOtherEpiloguesAndRows) {
  const char* arch = "x86_avx512_bf16";
  if (!runs_here(arch)) GTEST_SKIP() << "no " << arch << " here";
  const auto packed = [&](const std::string& problem) {
    const auto kernel = testing_cpu::make_kernel(make_packed_kernel, arch, problem,
                                                 "cpu_packed tile=4x32 inst=1x16x4 pack_a=1 preshuffle=1");
    std::vector<int8_t> b(600 * 67);
    for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<int8_t>(i * 7);
    std::vector<char> out(kernel->packed_b_bytes());
    kernel->pack_b(b.data(), out.data());
    return out;
  };
  for (const char* layout : {"rcr", "crr"}) {
    for (const char* k : {"150", "600"}) {  // of which an epilogue decides, and the layout
      const std::string rest = std::string(" n=67 dtype=i8 prepack=b k=") + k + " layout=" + layout;
      const auto one = packed("gemm m=1 out=i32" + rest);
      EXPECT_EQ(one, packed("gemm m=9 out=i32" + rest));
      EXPECT_EQ(one, packed("gemm m=9 epilogue=relu out=i32" + rest));
    }
  }
}

}  // namespace
}  // namespace tessera
