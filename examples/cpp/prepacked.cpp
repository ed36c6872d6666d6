// Weights that are used often are packed once, into the order that the chosen kernel reads.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "tessera/dispatcher.h"
#include "tessera/error.h"

namespace {

constexpr int64_t kMostTokens = 40, kOut = 96, kIn = 64;

// y = x wT of so many tokens, by `kernel` and by hand. Whether both say the same.
bool layer(const tessera::Kernel& kernel, int64_t tokens, const std::vector<float>& w, const void* packed) {
  std::vector<float> x(kMostTokens * kIn), y(kMostTokens * kOut);
  for (int64_t i = 0; i < tokens * kIn; ++i) x[i] = static_cast<float>((i + tokens) % 3);
  kernel.run({.a = x.data(), .b = packed, .c = y.data()});
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t o = 0; o < kOut; ++o) {
      float expected = 0;
      for (int64_t i = 0; i < kIn; ++i) expected += x[t * kIn + i] * w[o * kIn + i];
      if (y[t * kOut + o] != expected)
        return std::printf("%ld tokens: wrong at %ld,%ld\n", tokens, t, o), false;
    }
  }
  return true;
}

}  // namespace

int main() try {
  // A linear layer: x[tokens, in], w[out, in], so B is column-major. prepack=b says that B comes packed.
  auto problem = tessera::Problem::parse("gemm m=12 n=96 k=64 dtype=f32 layout=rcr prepack=b");
  std::vector<float> w(kOut * kIn);
  for (int64_t i = 0; i < kOut * kIn; ++i) w[i] = static_cast<float>(i % 5 - 2);

  tessera::Dispatcher dispatcher;
  const tessera::Kernel& kernel = dispatcher.get(problem);
  const size_t bytes = (kernel.packed_b_bytes() + 63) / 64 * 64;
  std::unique_ptr<void, void (*)(void*)> packed(std::aligned_alloc(64, bytes), std::free);
  kernel.pack_b(w.data(), packed.get());  // once
  for (int call = 0; call < 3; ++call) {  // many times
    if (!layer(kernel, problem.m, w, packed.get())) return 1;
  }

  // Other numbers of tokens read the same weights through kernels of the same configuration.
  tessera::Dispatcher same(
      {.policy = tessera::Policy::explicit_config, .config = to_string(kernel.choice().config)});
  for (problem.m = 1; problem.m <= kMostTokens; problem.m += 13) {
    if (!layer(same.get(problem), problem.m, w, packed.get())) return 1;
  }
  std::printf("3 calls on weights packed once into %zu bytes, and 4 with other numbers of tokens\n", bytes);
  return 0;
} catch (const tessera::Error& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
