// Tensors with their channels first (NC(spatial), KC(filter)) in every direction: brought into the kernels'
// order and back by the run itself, some images at a time, in workspace that is known before.
#include <cstdlib>
#include <memory>
#include <string>

#include "conv.h"

int main() {
  return example::run([] {
    tessera::Dispatcher dispatcher;
    bool right = true;
    for (const char* op : {"conv_fwd", "conv_bwd_data", "conv_bwd_weight"}) {
      const auto p = tessera::Problem::parse(
          std::string(op) + " n=2 c=12 k=20 in=10x9 filter=3x3 pad=1x1 dtype=f32 layout=channels_first");
      const tessera::Kernel& kernel = dispatcher.get(p);
      const size_t bytes = (kernel.workspace_bytes() + 63) / 64 * 64;
      std::unique_ptr<void, void (*)(void*)> workspace(std::aligned_alloc(64, bytes), std::free);
      example::Tensors t(p);
      tessera::Buffers buffers = t.buffers();
      buffers.workspace = workspace.get();  // without one the kernel brings its own
      kernel.run(buffers);
      std::printf("%-16s %zu bytes of workspace\n", op, bytes);
      right &= example::same(t.c, example::expected(p, t.a, t.b), op);
    }
    return right;
  });
}
