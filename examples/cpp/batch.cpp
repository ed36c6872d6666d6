// A strided batch on a part of larger matrices: leading dimensions, batch strides and one B shared by all
// batches.
#include <cstdio>
#include <vector>

#include "tessera/dispatcher.h"
#include "tessera/error.h"

int main() try {
  constexpr int kBatch = 6, kM = 17, kN = 33, kK = 20, kLda = 32, kLdc = 40;
  // A is the left 20 columns of a 32-column matrix, C the left 33 of 40; stride_b=0 gives every batch the
  // same B.
  const auto problem =
      tessera::Problem::parse("gemm m=17 n=33 k=20 dtype=f32 layout=rrr batch=6 lda=32 ldc=40 stride_b=0");

  std::vector<float> a(kBatch * kM * kLda), b(kK * kN, 1.0f), c(kBatch * kM * kLdc, -1.0f);
  for (int i = 0; i < kBatch * kM * kLda; ++i)
    a[i] = static_cast<float>(i / (kM * kLda) + 1);  // batch number + 1

  tessera::Dispatcher dispatcher({.threads = 2});
  dispatcher.run(problem, {.a = a.data(), .b = b.data(), .c = c.data()});

  for (int batch = 0; batch < kBatch; ++batch) {
    for (int row = 0; row < kM; ++row) {
      for (int col = 0; col < kLdc; ++col) {
        const float expected =
            col < kN ? static_cast<float>(kK * (batch + 1)) : -1.0f;  // the rest is not touched
        if (c[(batch * kM + row) * kLdc + col] != expected)
          return std::printf("wrong at %d,%d,%d\n", batch, row, col), 1;
      }
    }
  }
  std::printf("%d batches right, the columns beside them untouched\n", kBatch);
  return 0;
} catch (const tessera::Error& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
