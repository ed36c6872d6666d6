// Weights that are used often are packed once, into the order that the chosen kernel reads.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "tessera/dispatcher.h"
#include "tessera/error.h"

int main() try {
  constexpr int64_t kTokens = 12, kOut = 96, kIn = 64;
  // A linear layer: x[tokens, in], w[out, in], so B is column-major. prepack=b says that B comes packed.
  const auto problem = tessera::Problem::parse("gemm m=12 n=96 k=64 dtype=f32 layout=rcr prepack=b");
  std::vector<float> x(kTokens * kIn), w(kOut * kIn), y(kTokens * kOut);
  for (int64_t i = 0; i < kOut * kIn; ++i) w[i] = static_cast<float>(i % 5 - 2);

  tessera::Dispatcher dispatcher;
  const tessera::Kernel& kernel = dispatcher.get(problem);
  const size_t bytes = (kernel.packed_b_bytes() + 63) / 64 * 64;
  std::unique_ptr<void, void (*)(void*)> packed(std::aligned_alloc(64, bytes), std::free);
  kernel.pack_b(w.data(), packed.get());  // once

  for (int call = 0; call < 3; ++call) {  // many times
    for (int64_t i = 0; i < kTokens * kIn; ++i) x[i] = static_cast<float>((i + call) % 3);
    kernel.run({.a = x.data(), .b = packed.get(), .c = y.data()});
    for (int64_t t = 0; t < kTokens; ++t) {
      for (int64_t o = 0; o < kOut; ++o) {
        float expected = 0;
        for (int64_t i = 0; i < kIn; ++i) expected += x[t * kIn + i] * w[o * kIn + i];
        if (y[t * kOut + o] != expected) return std::printf("call %d: wrong at %ld,%ld\n", call, t, o), 1;
      }
    }
  }
  std::printf("three calls on weights packed once into %zu bytes\n", bytes);
  return 0;
} catch (const tessera::Error& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
