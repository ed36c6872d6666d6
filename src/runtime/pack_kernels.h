// Packs from problems: what a dispatcher chooses for them, built.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "runtime/pack.h"
#include "tessera/dispatcher.h"

namespace tessera {

struct PackKernelsOptions {
  DispatcherOptions dispatcher;
  std::vector<int> thread_counts = {};  // what is chosen with each of them; empty: the dispatcher's
  // Below 1: only the most chosen kernels, as many as it takes to serve this share of the choices (one for a
  // problem and a number of threads).
  double share = 1;
  int jobs = 0;           // compilers at once; 0 = all cores
  bool decisions = true;  // record what was chosen for which problem, too
};

// Adds the kernels that `problems` need, compiled in parallel. Error(compile_failed) with the first problem
// that cannot be built; `writer` is then as it was. progress as Dispatcher::build's, anew for each number of
// threads.
void add_kernels(PackWriter& writer, std::span<const Problem> problems, const PackKernelsOptions& options,
                 const std::function<void(size_t, size_t, const std::string&)>& progress = {});

}  // namespace tessera
