// A convolution from a pack, with no compiler. Make the pack where there is one:
//   tessera pack create "conv_fwd n=1 c=8 k=16 in=9x9 filter=3x3 dtype=f32" --out mine.pack
#include <cstdlib>
#include <string>

#include "conv.h"

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: example_conv_pack PACK\n"), 2;
  setenv("TESSERA_CXX", "/nonexistent", 1);  // as on a machine without a compiler
  return example::run([&] {
    const auto p = tessera::Problem::parse("conv_fwd n=1 c=8 k=16 in=9x9 filter=3x3 dtype=f32");
    tessera::Dispatcher dispatcher({.cache_dir = std::string(argv[1]) + ".cache", .packs = {argv[1]}});
    tessera::BuildInfo info;
    example::Tensors t(p);
    dispatcher.get(p, &info).run(t.buffers());
    std::printf("the kernel came from: %s\n", std::string(to_string(info.from)).c_str());
    return info.from == tessera::BuildInfo::From::pack &&
           example::same(t.c, example::expected(p, t.a, t.b), "output");
  });
}
