// The gradient of the filter, accumulated over micro-batches: beta=1 adds to what is there, in one pass.
#include "conv.h"

int main() {
  return example::run([] {
    // bf16 layers keep such a gradient in f32 by out=f32; sums are in f32 either way.
    const auto p = tessera::Problem::parse(
        "conv_bwd_weight n=2 g=2 c=8 k=12 in=12x12 filter=3x3 pad=1x1 dtype=f32 beta=1");
    tessera::Dispatcher dispatcher;
    const tessera::Kernel& kernel = dispatcher.get(p);
    std::vector<float> gradient(static_cast<size_t>(example::Sizes(p.conv).w)), want(gradient.size());
    for (uint32_t batch = 0; batch < 3; ++batch) {
      example::Tensors t(p);
      t.a = example::integers(static_cast<int64_t>(t.a.size()), 10 + batch);
      kernel.run({.a = t.a.data(), .b = t.b.data(), .c = gradient.data()});
      const std::vector<float> part = example::expected(p, t.a, t.b);
      for (size_t i = 0; i < want.size(); ++i) want[i] += part[i];
    }
    // A run may say otherwise: beta=0 starts anew.
    example::Tensors t(p);
    tessera::Buffers fresh = t.buffers();
    fresh.beta = 0;
    kernel.run(fresh);
    std::printf("%zu weights, gradients of three micro-batches\n", gradient.size());
    return example::same(gradient, want, "accumulated") &&
           example::same(t.c, example::expected(p, t.a, t.b), "fresh");
  });
}
