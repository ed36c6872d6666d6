// Bytes in, bytes out: u8 activations times i8 weights, sums in i32, bias and requantisation in the kernel.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "tessera/dispatcher.h"
#include "tessera/error.h"

int main() try {
  constexpr int kM = 18, kN = 33, kK = 40;
  const auto problem = tessera::Problem::parse(
      "gemm m=18 n=33 k=40 dtype=u8xi8 layout=rcr out=i8 epilogue=bias,quant:0.015625:3");
  std::vector<uint8_t> a(kM * kK);
  std::vector<int8_t> b(kN * kK), c(kM * kN);
  std::vector<float> bias(kN);
  for (int i = 0; i < kM * kK; ++i) a[i] = static_cast<uint8_t>(i * 37 % 256);
  for (int i = 0; i < kN * kK; ++i) b[i] = static_cast<int8_t>(i * 11 % 256 - 128);
  for (int j = 0; j < kN; ++j) bias[j] = static_cast<float>(100 * j - 1500);

  tessera::Dispatcher dispatcher;
  dispatcher.run(problem, {.a = a.data(), .b = b.data(), .c = c.data(), .d = {bias.data()}});

  for (int i = 0; i < kM; ++i) {
    for (int j = 0; j < kN; ++j) {
      int sum = 0;
      for (int l = 0; l < kK; ++l) sum += a[i * kK + l] * b[j * kK + l];
      const float scaled = std::nearbyint((static_cast<float>(sum) + bias[j]) * 0.015625f) + 3;
      const float want = std::clamp(scaled, -128.0f, 127.0f);
      if (c[i * kN + j] != want)
        return std::printf("wrong at %d,%d: %d, not %g\n", i, j, c[i * kN + j], want), 1;
    }
  }
  std::printf("%d bytes right, by %s\n", kM * kN, to_string(dispatcher.get(problem).choice().config).c_str());
  return 0;
} catch (const tessera::Error& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
