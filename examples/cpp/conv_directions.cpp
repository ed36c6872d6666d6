// The three directions of a convolution in one, two and three dimensions, dense and grouped.
#include <string>

#include "conv.h"

int main() {
  return example::run([] {
    tessera::Dispatcher dispatcher;
    bool right = true;
    for (const char* op : {"conv_fwd", "conv_bwd_data", "conv_bwd_weight"}) {
      for (const char* shape :
           {"n=2 c=8 k=16 in=40 filter=5 pad=2", "n=2 g=4 c=4 k=8 in=12x10 filter=3x3 stride=2x2 pad=1x1",
            "n=1 c=8 k=8 in=6x7x8 filter=3x3x3 pad=1x1x1 dilation=1x1x2"}) {
        const auto p = tessera::Problem::parse(std::string(op) + ' ' + shape + " dtype=f32");
        example::Tensors t(p);
        dispatcher.run(p, t.buffers());
        std::printf("%s\n", to_string(p).c_str());
        right &= example::same(t.c, example::expected(p, t.a, t.b), op);
      }
    }
    return right;
  });
}
