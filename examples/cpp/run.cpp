// Declare a GEMM in one line of text and run it.
#include <cstdio>
#include <vector>

#include "tessera/dispatcher.h"
#include "tessera/error.h"

int main() try {
  // C = A B with A 64 x 48 and B 48 x 80, both row-major.
  const auto problem = tessera::Problem::parse("gemm m=64 n=80 k=48 dtype=f32 layout=rrr");
  std::vector<float> a(64 * 48, 2.0f), b(48 * 80, 0.25f), c(64 * 80);

  tessera::Dispatcher dispatcher;
  dispatcher.run(problem,
                 {.a = a.data(), .b = b.data(), .c = c.data()});  // selects and compiles on first use

  std::printf("c[0] = %g, computed by %s\n", c[0],
              to_string(dispatcher.get(problem).choice().config).c_str());
  return c.front() == 24 && c.back() == 24 ? 0 : 1;
} catch (const tessera::Error& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
