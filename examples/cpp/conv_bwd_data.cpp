// The gradient of the input of a strided convolution, and the same operation as an upsampling ("transposed")
// layer.
#include "conv.h"

int main() {
  return example::run([] {
    tessera::Dispatcher dispatcher;
    // Sizes are those of the forward pass: here 16x16 images were halved. A is the gradient of the output.
    const auto p = tessera::Problem::parse(
        "conv_bwd_data n=2 c=12 k=24 in=16x16 filter=3x3 stride=2x2 pad=1x1 dtype=f32");
    example::Tensors t(p);
    dispatcher.run(p, t.buffers());
    bool right = example::same(t.c, example::expected(p, t.a, t.b), "gradient of the input");

    // 8x8 images of 24 channels become 16x16 of 12, and pass through the activation at once.
    const auto up = tessera::Problem::parse(
        "conv_bwd_data n=1 c=12 k=24 in=16x16 filter=2x2 stride=2x2 dtype=f32 epilogue=bias,relu");
    example::Tensors u(up);
    const std::vector<float> bias = example::integers(12);
    tessera::Buffers buffers = u.buffers();
    buffers.d = {bias.data()};
    dispatcher.run(up, buffers);
    std::vector<float> want = example::expected(up, u.a, u.b);
    for (size_t i = 0; i < want.size(); ++i) want[i] = std::max(want[i] + bias[i % 12], 0.0f);
    right &= example::same(u.c, want, "upsampled");
    std::printf("%zu and %zu elements\n", t.c.size(), u.c.size());
    return right;
  });
}
