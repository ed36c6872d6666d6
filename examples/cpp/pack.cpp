// Run from a pack, with no compiler. Make the pack where there is one:
//   tessera pack create "gemm m=48 n=160 k=32 dtype=f32 layout=rrr" --out mine.pack
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "tessera/dispatcher.h"
#include "tessera/error.h"

int main(int argc, char** argv) try {
  if (argc != 2) return std::fprintf(stderr, "usage: example_pack PACK\n"), 2;
  setenv("TESSERA_CXX", "/nonexistent", 1);  // as on a machine without a compiler

  const auto problem = tessera::Problem::parse("gemm m=48 n=160 k=32 dtype=f32 layout=rrr");
  std::vector<float> a(48 * 32, 3.0f), b(32 * 160, 0.5f), c(48 * 160);

  tessera::Dispatcher dispatcher({.cache_dir = std::string(argv[1]) + ".cache", .packs = {argv[1]}});
  tessera::BuildInfo info;
  dispatcher.get(problem, &info).run({.a = a.data(), .b = b.data(), .c = c.data()});
  std::printf("c[0] = %g, the kernel came from: %s\n", c[0], std::string(to_string(info.from)).c_str());
  return c.front() == 48 && c.back() == 48 && info.from == tessera::BuildInfo::From::pack ? 0 : 1;
} catch (const tessera::Error& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
