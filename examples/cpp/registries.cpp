// Several registries, merged and filtered, and dispatchers that hold to them.
#include <cstdio>
#include <vector>

#include "tessera/dispatcher.h"
#include "tessera/error.h"
#include "tessera/registry.h"

int main() try {
  const auto problem = tessera::Problem::parse("gemm m=48 n=64 k=32 dtype=f32 layout=rcr");
  const auto tiles = tessera::Registry::parse(
      "any cpu_packed tile=*x16 dtype=f32\n"
      "any cpu_packed tile=*x32 dtype=f32 priority=3\n",
      "tiles");
  const auto flat = tessera::Registry::parse("any cpu_packed tile=1x64 layout=rcr priority=9\n", "flat");
  auto all = std::make_shared<tessera::Registry>(*tiles);
  const size_t added = all->merge(*flat);
  auto narrow = std::make_shared<tessera::Registry>(*all);
  const size_t dropped = narrow->filter([](const tessera::KernelDecl& d) { return d.priority == 0; });
  std::printf("%zu came in by the merge, %zu went by the filter\n", added, dropped);
  if (added != 1 || dropped != 2) return 1;

  for (const auto& [registry, tile_n] : {std::pair{tiles, 32}, {all, 64}, {narrow, 16}}) {
    tessera::Dispatcher dispatcher({.registry = registry});
    std::vector<float> a(48 * 32, 1.0f), b(64 * 32, 0.5f), c(48 * 64);
    dispatcher.run(problem, {.a = a.data(), .b = b.data(), .c = c.data()});
    const tessera::KernelConfig& config = dispatcher.get(problem).choice().config;
    std::printf("%s\n", to_string(config).c_str());
    if (c.front() != 16 || c.back() != 16 || config.tile_n != tile_n) return 1;
  }
  return 0;
} catch (const tessera::Error& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
