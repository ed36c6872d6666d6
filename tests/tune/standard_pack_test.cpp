// The pack that the build made for this processor serves the CPU suites.
#include <gtest/gtest.h>

#include "backend/backend.h"
#include "codegen/render.h"
#include "core/gemm_view.h"
#include "runtime/pack.h"
#include "tessera/dispatcher.h"
#include "tune/suite.h"

namespace tessera {
namespace {

struct Case {
  const char* suite;
  const char* dtype;
};

class StandardPack : public testing::TestWithParam<Case> {};

TEST_P(StandardPack, HoldsNineTenthsOfWhatIsChosen) {
  for (int threads : {1, 2}) {
    const auto backend = make_backend("cpu", threads);
    const auto paths = standard_pack_paths(backend->arch().name);
    if (paths.empty()) GTEST_SKIP() << "this build makes no standard pack";
    const auto pack = Pack::open(paths.back());
    Dispatcher dispatcher({.device = "cpu", .threads = threads});
    int held = 0, all = 0;
    for (const SuiteRow& row : read_suite(GetParam().suite, {.dtype = GetParam().dtype})) {
      const Choice choice = dispatcher.select(row.problem);
      held += pack->contains(unit_key(render(lower(row.problem), choice.config, backend->arch())));
      ++all;
    }
    EXPECT_GE(held, all * 9 / 10) << threads << " threads, " << all << " problems";
  }
}

INSTANTIATE_TEST_SUITE_P(Suites, StandardPack,
                         testing::Values(Case{"cpu_gemm", "f32"}, Case{"cpu_gemm", "bf16"},
                                         Case{"cpu_gemm", "i8"}, Case{"cpu_conv_fwd", "f32"},
                                         Case{"cpu_conv_fwd", "bf16"}, Case{"cpu_conv_bwd_data", "f32"},
                                         Case{"cpu_conv_bwd_data", "bf16"},
                                         Case{"cpu_conv_bwd_weight", "f32"},
                                         Case{"cpu_conv_bwd_weight", "bf16"}),
                         [](const auto& of) { return std::string(of.param.suite) + "_" + of.param.dtype; });

}  // namespace
}  // namespace tessera
