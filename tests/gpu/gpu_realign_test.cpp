// Operands whose rows start anywhere are copied before each run into memory that runs on a stream share.
#include <gtest/gtest.h>

#include "backend/backend.h"
#include "codegen/render.h"
#include "gpu/gpu_device.h"
#include "runtime/kernel_cache.h"
#include "space/space.h"
#include "tune/operands.h"
#include "tune/verify.h"

namespace tessera {
namespace {

struct Case {
  const char* name;
  const char* problem;
  int runs;
};

class GpuRealign : public testing::TestWithParam<Case> {};

// Runs that follow each other with nothing between them, on two sets of operands in turn: each may be brought
// to the device while the one before it still multiplies, and must not write over its copies.
TEST_P(GpuRealign, RunsInARowKeepTheirCopies) {
  const Backend* device = gpu_device();
  if (!device) GTEST_SKIP() << "SKIPPED, nothing was run: " << why_no_gpu();
  const auto [name, text, runs] = GetParam();
  const Problem problem = Problem::parse(text);
  const GemmView view = lower(problem);
  std::vector<KernelConfig> configs = legal_configs(view, device->arch());
  std::erase_if(configs, [](const KernelConfig& c) { return c.family_id() != Family::tma_ws; });
  ASSERT_FALSE(configs.empty());
  KernelCache cache({});
  for (const KernelConfig& config : {configs.front(), configs[configs.size() / 2]}) {
    const Source source = render(view, config, device->arch());
    const auto kernel = device->prepare(device->load(cache.get_or_build(source, *device).binary), problem,
                                        {.config = config});
    ASSERT_GT(kernel->workspace_bytes(), 0u) << "nothing is copied";
    Operands one(problem, FillKind::integers, 1), other(problem, FillKind::integers, 2);
    const Verifier right_one(one), right_other(other);
    const auto check = [&, &text = text](const char* how) {
      for (auto [operands, right] : {std::pair(&one, &right_one), {&other, &right_other}}) {
        operands->fetch(*kernel);
        EXPECT_EQ(right->check().failure, "")
            << how << ": " << text << " --config '" << to_string(config) << "'";
        operands->reset_c();
      }
    };
    const auto both = [&] { return std::array{one.bind(*kernel), other.bind(*kernel)}; };
    auto sets = both();
    for (int i = 0; i < runs; ++i) kernel->run(sets[static_cast<size_t>(i % 2)]);
    check("enqueued");
    sets = both();
    kernel->memory()
        ->record(runs,
                 [&](int i, void* stream) {
                   Buffers b = sets[static_cast<size_t>(i % 2)];
                   b.stream = stream;
                   kernel->run_unchecked(b);
                 })
        ->replay();
    check("recorded");
  }
}

// Few are what compute-sanitizer's racecheck gets through in a minute.
INSTANTIATE_TEST_SUITE_P(
    Problems, GpuRealign,
    testing::Values(Case{"Few", "gemm m=70 n=65 k=131 dtype=bf16", 4},
                    Case{"Bf16", "gemm m=200 n=333 k=511 dtype=bf16", 32},
                    Case{"F16AcrossK", "gemm m=64 n=1027 k=2049 dtype=f16 layout=rrr", 32},
                    Case{"Batched", "gemm m=777 n=1001 k=131 dtype=bf16 layout=crr batch=2", 32}),
    [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace tessera
