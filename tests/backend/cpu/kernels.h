// Kernels for tests, from a problem's and a config's text: rendered, compiled once per unit and process,
// loaded.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "backend/backend.h"
#include "backend/cpu/compile.h"
#include "codegen/render.h"
#include "core/gemm_view.h"
#include "tessera/error.h"

namespace tessera::testing_cpu {

inline Backend& backend(int threads) {
  static std::mutex mutex;
  static std::map<int, std::unique_ptr<Backend>> backends;
  std::lock_guard lock(mutex);
  auto& found = backends[threads];
  if (!found) found = make_backend("cpu", threads);
  return *found;
}

inline KernelConfig config(std::string_view text) {
  std::string why;
  auto c = KernelConfig::parse(text, &why);
  if (!c) throw Error(ErrorCode::bad_input, why);
  return *c;
}

inline std::unique_ptr<Kernel> make_kernel(const Problem& problem, const KernelConfig& c, int threads = 1) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<Module>> modules;
  Backend& b = backend(threads);
  const Source source = render(lower(problem), c, b.arch());
  std::shared_ptr<Module> module;
  {
    std::lock_guard lock(mutex);
    auto& known = modules[source.symbol];
    if (!known) known = b.load(b.compile(source, ""));
    module = known;
  }
  return b.prepare(module, problem, Choice{c, 0, ChoiceSource::explicit_config});
}

inline std::unique_ptr<Kernel> make_kernel(std::string_view problem, std::string_view c, int threads = 1) {
  return make_kernel(Problem::parse(problem), config(c), threads);
}

}  // namespace tessera::testing_cpu
