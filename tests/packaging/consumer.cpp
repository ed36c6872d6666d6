// What a user of the installed package writes: one GEMM, checked.
#include <cstdio>
#include <vector>

#include "tessera/dispatcher.h"
#include "tessera/error.h"

int main() {
  try {
    const auto problem = tessera::Problem::parse("gemm m=5 n=7 k=3 dtype=f32 layout=rrr");
    std::vector<float> a(5 * 3, 2.0f), b(3 * 7, 0.5f), c(5 * 7, -1.0f);
    tessera::Dispatcher dispatcher({.threads = 1});
    dispatcher.run(problem, {.a = a.data(), .b = b.data(), .c = c.data()});
    for (float x : c) {
      if (x != 3.0f) return std::printf("wrong: %g\n", x), 1;
    }
    std::printf("consumer ok\n");
    return 0;
  } catch (const tessera::Error& e) {
    std::printf("%s\n", e.what());
    return 1;
  }
}
