// One CUDA device: its primary context, memory, modules and launches.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "backend/cuda/libcuda.h"
#include "backend/gpu/gpu_driver.h"
#include "cuda/abi.h"

namespace tessera::cuda {

// Two boxes of a tensor: what one TMA instruction copies.
struct BoxedTensor {
  MapType type = MapType::bf16;
  int element = 2;
  uint64_t inner = 0, outer = 0, groups = 1;
  uint64_t outer_stride = 0, group_stride = 0;  // elements
  uint32_t box_inner = 0, box_outer = 0;        // the inner extent in bytes is the swizzle
};

class CudaDriver : public GpuDriver, public std::enable_shared_from_this<CudaDriver> {
 public:
  // Error(bad_input) when there are fewer devices, Error(unsupported) when there is no driver.
  explicit CudaDriver(int ordinal);
  ~CudaDriver() override;

  void* allocate(size_t bytes) override;
  void release(void* memory) noexcept override;
  void upload(void* to, const void* from, size_t bytes) override;
  void download(void* to, const void* from, size_t bytes) override;
  void copy(void* to, const void* from, size_t bytes) override;
  void fill(void* to, unsigned char byte, size_t bytes) override;
  std::unique_ptr<Recording> record(int count, const Enqueue& enqueue) override;
  std::shared_ptr<GpuModule> load(const Binary& binary) override;
  void allow_shared(const GpuModule& module, int bytes) override;
  int resident_blocks(const GpuModule& module, int threads, int shared_bytes, int cluster) override;
  void launch(const GpuLaunch& launch, void* params) override;
  void zero(void* memory, size_t bytes, void* stream) override;
  void wait() override;
  void require_own(const void* memory, const char* name) const override;

  int attribute(int id) const;
  std::string name() const;
  // Error(bad_input) when the driver refuses (alignment, sizes), with `what` named.
  tsr::TensorMap encode(const BoxedTensor& t, const void* address, const char* what) const;

 private:
  friend class CudaModule;
  friend class CudaRecording;
  class Current;  // makes the context current for a scope

  [[noreturn]] void fail(Result r, const std::string& doing) const;
  void check(Result r, const char* doing) const {
    if (r) fail(r, doing);
  }

  const LibCuda& cu_;
  int ordinal_;
  Device device_ = 0;
  Context* context_ = nullptr;
  bool reads_host_ = false;  // memory of the host that CUDA knows nothing of
  std::mutex recording_;     // one at a time: they share what follows, made by the first
  Stream* stream_ = nullptr;
  Event *before_ = nullptr, *after_ = nullptr;
};

}  // namespace tessera::cuda
