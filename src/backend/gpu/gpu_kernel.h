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
  size_t workspace_bytes() const override { return workspace_bytes_; }
  size_t panels_bytes() const override { return 0; }
  void pack_b_unchecked(const void* b, void* packed, int64_t ldb) const override;
  double sum_error() const override { return sum_error_; }
  void set_sum_error(double e) { sum_error_ = e; }

 protected:
  // Beyond what every backend checks. Error(bad_input).
  virtual void check(const Buffers&) const {}
  // That the device can reach the memory of what a run reads and writes. Error(bad_input).
  void check_memory(const Buffers& buffers) const;

  tsr::GpuEpilogueArgs epilogue_args(const Buffers& buffers) const;
  // Vectors of four neighbours of C, and of D tensors where the steps read along rows, are aligned.
  bool wide(const Buffers& buffers) const;
  // Blocks of these that fit the device at once, a multiple of `cluster`. Error(unsupported) when none does.
  int64_t resident_blocks(int threads, int shared_bytes, int cluster) const;

  // Asks for so many bytes of the workspace; where they begin in it.
  size_t reserve(int64_t bytes);
  // The same for blocks that compute parts of k: a counter for each of `blocks`, and `sums` numbers of 4
  // bytes.
  void reserve_parts(int64_t blocks, int64_t sums);

  struct Parts {
    unsigned* arrivals;
    float* sums;
  };
  Parts parts(char* workspace) const;
  // The caller's workspace, or memory of this kernel's own for that stream: runs on one stream follow each
  // other, so they can share it. The counters of parts are zero; kernels leave them so. Null where nothing
  // was reserved.
  char* workspace(const Buffers& buffers) const;

  std::shared_ptr<GpuDriver> driver_;
  std::shared_ptr<GpuModule> module_;
  GemmView view_;
  KernelConfig config_;

 private:
  double sum_error_ = 0;
  size_t workspace_bytes_ = 0, arrivals_bytes_ = 0;  // counters come first
  mutable std::mutex mutex_;
  mutable std::map<void*, void*> own_;  // by stream
};

}  // namespace tessera
