// Filters that are used often are packed once, into the order that the chosen kernel reads.
#include <cstdlib>
#include <memory>

#include "conv.h"

int main() {
  return example::run([] {
    const auto p =
        tessera::Problem::parse("conv_fwd n=1 c=16 k=40 in=9x9 filter=3x3 pad=1x1 dtype=f32 prepack=b");
    example::Tensors t(p);
    tessera::Dispatcher dispatcher;
    const tessera::Kernel& kernel = dispatcher.get(p);
    const size_t bytes = (kernel.packed_b_bytes() + 63) / 64 * 64;
    std::unique_ptr<void, void (*)(void*)> packed(std::aligned_alloc(64, bytes), std::free);
    kernel.pack_b(t.b.data(), packed.get());  // once

    bool right = true;
    for (uint32_t image = 0; image < 3; ++image) {  // many times
      t.a = example::integers(static_cast<int64_t>(t.a.size()), image);
      kernel.run({.a = t.a.data(), .b = packed.get(), .c = t.c.data()});
      right &= example::same(t.c, example::expected(p, t.a, t.b), "output");
    }
    std::printf("three images by a filter packed once into %zu bytes\n", bytes);
    return right;
  });
}
