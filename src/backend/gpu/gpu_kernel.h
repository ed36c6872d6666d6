// What the kernels of all GPU families share: buffer checks, epilogue arguments, scratch memory.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "backend/gpu/gpu_driver.h"
#include "core/gemm_view.h"
#include "gpu/abi.h"
#include "tessera/kernel.h"

namespace tessera {

class GpuKernel : public Kernel {
 public:
  GpuKernel(std::shared_ptr<GpuDriver> driver, std::shared_ptr<GpuModule> module, const Problem& problem,
            const Choice& choice);
  ~GpuKernel() override;

  void run(const Buffers& buffers) const override;
  void wait() const override { driver_->wait(); }
  DeviceMemory* memory() const override { return driver_.get(); }
  size_t workspace_bytes() const override { return 0; }
  size_t packed_b_bytes() const override { return 0; }
  void pack_b(const void* b, void* packed, int64_t ldb) const override;
  double sum_error() const override { return sum_error_; }
  void set_sum_error(double e) { sum_error_ = e; }

 protected:
  // Beyond what every backend checks. Error(bad_input).
  virtual void check(const Buffers&) const {}

  tsr::GpuEpilogueArgs epilogue_args(const Buffers& buffers) const;
  // Vectors of four neighbours of C, and of D tensors where the steps read along rows, are aligned.
  bool wide(const Buffers& buffers) const;
  // The caller's workspace, or memory of this kernel's own for that stream: runs on one stream follow each
  // other, so they can share it. The first `zeroed` bytes are zero; kernels leave them so.
  void* workspace(const Buffers& buffers, size_t zeroed) const;

  std::shared_ptr<GpuDriver> driver_;
  std::shared_ptr<GpuModule> module_;
  GemmView view_;
  KernelConfig config_;

 private:
  double sum_error_ = 0;
  mutable std::mutex mutex_;
  mutable std::map<void*, void*> own_;  // by stream
};

}  // namespace tessera
