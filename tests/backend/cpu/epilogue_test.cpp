// i32 results of integers, beyond what floats hold exactly.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include "kernels.h"
#include "space/space.h"

namespace tessera {
namespace {

using testing_cpu::make_kernel;

constexpr int kRows = 5, kCols = 37, kDepth = 2049;

int32_t saturated(double x) {
  return static_cast<int32_t>(std::clamp(std::nearbyint(x), -2147483648.0, 2147483647.0));
}

struct Case {
  std::string more;  // of the problem
  std::function<double(double sum, double d)>
      of;  // d: C's element and the first D's, that of the second is ~d
};

// All products are near 127 x 127, so that sums have 25 bits.
void expect_exact(const Case& c, const std::string& layout, const KernelConfig& config, int32_t d_value) {
  const Problem p = Problem::parse("gemm m=5 n=37 k=2049 dtype=i8 layout=" + layout + c.more);
  std::vector<int8_t> a(kRows * kDepth, 127), b(kDepth * kCols, 127);
  // Element (i, 0) of A and (0, j) of B, in either layout: others of A's row i and B's column j are alike.
  for (int i = 0; i < kRows; ++i)
    a[layout[0] == 'r' ? static_cast<size_t>(i) * kDepth : static_cast<size_t>(i)] =
        static_cast<int8_t>(100 + i);
  for (int j = 0; j < kCols; ++j)
    b[layout[1] == 'r' ? static_cast<size_t>(j) : static_cast<size_t>(j) * kDepth] =
        static_cast<int8_t>(j - 20);
  std::vector<int32_t> out(kRows * kCols, d_value),
      d[] = {out, std::vector<int32_t>(kRows * kCols, ~d_value)};
  Buffers buffers{.a = a.data(), .b = b.data(), .c = out.data()};
  for (size_t i = 0; i < static_cast<size_t>(p.epilogue.d_count()); ++i) buffers.d[i] = d[i].data();
  make_kernel(p, config)->run(buffers);
  for (int i = 0; i < kRows; ++i) {
    for (int j = 0; j < kCols; ++j) {
      const double sum = (kDepth - 1) * 127.0 * 127 + (100 + i) * (j - 20);
      ASSERT_EQ(out[static_cast<size_t>(i * kCols + j)], saturated(c.of(sum, d_value)))
          << to_string(config) << ' ' << to_string(p) << " at " << i << ", " << j;
    }
  }
}

// One configuration of each family and instruction.
std::vector<KernelConfig> some(const Problem& p) {
  const GemmView v = lower(p);
  std::vector<KernelConfig> out;
  std::set<std::string> seen;
  for (const KernelConfig& c : runnable_configs(v, testing_cpu::backend(1).arch())) {
    const std::string kind = std::string(to_string(c.family_id())) + std::to_string(c.inst_m) + ' ' +
                             std::to_string(c.inst_n) + (c.swap_ab ? " swapped" : "");
    if (seen.insert(kind).second) out.push_back(c);
  }
  return out;
}

TEST(Epilogue, IntegersAreExactAndSaturate) {
  const int32_t most = std::numeric_limits<int32_t>::max();
  const Case cases[] = {
      {"", [](double x, double) { return x; }},
      {" epilogue=relu", [](double x, double) { return std::max(x, 0.0); }},
      {" d=i32 epilogue=bias,relu",
       [](double x, double d) { return std::max(std::clamp(x + d, -2147483648.0, 2147483647.0), 0.0); }},
      {" d=i32 epilogue=add_col", [](double x, double d) { return x + d; }},
      {" d=i32 epilogue=bias,add", [](double x, double) { return x - 1; }},
      {" beta=1 d=i32 epilogue=bias,add,relu",
       [](double x, double d) { return std::max(std::clamp(x + d - 1, -2147483648.0, 2147483647.0), 0.0); }},
      {" d=i32 epilogue=add,clamp:-7:33048323",
       [](double x, double d) { return std::clamp(x + d, -7.0, 33048324.0); }},
      {" epilogue=leaky_relu:0.5,scale:0.5", [](double x, double) { return x / 2; }},
      {" epilogue=scale:1e10", [](double x, double) { return x * 1e10; }},
      {" beta=1", [](double x, double c) { return x + c; }},
      {" alpha=3 beta=-2", [](double x, double c) { return 3 * x - 2 * c; }},
  };
  for (const char* layout : {"rcr", "rrr"}) {
    for (const Case& c : cases) {
      const Problem p =
          Problem::parse("gemm m=5 n=37 k=2049 dtype=i8 layout=" + std::string(layout) + c.more);
      const auto configs = some(p);
      ASSERT_FALSE(configs.empty());
      for (const KernelConfig& config : configs) {
        for (int32_t d : {1, -3, most, -most - 1}) expect_exact(c, layout, config, d);
      }
    }
  }
}

// Of which a sixth is taken before it is multiplied by six.
TEST(Epilogue, HardswishOfLargeValuesIsFinite) {
  const Problem p = Problem::parse("gemm m=16 n=1 k=1 dtype=f32 epilogue=hardswish");
  std::vector<float> a(16, 1e38f), b(1, 1), c(16, 0);
  for (const KernelConfig& config : some(p)) {
    make_kernel(p, config)->run({.a = a.data(), .b = b.data(), .c = c.data()});
    for (float x : c) EXPECT_EQ(x, 1e38f) << to_string(config);
  }
}

// Results that the reference must not take for right.
TEST(Epilogue, TheReferenceIsExactToo) {
  const Problem p = Problem::parse("gemm m=1 n=3 k=2049 dtype=i8 epilogue=relu");
  Operands operands(p, FillKind::integers);
  Verifier verifier(operands);
  const auto config = some(p).front();
  const auto kernel = make_kernel(p, config);
  kernel->run(operands.bind(*kernel));
  const Verification v = verifier.check();
  EXPECT_TRUE(v.ok) << v.failure;
  EXPECT_EQ(v.bound, 0);
}

}  // namespace
}  // namespace tessera
