// Time convolutions of one network layer each, and verify every element of what they computed.
#include "conv.h"

int main() {
  return example::run([] {
    tessera::Dispatcher dispatcher({.threads = 1});
    std::printf("%-16s %-28s %10s %10s\n", "operation", "layer", "us", "GFLOP/s");
    bool right = true;
    for (const char* layer : {"c=64 k=64 in=28x28 filter=1x1", "c=32 k=32 in=28x28 filter=3x3 pad=1x1",
                              "c=32 k=64 in=28x28 filter=3x3 stride=2x2 pad=1x1"}) {
      for (const char* op : {"conv_fwd", "conv_bwd_data", "conv_bwd_weight"}) {
        const auto p = tessera::Problem::parse(std::string(op) + ' ' + layer + " dtype=f32");
        example::Tensors t(p);
        const double us = example::best_us(dispatcher.get(p), t.buffers());
        right &= example::same(t.c, example::expected(p, t.a, t.b), op);
        std::printf("%-16s %-28.28s %10.1f %10.1f\n", op, layer, us, 1e6 * example::gflop(p) / us);
      }
    }
    return right;
  });
}
