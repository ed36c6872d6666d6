// A product that a driver computes in parts (strided_parts), one after another.
#pragma once

#include <cstdint>
#include <memory>

#include "backend/cpu/cpu_kernel.h"
#include "core/arch_spec.h"
#include "core/gemm_view.h"
#include "tessera/kernel.h"

namespace tessera {

// The kernel of one part. Parts share lines of memory of both A and C: they may take turns over rows that lie
// side by side in these.
class PartKernel : public CpuKernel {
 public:
  using CpuKernel::CpuKernel;
  int threads() const { return threads_; }
  virtual int64_t turns() const { return 1; }
  // What a turn needs of workspace, at `space`.
  virtual size_t turn_bytes() const { return 0; }
  virtual void run_turn(const Buffers&, int64_t /*turn*/, char* /*space*/) const {}
};

using MakePart = std::unique_ptr<PartKernel> (*)(std::shared_ptr<CpuModule>, const ArchSpec&, StridedPart,
                                                 const Problem&, const Choice&);

// The kernel of the problem: the only part's own, or one that runs all of them.
std::unique_ptr<Kernel> make_in_parts(std::shared_ptr<CpuModule> module, const ArchSpec& arch,
                                      const Problem& problem, const Choice& choice, MakePart make);

}  // namespace tessera
