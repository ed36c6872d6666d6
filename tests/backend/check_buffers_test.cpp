#include "backend/check_buffers.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "backend/cpu/kernels.h"
#include "space/space.h"

namespace tessera {
namespace {

std::string refusal(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::bad_input) << e.what();
    return e.what_happened();
  }
  return "accepted";
}

// The first legal configuration of a problem.
std::unique_ptr<Kernel> kernel_of(const std::string& problem) {
  const Problem p = Problem::parse(problem);
  return testing_cpu::make_kernel(p, runnable_configs(lower(p), testing_cpu::backend(1).arch()).at(0));
}

TEST(CheckBuffers, FactorsAreNumbersOfF32) {
  const auto kernel = kernel_of("gemm m=5 n=16 k=8 dtype=f32 layout=rrr");
  Operands operands(kernel->problem(), FillKind::integers);
  Buffers buffers = operands.bind(*kernel);
  for (double bad : {1e39, -1e300, std::numeric_limits<double>::quiet_NaN()}) {
    buffers.alpha = bad;
    buffers.beta = 0;
    EXPECT_EQ(refusal([&] { kernel->run(buffers); }).find("alpha of the buffers"), 0u);
    buffers.alpha = 1;
    buffers.beta = bad;
    EXPECT_EQ(refusal([&] { kernel->run(buffers); }).find("beta of the buffers"), 0u);
  }
  buffers.beta = 0;
  EXPECT_EQ(refusal([&] { kernel->run(buffers); }), "accepted");
}

TEST(CheckBuffers, PackingTakesWhatARunWould) {
  for (const char* problem :
       {"gemm m=5 n=16 k=8 dtype=f32 layout=rrr prepack=b",
        "gemm m=5 n=16 k=8 batch=3 dtype=bf16 layout=rcr prepack=b",
        "conv_fwd n=1 c=4 k=16 in=5x5 filter=3x3 pad=1x1 dtype=f32 prepack=b",
        "conv_fwd n=1 c=4 k=16 in=5x5 filter=3x3 dtype=f32 layout=channels_first prepack=b"}) {
    SCOPED_TRACE(problem);
    const auto kernel = kernel_of(problem);
    const size_t bytes = kernel->packed_b_bytes();
    const GemmView view = lower(kernel->problem());
    std::vector<char> space(bytes + 8 + static_cast<size_t>(view.b.extent * bytes_of(view.b.type)));
    char *packed = space.data(), *b = space.data() + bytes + 8;
    b -= reinterpret_cast<uintptr_t>(b) % 8;
    EXPECT_EQ(refusal([&] { kernel->pack_b(nullptr, packed); }), "buffer b is null");
    EXPECT_EQ(refusal([&] { kernel->pack_b(b, nullptr); }), "buffer packed is null");
    EXPECT_EQ(refusal([&] { kernel->pack_b(b + 1, packed); }).find("buffer b is not aligned"), 0u);
    EXPECT_EQ(refusal([&] { kernel->pack_b(b, packed + 2); }).find("buffer packed is not aligned"), 0u);
    EXPECT_EQ(refusal([&] { kernel->pack_b(b, b); }), "buffer packed overlaps buffer b");
    EXPECT_EQ(refusal([&] { kernel->pack_b(packed + bytes - 8, packed); }),
              "buffer packed overlaps buffer b");
    EXPECT_EQ(refusal([&] { kernel->pack_b(b, packed); }), "accepted");
  }
}

TEST(CheckBuffers, PackingReachesAsFarAsItsLeadingDimension) {
  const auto kernel = kernel_of("gemm m=5 n=16 k=8 dtype=f32 layout=rrr prepack=b");
  std::vector<float> space(8 * 100 + kernel->packed_b_bytes() / sizeof(float));
  float* const b = space.data();
  EXPECT_EQ(refusal([&] { kernel->pack_b(b, b + 16 * 8); }), "accepted");
  EXPECT_EQ(refusal([&] { kernel->pack_b(b, b + 16 * 8, 100); }), "buffer packed overlaps buffer b");
  EXPECT_EQ(refusal([&] { kernel->pack_b(b, b + 8 * 100, 100); }), "accepted");
  EXPECT_NE(
      refusal([&] { kernel->pack_b(b, b + 800, std::numeric_limits<int64_t>::max()); }).find("too large"),
      std::string::npos);
}

}  // namespace
}  // namespace tessera
