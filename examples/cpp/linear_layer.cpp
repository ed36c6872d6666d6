// A linear layer, forward and backward, as three GEMMs whose layouts read the same tensors: nothing is
// transposed.
#include <cstdio>
#include <vector>

#include "tessera/dispatcher.h"
#include "tessera/error.h"

int main() try {
  constexpr int kTokens = 20, kIn = 24, kOut = 36;
  std::vector<float> x(kTokens * kIn), w(kOut * kIn), dy(kTokens * kOut), y(kTokens * kOut),
      dx(kTokens * kIn), dw(kOut * kIn);
  for (int i = 0; i < kTokens * kIn; ++i) x[i] = static_cast<float>(i % 5 - 2);
  for (int i = 0; i < kOut * kIn; ++i) w[i] = static_cast<float>(i % 7 - 3);
  for (int i = 0; i < kTokens * kOut; ++i) dy[i] = static_cast<float>(i % 3 - 1);

  tessera::Dispatcher dispatcher;
  const auto gemm = [&](const char* text, const std::vector<float>& a, const std::vector<float>& b,
                        std::vector<float>& c) {
    dispatcher.run(tessera::Problem::parse(text), {.a = a.data(), .b = b.data(), .c = c.data()});
  };
  gemm("gemm m=20 n=36 k=24 dtype=f32 layout=rcr", x, w, y);           // y = x w^T
  gemm("gemm m=20 n=24 k=36 dtype=f32 layout=rrr", dy, w, dx);         // dx = dy w
  gemm("gemm m=36 n=24 k=20 dtype=f32 layout=crr", dy, x, dw);         // dw = dy^T x
  gemm("gemm m=36 n=24 k=20 dtype=f32 layout=crr beta=1", dy, x, dw);  // a second batch, accumulated

  for (int t = 0; t < kTokens; ++t) {
    for (int o = 0; o < kOut; ++o) {
      float want = 0;
      for (int i = 0; i < kIn; ++i) want += x[t * kIn + i] * w[o * kIn + i];
      if (y[t * kOut + o] != want) return std::printf("y is wrong at %d,%d\n", t, o), 1;
    }
    for (int i = 0; i < kIn; ++i) {
      float want = 0;
      for (int o = 0; o < kOut; ++o) want += dy[t * kOut + o] * w[o * kIn + i];
      if (dx[t * kIn + i] != want) return std::printf("dx is wrong at %d,%d\n", t, i), 1;
    }
  }
  for (int o = 0; o < kOut; ++o) {
    for (int i = 0; i < kIn; ++i) {
      float want = 0;
      for (int t = 0; t < kTokens; ++t) want += 2 * dy[t * kOut + o] * x[t * kIn + i];
      if (dw[o * kIn + i] != want) return std::printf("dw is wrong at %d,%d\n", o, i), 1;
    }
  }
  std::puts("y, dx and dw are right");
  return 0;
} catch (const tessera::Error& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
