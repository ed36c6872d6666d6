// Packs from problems: what a dispatcher chooses for them, built.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "runtime/pack.h"
#include "tessera/dispatcher.h"

namespace tessera {

struct PackKernelsOptions {
  DispatcherOptions dispatcher;
  int jobs = 0;           // compilers at once; 0 = all cores
  bool decisions = true;  // record what was chosen for which problem, too
};

// Adds the kernels that `problems` need, compiled in parallel. Error(compile_failed) with the first problem
// that cannot be built; `writer` is then as it was. progress as Dispatcher::build's.
void add_kernels(PackWriter& writer, std::span<const Problem> problems, const PackKernelsOptions& options,
                 const std::function<void(size_t, size_t, const std::string&)>& progress = {});

}  // namespace tessera
