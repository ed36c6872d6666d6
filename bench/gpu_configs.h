// Configs of a problem to be measured on a device, and their kernels.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "core/gemm_view.h"
#include "runtime/kernel_cache.h"

namespace tessera {

// Kernels of many configs of one problem, compiled on all cores or taken from the kernel cache, and kept by
// symbol.
class Workshop {
 public:
  Workshop();
  const ArchSpec& arch() const { return backend_->arch(); }

  // Null where a config does not compile, which is printed.
  std::vector<std::unique_ptr<Kernel>> make(const Problem& p, const std::vector<Choice>& choices);

 private:
  std::unique_ptr<Backend> backend_;
  KernelCache cache_{{}};
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Module>> modules_;
};

// Of the legal configs that have a kernel: the best predicted, the best predicted of each kind, and some
// drawn at random.
std::vector<Choice> sample_configs(const GemmView& v, const ArchSpec& arch, size_t count);

// The same kernels into the kernel cache, on a machine without the device.
void compile_ahead(const GemmView& v, const std::vector<Choice>& choices, KernelCache& cache);

}  // namespace tessera
