#include "backend/null/null_backend.h"

#include "tessera/error.h"

namespace tessera {
namespace {

class NullBackend : public Backend {
 public:
  NullBackend(std::string_view arch, int threads) : arch_(find_arch(arch)) {
    if (arch_.backend == BackendKind::cpu && threads > 0) arch_.compute_units = threads;
  }

  const ArchSpec& arch() const override { return arch_; }
  std::string compiler_identity() const override { return "none (planning only)"; }
  Binary compile(const Source&, const std::string&) const override { refuse(); }
  std::shared_ptr<Module> load(const Binary&) const override { refuse(); }
  std::unique_ptr<Kernel> prepare(std::shared_ptr<Module>, const Problem&, const Choice&) const override {
    refuse();
  }

 private:
  [[noreturn]] void refuse() const {
    throw Error(ErrorCode::unsupported,
                "device null:" + arch_.name + " only plans: it compiles and runs nothing",
                "use explain or emit, or another device");
  }

  ArchSpec arch_;
};

}  // namespace

std::unique_ptr<Backend> make_null_backend(std::string_view arch, int threads) {
  return std::make_unique<NullBackend>(arch, threads);
}

}  // namespace tessera
