// Several registries side by side: dispatchers that choose from different kernels, and one that has both.
#include "conv.h"
#include "tessera/registry.h"

int main() {
  return example::run([] {
    const auto p =
        tessera::Problem::parse("conv_bwd_data n=1 c=64 k=32 in=14x14 filter=3x3 pad=1x1 dtype=f32");
    const auto small = tessera::Registry::parse("any cpu_packed tile=*x16\n", "small tiles");
    const auto large = tessera::Registry::parse("any cpu_packed tile=*x32 priority=5\n", "large tiles");
    auto both = std::make_shared<tessera::Registry>("both");
    both->merge(*small);
    both->merge(*large);

    bool right = true;
    std::vector<int> widths;
    for (const auto& registry : {small, large, std::shared_ptr<tessera::Registry>(both)}) {
      tessera::Dispatcher dispatcher({.threads = 1, .registry = registry});
      example::Tensors t(p);
      dispatcher.run(p, t.buffers());
      const tessera::KernelConfig& config = dispatcher.get(p).choice().config;
      std::printf("%-12s %zu declaration(s): %s\n", registry->name().c_str(), registry->size(),
                  to_string(config).c_str());
      widths.push_back(config.tile_n);
      right &= example::same(t.c, example::expected(p, t.a, t.b), "gradient of the input");
    }
    // The higher priority wins in the merged one.
    return right && widths == std::vector<int>{16, 32, 32};
  });
}
