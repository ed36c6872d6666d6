// A BLAS opened at run time: its environment can still be set then, and two of them stay apart.
#pragma once

#include <dlfcn.h>

#include <cstdlib>
#include <string>

#include "peer.h"

namespace tsr_peer_impl {

inline bool has_avx512() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq");
}

inline void* open_library(const char* name) {
  void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  if (!library) throw Unsupported(dlerror());
  return library;
}

template <class F>
F* symbol(void* library, const char* name) {
  auto* f = reinterpret_cast<F*>(dlsym(library, name));
  if (!f) throw Unsupported(std::string("the library lacks ") + name);
  return f;
}

inline void only_plain_f32(const TsrPeerProblem& p, const char* library) {
  if (!all_are(p, "f32")) throw Unsupported(std::string(library) + " multiplies f32 only");
  if (p.packed_b) throw Unsupported(std::string(library) + " takes no packed operand");
}

}  // namespace tsr_peer_impl
