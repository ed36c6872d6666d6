// Depthwise convolutions are those with one channel for each group; a channel multiplier is k > 1.
#include <string>

#include "conv.h"

int main() {
  return example::run([] {
    tessera::Dispatcher dispatcher;
    bool right = true;
    for (const char* op : {"conv_fwd", "conv_bwd_data", "conv_bwd_weight"}) {
      for (const char* shape : {"n=2 g=48 c=1 k=1 in=14x14 filter=3x3 stride=2x2 pad=1x1",
                                "n=1 g=16 c=1 k=2 in=9x9 filter=5x5 pad=2x2"}) {
        const auto p = tessera::Problem::parse(std::string(op) + ' ' + shape + " dtype=f32");
        example::Tensors t(p);
        dispatcher.run(p, t.buffers());
        std::printf("%s by %s\n", to_string(p).c_str(), to_string(dispatcher.get(p).choice().config).c_str());
        right &= example::same(t.c, example::expected(p, t.a, t.b), op);
      }
    }
    return right;
  });
}
