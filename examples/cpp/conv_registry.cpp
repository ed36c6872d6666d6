// A registry limits what convolutions may use, travels as JSON, and a heuristic of your own decides among
// what is left.
#include <numeric>

#include "conv.h"
#include "tessera/registry.h"

int main() {
  return example::run([] {
    const auto p = tessera::Problem::parse("conv_fwd n=1 c=32 k=64 in=14x14 filter=3x3 pad=1x1 dtype=f32");

    auto declared = std::make_shared<tessera::Registry>("convolutions");
    declared->add({.config = "cpu_packed", .dtype = "f32", .layout = "channels_*"});
    const std::string text = declared->to_json().dump(1);
    const auto registry = tessera::Registry::from_json(tessera::Json::parse(text));
    if (registry->all() != declared->all())
      return std::puts("the JSON round trip changed the registry"), false;

    // Fewest rows in a register tile first; of those as predicted.
    const auto heuristic = [](const tessera::Problem&, std::span<const tessera::Candidate> candidates) {
      std::vector<size_t> order(candidates.size());
      std::iota(order.begin(), order.end(), size_t{0});
      std::stable_sort(order.begin(), order.end(), [&](size_t x, size_t y) {
        return std::pair(candidates[x].config.tile_m, candidates[x].predicted_us) <
               std::pair(candidates[y].config.tile_m, candidates[y].predicted_us);
      });
      return order;
    };
    tessera::Dispatcher dispatcher(
        {.policy = tessera::Policy::callback, .rank = heuristic, .registry = registry});

    example::Tensors t(p);
    dispatcher.run(p, t.buffers());
    const tessera::KernelConfig& config = dispatcher.get(p).choice().config;
    std::printf("%zu declaration(s); chosen: %s\n", registry->size(), to_string(config).c_str());
    for (const tessera::Candidate& c : dispatcher.explain(p).candidates) {
      if (c.config.tile_m < config.tile_m) return std::puts("the heuristic was not heeded"), false;
    }
    return example::same(t.c, example::expected(p, t.a, t.b), "output");
  });
}
