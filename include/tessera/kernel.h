// A loaded kernel, ready to run one problem on buffers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "tessera/epilogue.h"
#include "tessera/kernel_config.h"
#include "tessera/problem.h"

namespace tessera {

// Where a choice came from.
enum class ChoiceSource : int { tuned, model, explicit_config, first_legal, callback, measured };
std::string_view to_string(ChoiceSource s);

struct Choice {
  KernelConfig config;
  double predicted_us = 0;  // 0 when nothing predicted it
  ChoiceSource source = ChoiceSource::model;
};

// Device addresses of one run. A, B: the problem's operand types; C: its output type; d: one per epilogue
// step that takes a D tensor, in order, of the problem's d type. Full D tensors are packed row-major m x n
// per batch (leading dimension n, batch stride m * n); row and column vectors are shared by all batches. Of a
// convolution full ones are laid out as C, rows have an element for each channel of all groups, columns one
// for each pixel of C. C may not overlap any input. b is the packed buffer when the problem says prepack=b.
struct Buffers {
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  std::array<const void*, Epilogue::kMaxD> d{};
  std::optional<double> alpha{}, beta{};  // instead of the problem's; finite, within the range of f32
  void* stream = nullptr;                 // GPU: where run() enqueues (a CUstream); null: the default stream
  float* bias_grad = nullptr;  // of problems with bias_grad: g * k sums of A, by alpha and beta as C
  void* workspace = nullptr;   // at least workspace_bytes(), 64-byte aligned; null: the kernel brings its own
};

// Work that a device has recorded, to be done again and again.
class Recording {
 public:
  virtual ~Recording() = default;
  virtual double replay() = 0;  // waits; microseconds by the device's own clock
};

// Memory that the kernels of one device can use.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  virtual void* allocate(size_t bytes) = 0;  // 256-byte aligned. Error(device) when there is not enough
  virtual void release(void* memory) noexcept = 0;
  // All wait until the bytes are there.
  virtual void upload(void* to, const void* from, size_t bytes) = 0;
  virtual void download(void* to, const void* from, size_t bytes) = 0;
  virtual void copy(void* to, const void* from, size_t bytes) = 0;  // both on the device
  virtual void fill(void* to, unsigned char byte, size_t bytes) = 0;

  // Records what enqueue(0), ..., enqueue(count - 1) put on `stream`. Before that enqueue(0) is run once, so
  // that whatever a first run sets up is there.
  using Enqueue = std::function<void(int i, void* stream)>;
  virtual std::unique_ptr<Recording> record(int count, const Enqueue& enqueue) = 0;
};

class Kernel {
 public:
  virtual ~Kernel() = default;

  const Problem& problem() const { return problem_; }
  const Choice& choice() const { return choice_; }

  // Runs to completion (CPU) or enqueues (GPU). Thread-safe: any number of calls at once on distinct outputs.
  // Error(bad_input) before anything is written when a needed buffer is null, misaligned for its element
  // type, or C overlaps an input. Error(device) when there is not enough memory, and in a child of fork()
  // whose parent had run kernels on several threads: the child has none of them.
  virtual void run(const Buffers& buffers) const = 0;

  // run() without the checks, for a caller that validated its buffers once (null, alignment, overlap are
  // undefined).
  virtual void run_unchecked(const Buffers& buffers) const = 0;

  // Until everything enqueued on the device is done; Error(device) when some of it failed. A CPU has nothing
  // to wait for.
  virtual void wait() const {}

  // How much of the largest number it is added to a product may lose: 0 but where the hardware keeps fewer
  // bits than f32, which it may in runs of at most 128 products.
  virtual double sum_error() const { return 0; }

  // Where buffers must lie; null: the host's memory.
  virtual DeviceMemory* memory() const { return nullptr; }

  virtual size_t workspace_bytes() const = 0;

  // For problems with prepack=b: bytes of packed B (all batches), and the packing itself. What is packed
  // serves kernels of the same configuration whose problems differ in m (of convolutions n), the epilogue,
  // alpha and beta at most; in host memory a mark behind it says so, and run() refuses what lacks it. `ldb`
  // is B's own leading dimension in elements (Problem::kPacked: tight), batches are ldb * (rows or columns)
  // apart. Error(bad_input) before anything is written when `b` or `packed` is null, `b` is misaligned for
  // its elements or `packed` for 4 bytes, or they overlap; Error(unsupported) without prepack=b.
  size_t packed_b_bytes() const;
  void pack_b(const void* b, void* packed, int64_t ldb = Problem::kPacked) const;

  // The same without the mark, and without the checks of addresses: for run_unchecked().
  virtual size_t panels_bytes() const = 0;
  virtual void pack_b_unchecked(const void* b, void* packed, int64_t ldb) const = 0;

 protected:
  Kernel(const Problem& problem, const Choice& choice);
  Problem problem_;
  Choice choice_;
  uint64_t packed_readers_;  // what the mark behind a packed B says; 0: B is not packed
};

}  // namespace tessera
