// Convolutions with their channels first, of more images than one step takes. The case lists have the others.
#include "backend/cpu/channels_first.h"

#include "backend/cpu/kernels.h"
#include "base/text.h"
#include "space/rules.h"

namespace tessera {
namespace {

using namespace testing_cpu;

constexpr const char* kSizes = "n=17 c=24 k=8 in=96x96 filter=3x3 pad=1x1 dtype=%s layout=channels_first";
constexpr const char* kConfig = "cpu_packed tile=6x16 inst=1x16x1 pack_a=1";

class ManyImages : public testing::TestWithParam<const char*> {};

TEST_P(ManyImages, InStepsOfBoundedWorkspace) {
  if (!runs_here("x86_avx512")) GTEST_SKIP() << "needs AVX-512";
  const std::string text = std::string(GetParam()) + " " + format(kSizes, "f32");
  for (const char* factors : {"", " alpha=0.5 beta=2"}) {
    SCOPED_TRACE(text + factors);
    const auto kernel = make_kernel(text + factors, kConfig, 2);
    // All images at once would take 20 MB.
    Problem last = kernel->problem();
    last.layout = Layout::channels_last;
    EXPECT_LE(kernel->workspace_bytes(),
              make_kernel(last, config(kConfig), 2)->workspace_bytes() + (size_t{17} << 20));
    Operands operands(kernel->problem(), FillKind::integers);
    GuardedBuffer workspace(kernel->workspace_bytes());
    Buffers buffers = operands.bind(*kernel);
    buffers.workspace = workspace.data();
    kernel->run(buffers);
    const Verification v = Verifier(operands).check();
    EXPECT_TRUE(v.ok) << v.failure;
    EXPECT_EQ(workspace.damage(), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Directions, ManyImages,
                         testing::Values("conv_fwd", "conv_bwd_data", "conv_bwd_weight"));

// Sums of a step that were rounded to bf16 before the next one would be off by far more.
TEST(ChannelsFirst, GradientOfFilterSumsInF32) {
  if (!runs_here("x86_avx512")) GTEST_SKIP() << "needs AVX-512";
  const auto kernel = make_kernel(
      "conv_bwd_weight n=40 c=24 k=8 in=128x128 filter=3x3 pad=1x1 dtype=bf16 layout=channels_first", kConfig,
      2);
  Operands operands(kernel->problem(), FillKind::uniform);
  kernel->run(operands.bind(*kernel));
  const Verification v = Verifier(operands).check();
  EXPECT_TRUE(v.ok) << v.failure;
}

TEST(ChannelsFirst, AlphaZeroHidesTheOperands) {
  if (!runs_here("x86_avx512")) GTEST_SKIP() << "needs AVX-512";
  const auto kernel = make_kernel(
      "conv_bwd_weight n=1 c=2 k=3 in=4x4 filter=3x3 dtype=f32 layout=channels_first beta=1", kConfig);
  const std::vector<float> nan(64, std::numeric_limits<float>::quiet_NaN());
  std::vector<float> c(3 * 2 * 9, 5);
  Buffers buffers{.a = nan.data(), .b = nan.data(), .c = c.data()};
  buffers.alpha = 0;
  kernel->run(buffers);
  EXPECT_EQ(c, std::vector<float>(c.size(), 5));
}

TEST(ChannelsFirst, RefusedWhereNothingTransforms) {
  const GemmView view =
      lower(Problem::parse("conv_fwd c=64 k=64 in=64x64 filter=1x1 dtype=bf16 layout=channels_first"));
  const Rule* rule =
      rejected_by(view, config("simt block=64x64x16 tile=4x4 stages=2 inst=1x1x1"), find_arch("sm_90a"));
  ASSERT_TRUE(rule);
}

}  // namespace
}  // namespace tessera
