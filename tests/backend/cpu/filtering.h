// What tests of cpu_winograd and cpu_winograd_weight share: the architectures, and a kernel of one.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "backend/cpu/kernels.h"
#include "backend/cpu/winograd.h"

namespace tessera::testing_cpu {

struct FilteringArch {
  const char *name, *wide, *narrow;  // and tiles
};

class FilteringTest : public testing::TestWithParam<FilteringArch> {
 protected:
  void SetUp() override {
    if (!runs_here(GetParam().name)) GTEST_SKIP() << "not this processor";
  }

  static std::unique_ptr<Kernel> make(MakeCpuKernel maker, const std::string& family,
                                      const std::string& problem, const std::string& tile, int threads,
                                      int block, const std::string& rest = "") {
    const std::string inst = find_arch(GetParam().name).vector_bits == 512 ? "1x16x1" : "1x8x1";
    return make_kernel(
        maker, GetParam().name, problem,
        family + " block=" + std::to_string(block) + "x0x0 tile=" + tile + " inst=" + inst + rest, threads);
  }
};

inline const auto kFilteringArchs =
    testing::Values(FilteringArch{"x86_avx2", "6x16", "12x8"}, FilteringArch{"x86_avx512", "6x64", "12x32"});
inline std::string name_of(const testing::TestParamInfo<FilteringArch>& arch) { return arch.param.name; }

}  // namespace tessera::testing_cpu
