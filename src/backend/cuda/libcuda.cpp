#include "backend/cuda/libcuda.h"

#include <dlfcn.h>

namespace tessera::cuda {
namespace {

struct Loaded {
  LibCuda table;
  std::string why;  // "" when usable

  Loaded() {
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      why = "the NVIDIA driver library libcuda.so.1 is not there";
      return;
    }
#define TESSERA_RESOLVE(member, symbol, arguments)                                 \
  table.member = reinterpret_cast<decltype(table.member)>(dlsym(library, symbol)); \
  if (!table.member && why.empty()) why = "the NVIDIA driver is too old: it lacks " symbol;
    TESSERA_LIBCUDA(TESSERA_RESOLVE)
#undef TESSERA_RESOLVE
    if (!why.empty()) return;
    if (const Result r = table.init(0)) {
      const char* text = nullptr;
      table.error_text(r, &text);
      why = "the NVIDIA driver does not start: " + std::string(text ? text : "unknown error") + " (" +
            std::to_string(r) + ")";
    }
  }
};

}  // namespace

const LibCuda* libcuda(std::string* why) {
  static const auto& loaded = *new Loaded;  // for threads while the process ends
  if (loaded.why.empty()) return &loaded.table;
  if (why) *why = loaded.why;
  return nullptr;
}

}  // namespace tessera::cuda
