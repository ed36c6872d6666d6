// A multi-D epilogue, fused into the kernel: C = relu((A B + bias) * gate + residual).
#include <algorithm>
#include <cstdio>
#include <vector>

#include "tessera/dispatcher.h"
#include "tessera/error.h"

int main() try {
  constexpr int kM = 30, kN = 50, kK = 16;
  // D tensors are passed in the order of the steps that take one: bias[n], gate[m,n], residual[m,n].
  const auto problem =
      tessera::Problem::parse("gemm m=30 n=50 k=16 dtype=f32 layout=rrr epilogue=bias,mul,add,relu");
  std::vector<float> a(kM * kK, 0.5f), b(kK * kN, 1.0f), c(kM * kN);
  std::vector<float> bias(kN), gate(kM * kN), residual(kM * kN);
  for (int j = 0; j < kN; ++j) bias[j] = static_cast<float>(j % 3);
  for (int i = 0; i < kM * kN; ++i) gate[i] = i % 2 ? -1.0f : 2.0f;
  for (int i = 0; i < kM * kN; ++i) residual[i] = static_cast<float>(i % 7);

  tessera::Dispatcher dispatcher;
  dispatcher.run(
      problem,
      {.a = a.data(), .b = b.data(), .c = c.data(), .d = {bias.data(), gate.data(), residual.data()}});

  for (int i = 0; i < kM * kN; ++i) {
    const float expected = std::max(0.0f, (8 + bias[i % kN]) * gate[i] + residual[i]);
    if (c[i] != expected) return std::printf("c[%d] = %g, expected %g\n", i, c[i], expected), 1;
  }
  std::printf("%d elements right\n", kM * kN);
  return 0;
} catch (const tessera::Error& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
