// The gradient of the bias: long sums, threads, and what is refused. The case lists have the others.
#include "backend/cpu/bias_gradient.h"

#include "backend/cpu/kernels.h"

namespace tessera {
namespace {

using namespace testing_cpu;

constexpr const char* kConfig = "cpu_packed tile=6x16 inst=1x16x1 pack_a=1";

class BiasGradient : public testing::Test {
 protected:
  void SetUp() override {
    if (!runs_here("x86_avx512")) GTEST_SKIP() << "needs AVX-512";
  }
};

TEST_F(BiasGradient, AMillionTermsInOneSum) {
  for (const char* layout : {"channels_last", "channels_first"}) {
    const auto kernel = make_kernel(
        std::string("conv_bwd_weight c=1 k=3 in=1000x1000 filter=1x1 dtype=f32 bias_grad=f32 layout=") +
            layout,
        kConfig, 2);
    const size_t count = size_t{3} * 1000 * 1000;
    // 1 + 2^-20: a sum in f32 loses the small part from the first terms on.
    const std::vector<float> dy(count, 1.0f + 0x1p-20f), x(count / 3, 0.0f);
    std::vector<float> dw(3), db(3);
    kernel->run({.a = dy.data(), .b = x.data(), .c = dw.data(), .bias_grad = db.data()});
    for (float sum : db) EXPECT_NEAR(sum, 1e6 * (1.0 + 0x1p-20), 0.1) << layout;
  }
}

TEST_F(BiasGradient, RefusesBuffersBeforeAnythingIsWritten) {
  const auto kernel =
      make_kernel("conv_bwd_weight c=2 k=3 in=4x4 filter=1x1 dtype=f32 bias_grad=f32", kConfig);
  std::vector<float> dy(48, 1.0f), x(32, 1.0f), dw(6, 7.0f), db(3);
  for (float* wrong : {static_cast<float*>(nullptr), dy.data() + 45, x.data(), dw.data() + 5,
                       reinterpret_cast<float*>(reinterpret_cast<char*>(db.data()) + 1)}) {
    EXPECT_THROW(kernel->run({.a = dy.data(), .b = x.data(), .c = dw.data(), .bias_grad = wrong}), Error);
  }
  EXPECT_EQ(dw, std::vector<float>(6, 7.0f));
}

TEST_F(BiasGradient, AlphaZeroHidesTheOperands) {
  const auto kernel =
      make_kernel("conv_bwd_weight c=2 k=3 in=4x4 filter=1x1 dtype=f32 bias_grad=f32", kConfig);
  const std::vector<float> nan(48, std::numeric_limits<float>::quiet_NaN());
  std::vector<float> dw(6), db(3, 4);
  kernel->run(
      {.a = nan.data(), .b = nan.data(), .c = dw.data(), .alpha = 0, .beta = 1, .bias_grad = db.data()});
  EXPECT_EQ(db, std::vector<float>(3, 4));
}

}  // namespace
}  // namespace tessera
