// What the GPU backends need of a driver library; one object a device.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "backend/backend.h"
#include "tessera/kernel.h"

namespace tessera {

// A loaded code object and its kernel.
class GpuModule : public Module {
 public:
  virtual void* function() const = 0;
  // Another entry of the unit, named by what follows the kernel's own name. Error(corrupt) when it is
  // missing.
  virtual void* function(const std::string& suffix) const = 0;
};

struct GpuLaunch {
  void* function = nullptr;
  unsigned grid = 1, block = 1;
  unsigned shared_bytes = 0;
  void* stream = nullptr;
  bool overlap =
      false;  // may start while the kernel before it on the stream drains: the kernel itself waits for it
};

// Every call may come from any thread and leaves the thread's current context as it was. Failures are
// Error(device) that name the device and what to do.
class GpuDriver : public DeviceMemory {
 public:
  virtual std::shared_ptr<GpuModule> load(const Binary& binary) = 0;  // Error(corrupt)
  virtual void allow_shared(const GpuModule& module, int bytes) = 0;  // dynamic shared memory of one block
  // Blocks of `cluster` at a time that run at once when nothing else does.
  virtual int resident_blocks(const GpuModule& module, int threads, int shared_bytes, int cluster) = 0;
  // `params`: the kernel's one argument. Neither allocates nor waits, so that it can be captured in a graph.
  virtual void launch(const GpuLaunch& launch, void* params) = 0;
  virtual void zero(void* memory, size_t bytes, void* stream) = 0;  // enqueues
  virtual void wait() = 0;                                          // for the whole device
  // Error(bad_input) for memory that kernels of this device cannot read: another device's, or the host's own.
  // `name` is the buffer's. Neither allocates nor waits.
  virtual void require_own(const void* memory, const char* name) const = 0;
};

}  // namespace tessera
