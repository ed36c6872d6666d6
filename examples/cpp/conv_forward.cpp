// Declare a convolution in one line of text and run it: images N(spatial)C, filter K(filter)C, bias and relu
// fused.
#include "conv.h"

int main() {
  return example::run([] {
    const auto p = tessera::Problem::parse(
        "conv_fwd n=2 c=16 k=24 in=14x14 filter=3x3 pad=1x1 dtype=f32 epilogue=bias,relu");
    example::Tensors t(p);
    const std::vector<float> bias = example::integers(24);

    tessera::Dispatcher dispatcher;
    tessera::Buffers buffers = t.buffers();
    buffers.d = {bias.data()};
    dispatcher.run(p, buffers);  // selects and compiles on first use

    std::vector<float> want = example::expected(p, t.a, t.b);
    for (size_t i = 0; i < want.size(); ++i) want[i] = std::max(want[i] + bias[i % 24], 0.0f);
    std::printf("%s by %s\n", to_string(p).c_str(), to_string(dispatcher.get(p).choice().config).c_str());
    return example::same(t.c, want, "output");
  });
}
