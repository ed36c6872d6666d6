// cpu_packed over rows of A whose words are not the instruction's: signed bytes, and k that is no multiple of
// a word's elements. Inputs end at guard pages.
#include <gtest/gtest.h>

#include "backend/cpu/kernels.h"
#include "backend/cpu/packed.h"
#include "codegen/render.h"
#include "core/packed_shape.h"

namespace tessera {
namespace {

struct Case {
  const char *dtype, *inst;
};
constexpr Case kCases[] = {{"bf16", "1x16x2"}, {"u8xi8", "1x16x4"}, {"i8", "1x16x4"}};
constexpr const char* kArch = "x86_avx512_bf16";

KernelConfig config(const Case& c, const std::string& more) {
  return testing_cpu::config("cpu_packed tile=4x32 pack_a=1 inst=" + std::string(c.inst) + " " + more);
}

TEST(PackedWords, InPlaceWhereFewColumnsUseThem) {
  const ArchSpec arch = find_arch(kArch);
  for (const Case& c : kCases) {
    auto in_place = [&](const std::string& sizes) {
      return odd_words_in_place(lower(Problem::parse("gemm dtype=" + std::string(c.dtype) + " " + sizes)),
                                config(c, ""), arch);
    };
    for (const char* sizes : {"m=4 n=1 k=7", "m=63 n=65 k=67", "m=128 n=512 k=367"})
      EXPECT_TRUE(in_place(sizes)) << sizes;
    EXPECT_EQ(in_place("m=64 n=64 k=64"), std::string_view(c.dtype) == "i8");
    for (const char* sizes :
         {"m=3 n=64 k=67", "m=64 n=5000 k=67", "m=64 n=64 k=67 layout=crr", "m=64 n=64 k=67 lda=4096"})
      EXPECT_FALSE(in_place(sizes)) << sizes;
  }
}

// Units are made for one size and run for others.
TEST(PackedWords, UnitsDoNotDependOnSizes) {
  const ArchSpec arch = find_arch(kArch);
  for (const Case& c : kCases) {
    auto unit = [&](const char* sizes) {
      const Problem p = Problem::parse("gemm dtype=" + std::string(c.dtype) + " " + sizes);
      return render(lower(p), config(c, ""), arch).text;
    };
    const std::string whole = unit("m=64 n=64 k=64");
    for (const char* sizes :
         {"m=63 n=65 k=67", "m=3 n=64 k=67", "m=64 n=5000 k=67", "m=64 n=64 k=67 lda=4096"})
      EXPECT_EQ(unit(sizes), whole) << sizes;
  }
}

TEST(PackedWords, Right) {
  if (!testing_cpu::runs_here(kArch)) GTEST_SKIP() << "no " << kArch << " here";
  for (const Case& c : kCases) {
    for (const int k : {1, 2, 3, 4, 5, 66, 131, 301}) {
      for (const char* sizes :
           {"m=4 n=31", "m=7 n=32", "m=37 n=65 layout=rrr", "m=29 n=67 lda=320 epilogue=bias,relu",
            "m=9 n=70 batch=2 beta=1", "m=33 n=64 prepack=b"}) {
        const Problem p =
            Problem::parse("gemm " + std::string(sizes) + " k=" + std::to_string(k) + " dtype=" + c.dtype);
        for (const char* more : {"", "block=0x0x64", "block=8x32x64", "split_k=2"}) {
          KernelConfig with = config(c, more);
          with.preshuffle = p.prepack_b;
          SCOPED_TRACE(to_string(p) + " | " + more);
          for (const int threads : {1, 2})
            testing_cpu::expect_right(
                *testing_cpu::make_kernel(make_packed_kernel, kArch, to_string(p), to_string(with), threads));
        }
      }
    }
  }
}

}  // namespace
}  // namespace tessera
