#include "backend/cuda/cuda_backend.h"

#include <cmath>

#include "backend/cuda/blocks.h"
#include "backend/cuda/cuda_driver.h"
#include "backend/cuda/nvrtc.h"
#include "backend/cuda/tma_ws.h"
#include "base/text.h"
#include "tessera/error.h"

namespace tessera {
namespace {

using cuda::CudaDriver;

struct FamilyDriver {
  Family family;
  std::unique_ptr<GpuKernel> (*make)(std::shared_ptr<CudaDriver>, std::shared_ptr<GpuModule>, const Problem&,
                                     const Choice&);
};

constexpr FamilyDriver kDrivers[] = {
    {Family::tma_ws, cuda::make_tma_ws_kernel},
    {Family::cp_async, cuda::make_block_kernel},
    {Family::simt, cuda::make_block_kernel},
    {Family::gemv, cuda::make_block_kernel},
};

const ArchSpec& arch_of(const CudaDriver& device) {
  const int capability =
      10 * device.attribute(cuda::kAttributeMajor) + device.attribute(cuda::kAttributeMinor);
  std::string known;
  for (const ArchSpec& a : all_archs()) {
    if (a.backend != BackendKind::cuda) continue;
    if (a.compute_capability == capability) return a;
    known += (known.empty() ? "" : ", ") + a.name;
  }
  throw Error(ErrorCode::unsupported,
              device.name() + " has compute capability " + format("%d.%d", capability / 10, capability % 10) +
                  ", for which there is no architecture file",
              "known: " + known);
}

class CudaBackend : public Backend {
 public:
  explicit CudaBackend(int ordinal)
      : driver_(std::make_shared<CudaDriver>(ordinal)), arch_(arch_of(*driver_)) {
    arch_.compute_units = driver_->attribute(cuda::kAttributeMultiprocessors);
    arch_.l2.bytes = driver_->attribute(cuda::kAttributeL2Bytes);
  }

  const ArchSpec& arch() const override { return arch_; }
  std::string compiler_identity() const override { return cuda::nvrtc_identity(); }
  Binary compile(const Source& source, const std::string& scratch) const override {
    return cuda::compile_nvrtc(source, scratch);
  }
  std::shared_ptr<Module> load(const Binary& binary) const override { return driver_->load(binary); }

  std::unique_ptr<Kernel> prepare(std::shared_ptr<Module> module, const Problem& problem,
                                  const Choice& choice) const override {
    auto gpu_module = std::dynamic_pointer_cast<GpuModule>(std::move(module));
    if (!gpu_module) throw Error(ErrorCode::internal, "a module of another backend");
    for (const FamilyDriver& d : kDrivers) {
      if (d.family != choice.config.family_id()) continue;
      auto kernel = d.make(driver_, std::move(gpu_module), problem, choice);
      const Instruction* inst = arch_.find_instruction(problem.a, problem.b, choice.config);
      if (inst && inst->sum_bits < Instruction{}.sum_bits)
        kernel->set_sum_error(std::ldexp(1.0, -inst->sum_bits));
      return kernel;
    }
    throw Error(ErrorCode::unsupported,
                "family " + std::string(to_string(choice.config.family_id())) + " does not run on CUDA");
  }

 private:
  std::shared_ptr<CudaDriver> driver_;
  ArchSpec arch_;
};

}  // namespace

int cuda_ordinal(std::string_view text) {
  const auto ordinal = text.empty() ? std::optional<int64_t>(0) : parse_int(text);
  if (!ordinal || *ordinal < 0 || *ordinal > 1023) {
    throw Error(ErrorCode::bad_input, "device 'cuda:" + std::string(text) + "' names no device",
                "for example cuda:0");
  }
  return static_cast<int>(*ordinal);
}

std::unique_ptr<Backend> make_cuda_backend(std::string_view text, int) {
  return std::make_unique<CudaBackend>(cuda_ordinal(text));
}

}  // namespace tessera
