// Time a few problems and verify each against three plain loops.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "clock.h"
#include "tessera/dispatcher.h"
#include "tessera/error.h"

namespace {

// Largest error relative to the bound k * eps * sum |a||b|, over all elements. Layout rcr.
double error_over_bound(const tessera::Problem& p, const std::vector<float>& a, const std::vector<float>& b,
                        const std::vector<float>& c) {
  double worst = 0;
  for (int64_t i = 0; i < p.m; ++i) {
    for (int64_t j = 0; j < p.n; ++j) {
      double sum = 0, size = 0;
      for (int64_t l = 0; l < p.k; ++l) {
        const double product = double(a[i * p.k + l]) * b[j * p.k + l];
        sum += product;
        size += std::fabs(product);
      }
      worst =
          std::max(worst, std::fabs(c[i * p.n + j] - sum) / (static_cast<double>(p.k) * 6e-8 * size + 1e-30));
    }
  }
  return worst;
}

}  // namespace

int main() try {
  tessera::Dispatcher dispatcher({.threads = 1});
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::printf("%-44s %10s %10s %8s\n", "problem", "us", "GFLOP/s", "err/bound");
  bool right = true;
  for (const char* text : {"gemm m=256 n=256 k=256 dtype=f32", "gemm m=1 n=1024 k=512 dtype=f32",
                           "gemm m=127 n=129 k=131 dtype=f32"}) {
    const auto p = tessera::Problem::parse(text);
    std::vector<float> a(p.m * p.k), b(p.n * p.k), c(p.m * p.n);
    for (float& x : a) x = uniform(random);
    for (float& x : b) x = uniform(random);
    const tessera::Kernel& kernel = dispatcher.get(p);
    const double us = example::best_us(kernel, {.a = a.data(), .b = b.data(), .c = c.data()}, 20);
    const double error = error_over_bound(p, a, b, c);
    right &= error <= 1;
    std::printf("%-44s %10.2f %10.1f %8.3f\n", text, us, 2e-3 * p.m * p.n * p.k / us, error);
  }
  return right ? 0 : 1;
} catch (const tessera::Error& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
