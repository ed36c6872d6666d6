// The end of a residual block in one kernel: relu(conv(x, w) * scale + shift + residual), scale and shift per
// channel.
#include "conv.h"

int main() {
  return example::run([] {
    // D tensors are passed in the order of the steps that take one. Vectors of rows have an element for each
    // channel of all groups; full tensors are laid out as the output.
    const auto p = tessera::Problem::parse(
        "conv_fwd n=2 g=2 c=8 k=12 in=10x10 filter=3x3 pad=1x1 dtype=f32 epilogue=mul_row,bias,add,relu");
    example::Tensors t(p);
    const std::vector<float> scale = example::integers(24, 5), shift = example::integers(24, 6),
                             residual = example::integers(static_cast<int64_t>(t.c.size()), 7);
    tessera::Buffers buffers = t.buffers();
    buffers.d = {scale.data(), shift.data(), residual.data()};
    tessera::Dispatcher dispatcher;
    dispatcher.run(p, buffers);

    std::vector<float> want = example::expected(p, t.a, t.b);
    for (size_t i = 0; i < want.size(); ++i)
      want[i] = std::max(want[i] * scale[i % 24] + shift[i % 24] + residual[i], 0.0f);
    std::printf("%s\n", to_string(p).c_str());
    return example::same(t.c, want, "output");
  });
}
