// The code that a dispatcher has loaded: each unit once, whichever problems run it.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "backend/backend.h"
#include "runtime/kernel_cache.h"
#include "tessera/dispatcher.h"

namespace tessera {

// Thread-safe. Keeps references to the backend and the cache.
class Modules {
 public:
  Modules(const Backend& backend, KernelCache& cache) : backend_(backend), cache_(cache) {}

  // Built where it has to be; *info takes where from, and the time. Errors as of KernelCache::get_or_build();
  // Error(compile_failed) where what is built does not load either.
  std::shared_ptr<Module> get(const Source& source, BuildInfo* info);

  // Whether it is there without a compiler; it is loaded then.
  bool available(const Source& source, BuildInfo* info);

 private:
  std::shared_ptr<Module> loaded(const std::string& symbol);
  std::shared_ptr<Module> load(const Source& source, CacheResult& result);

  const Backend& backend_;
  KernelCache& cache_;
  std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<Module>>
      known_;  // by symbol, which names the unit's content
};

}  // namespace tessera
