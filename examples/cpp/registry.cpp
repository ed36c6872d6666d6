// A registry limits what a dispatcher may choose from; a callback decides among what is left.
#include <algorithm>
#include <cstdio>
#include <numeric>
#include <vector>

#include "tessera/dispatcher.h"
#include "tessera/error.h"
#include "tessera/registry.h"

int main() try {
  const auto problem = tessera::Problem::parse("gemm m=96 n=96 k=96 dtype=f32");

  // Any kernel of two families; the packed ones preferred.
  auto registry = std::make_shared<tessera::Registry>("mine");
  registry->add({.config = "cpu_packed", .priority = 10});
  registry->add({.config = "cpu_dot", .dtype = "f32"});

  // Registries travel as JSON, and merge with one rule for ties.
  auto copy = tessera::Registry::from_json(tessera::Json::parse(registry->to_json().dump(2)));
  if (copy->all() != registry->all()) return std::puts("the JSON round trip changed the registry"), 1;
  copy->merge(*tessera::Registry::parse("any cpu_direct priority=5\n", "more"));
  std::printf("%zu declarations in '%s', %zu after the merge\n", registry->size(), registry->name().c_str(),
              copy->size());

  // The callback sees every legal declared candidate with its predicted time. Here: the widest register tile.
  size_t seen = 0;
  tessera::Dispatcher dispatcher({
      .threads = 1,
      .policy = tessera::Policy::callback,
      .rank =
          [&seen](const tessera::Problem&, std::span<const tessera::Candidate> candidates) {
            seen = candidates.size();
            std::vector<size_t> order(candidates.size());
            std::iota(order.begin(), order.end(), size_t{0});
            std::stable_sort(order.begin(), order.end(), [&](size_t x, size_t y) {
              return candidates[x].config.tile_n > candidates[y].config.tile_n;
            });
            return order;
          },
      .registry = registry,
  });

  std::vector<float> a(96 * 96, 1.0f), b(96 * 96, 0.5f), c(96 * 96);
  const tessera::Kernel& kernel = dispatcher.get(problem);
  kernel.run({.a = a.data(), .b = b.data(), .c = c.data()});
  const auto& config = kernel.choice().config;
  std::printf("of %zu candidates: %s\n", seen, to_string(config).c_str());
  // Priorities come before the callback's order: the choice is a packed kernel.
  return c[0] == 48 && config.family_id() == tessera::Family::cpu_packed ? 0 : 1;
} catch (const tessera::Error& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
