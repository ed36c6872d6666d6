// Kernels for tests, from a problem's and a config's text: rendered, compiled once per unit and process,
// loaded; and run against the reference.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/compile.h"
#include "backend/cpu/cpu_module.h"
#include "base/text.h"
#include "codegen/render.h"
#include "core/gemm_view.h"
#include "tessera/error.h"
#include "tune/verify.h"

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

inline bool runs_here(std::string_view arch) {
  return missing_features(find_arch(arch), this_processor()).empty();
}

// For a test that goes over architectures: those that this processor is not are left out, and at its end the
// test counts as skipped by their names.
class LeftOut {
 public:
  LeftOut() = default;
  LeftOut(const LeftOut&) = delete;
  LeftOut& operator=(const LeftOut&) = delete;
  ~LeftOut() { say(); }

  bool operator()(std::string_view arch) {
    if (runs_here(arch)) return false;
    archs_.emplace(arch);
    return true;
  }

 private:
  void say() const {
    if (!archs_.empty()) GTEST_SKIP() << "this processor is no " << join(archs_, ", no ");
  }

  std::set<std::string> archs_;
};

using MakeCpuKernel = std::unique_ptr<Kernel> (*)(std::shared_ptr<CpuModule>, const ArchSpec&, const Problem&,
                                                  const Choice&);

// A kernel of any architecture whose instructions this processor has.
inline std::unique_ptr<Kernel> make_kernel(MakeCpuKernel make, std::string_view arch,
                                           const std::string& problem, std::string_view config_text,
                                           int threads = 1) {
  static std::map<std::string, std::shared_ptr<CpuModule>> modules;
  const Problem p = Problem::parse(problem);
  const KernelConfig c = config(config_text);
  ArchSpec used = find_arch(arch);
  used.compute_units = threads;
  const Source source = render(lower(p), c, used);
  auto& module = modules[source.symbol];
  if (!module) module = std::make_shared<CpuModule>(backend(1).compile(source, ""));
  return make(module, used, p, Choice{c, 0, ChoiceSource::explicit_config});
}

// Against the reference, with a workspace of its own and with the caller's.
inline void expect_right(const Kernel& kernel, FillKind kind = FillKind::integers) {
  Operands operands(kernel.problem(), kind);
  Verifier verifier(operands, arithmetic_of(kernel));
  Buffers buffers = operands.bind(kernel);
  GuardedBuffer workspace(kernel.workspace_bytes());
  for (void* given : {static_cast<void*>(nullptr), workspace.data()}) {
    operands.reset_c();
    buffers.workspace = given;
    kernel.run(buffers);
    const Verification v = verifier.check();
    EXPECT_TRUE(v.ok) << v.failure;
    EXPECT_TRUE(v.complete);
  }
  EXPECT_EQ(workspace.damage(), "");
}

inline void expect_right(MakeCpuKernel make, std::string_view arch, const std::string& config,
                         const std::string& problem, int threads = 1) {
  SCOPED_TRACE(problem + " | " + config + " | " + std::string(arch));
  expect_right(*make_kernel(make, arch, problem, config, threads));
}

// A B of elements T in the upper left of matrices of leading dimension `ldb` is packed as one that lies
// alone.
template <class T>
void expect_packed_alike(const Kernel& kernel, int64_t ldb) {
  const Problem& p = kernel.problem();
  const bool row_major = lower(p).b.row_major();
  const auto lines = static_cast<size_t>(row_major ? p.k : p.n),
             length = static_cast<size_t>(row_major ? p.n : p.k), pitch = static_cast<size_t>(ldb),
             all = static_cast<size_t>(p.batch) * lines;
  std::vector<T> tight(all * length), wide(all * pitch, static_cast<T>(-1));
  for (size_t i = 0; i < all; ++i) {
    for (size_t j = 0; j < length; ++j)
      tight[i * length + j] = wide[i * pitch + j] = static_cast<T>(i * 131 + j);
  }
  std::vector<char> one(kernel.packed_b_bytes(), 'x'), other(kernel.packed_b_bytes(), 'y');
  kernel.pack_b(tight.data(), one.data());
  kernel.pack_b(wide.data(), other.data(), ldb);
  for (size_t i = 0, shown = 0; i < one.size() && shown < 8; ++i) {
    if (one[i] == other[i]) continue;
    ADD_FAILURE() << "byte " << i << " of " << one.size() << ": " << int{one[i]} << " and " << int{other[i]};
    ++shown;
  }
}

// What one run leaves in C.
inline std::vector<char> result(const Kernel& kernel, FillKind kind = FillKind::uniform) {
  Operands operands(kernel.problem(), kind);
  kernel.run(operands.bind(kernel));
  const GemmView& v = operands.view();
  const auto* c = static_cast<const char*>(operands.c());
  return {c, c + v.c.extent * bytes_of(v.c.type)};
}

}  // namespace tessera::testing_cpu
