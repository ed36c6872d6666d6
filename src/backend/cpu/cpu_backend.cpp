#include "backend/cpu/cpu_backend.h"

#include "backend/cpu/amx.h"
#include "backend/cpu/bias_gradient.h"
#include "backend/cpu/channels_first.h"
#include "backend/cpu/compile.h"
#include "backend/cpu/cpu_module.h"
#include "backend/cpu/groups.h"
#include "backend/cpu/packed.h"
#include "backend/cpu/planes.h"
#include "backend/cpu/scatter.h"
#include "backend/cpu/unpacked.h"
#include "backend/cpu/winograd.h"
#include "tessera/error.h"

namespace tessera {
namespace {

struct FamilyDriver {
  Family family;
  std::unique_ptr<Kernel> (*make)(std::shared_ptr<CpuModule>, const ArchSpec&, const Problem&, const Choice&);
};

constexpr FamilyDriver kDrivers[] = {
    {Family::cpu_packed, make_packed_kernel},
    {Family::cpu_direct, make_unpacked_kernel},
    {Family::cpu_dot, make_unpacked_kernel},
    {Family::cpu_amx, make_amx_kernel},
    {Family::cpu_groups, make_groups_kernel},
    {Family::cpu_winograd, make_winograd_kernel},
    {Family::cpu_scatter, make_scatter_kernel},
    {Family::cpu_planes, make_planes_kernel},
    {Family::cpu_winograd_weight, make_winograd_weight_kernel},
};

class CpuBackend : public Backend {
 public:
  explicit CpuBackend(int threads) : arch_(detect_cpu()) {
    if (threads > 0) arch_.compute_units = threads;
  }

  const ArchSpec& arch() const override { return arch_; }
  std::string compiler_identity() const override { return find_cpp_compiler().identity; }
  std::string compiler_file() const override { return find_cpp_compiler().file; }
  Binary compile(const Source& source, const std::string& scratch) const override {
    return compile_cpp(source, scratch);
  }
  std::shared_ptr<Module> load(const Binary& binary) const override {
    return std::make_shared<CpuModule>(binary);
  }

  std::unique_ptr<Kernel> prepare(std::shared_ptr<Module> module, const Problem& problem,
                                  const Choice& choice) const override {
    auto cpu_module = std::dynamic_pointer_cast<CpuModule>(std::move(module));
    if (!cpu_module) throw Error(ErrorCode::internal, "a module of another backend");
    for (const FamilyDriver& d : kDrivers) {
      if (d.family != choice.config.family_id()) continue;
      const auto make = [&](const Problem& p) { return d.make(cpu_module, arch_, p, choice); };
      const int threads = arch_.compute_units;
      auto kernel = problem.layout == Layout::channels_first
                        ? make_channels_first(problem, choice, threads, make)
                        : make(problem);
      return problem.bias_grad ? make_bias_gradient(problem, threads, std::move(kernel)) : std::move(kernel);
    }
    throw Error(ErrorCode::unsupported,
                "family " + std::string(to_string(choice.config.family_id())) + " does not run on a CPU");
  }

 private:
  ArchSpec arch_;
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(int threads) { return std::make_unique<CpuBackend>(threads); }

}  // namespace tessera
