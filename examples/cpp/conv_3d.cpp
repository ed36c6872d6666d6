// Volumes: a first layer of a video network, 3 x 7 x 7 with asymmetric padding, as fields of a struct.
#include "conv.h"

int main() {
  return example::run([] {
    tessera::Problem p;
    p.op = tessera::Op::conv_fwd;
    p.layout = tessera::Layout::channels_last;
    p.a = p.b = p.out = p.d = tessera::DType::f32;
    p.conv = {.dims = 3,
              .n = 1,
              .c = 3,
              .k = 16,
              .in = {4, 24, 24},  // depth, height, width
              .filter = {3, 7, 7},
              .stride = {1, 2, 2},
              .pad_lo = {2, 3, 3},  // causal in time: the frames before, none after
              .pad_hi = {0, 3, 3}};
    p.validate();
    example::Tensors t(p);
    tessera::Dispatcher dispatcher;
    dispatcher.run(p, t.buffers());
    std::printf("%s\n", to_string(p).c_str());
    return example::same(t.c, example::expected(p, t.a, t.b), "output");
  });
}
