// The buffers of one problem, filled with data that depends on a seed alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/gemm_view.h"
#include "tessera/kernel.h"
#include "tessera/problem.h"
#include "tune/guarded_buffer.h"

namespace tessera {

enum class FillKind : int {
  uniform,  // floats in [-1, 1), 8-bit integers over their whole range
  integers  // floats that are integers in [-4, 4], so that sums are exact; 8-bit integers over their whole
            // range
};

// A[i], B[i], D[i] and, where the problem has beta != 0, C[i] at any index, without the memory.
double fill_value(DType t, FillKind kind, uint64_t seed, int64_t index);
void fill(DType t, FillKind kind, uint64_t seed, void* out, int64_t count);

// Device memory of one kernel's, freed at the end. What is added lies between bands of known bytes.
class DeviceCopies {
 public:
  DeviceCopies() = default;
  DeviceCopies(DeviceCopies&& other) noexcept { *this = std::move(other); }
  DeviceCopies& operator=(DeviceCopies&& other) noexcept;
  ~DeviceCopies() { clear(); }

  DeviceMemory* memory() const { return memory_; }
  void use(DeviceMemory* memory);  // frees what is there
  void* allocate(size_t bytes);    // without bands
  void* add(const GuardedBuffer& host);
  // What add() put at `to` once more.
  void renew(void* to, const GuardedBuffer& host);
  void renew(void* to, unsigned char byte, size_t bytes);
  // The bytes of the `index`-th buffer into `host`; "" or which band was written.
  std::string fetch(size_t index, const GuardedBuffer& host) const;
  // "" or which band of the `index`-th buffer, of so many bytes, was written.
  std::string damage(size_t index, size_t bytes) const;

 private:
  void clear() noexcept;
  void guard(void* data, size_t bytes);  // the bands on both sides of it
  DeviceMemory* memory_ = nullptr;
  std::vector<void*> blocks_;
};

class Operands {
 public:
  // For measurements: a masked load that reaches into the inaccessible page behind a buffer is right but
  // slow, so ends stay away from it.
  static constexpr size_t kTimingAlign = 1024;

  // `align`: of every buffer's start, at least the element size. Inputs are read-only once filled.
  Operands(const Problem& problem, FillKind kind, uint64_t seed = 1, size_t align = 64);

  const Problem& problem() const { return problem_; }
  const GemmView& view() const { return view_; }
  FillKind kind() const { return kind_; }

  const void* a() const { return a_.data(); }
  const void* b() const { return b_.data(); }  // never packed
  void* c() const { return c_.data(); }
  const void* d(int i) const { return d_[static_cast<size_t>(i)].data(); }
  // Element (i, j) of group g of C as the view counts them: its index in c(), and in a full D tensor.
  int64_t c_index(int64_t g, int64_t i, int64_t j) const;
  const float* bias_grad() const { return reinterpret_cast<const float*>(bias_grad_.data()); }
  double bias_grad_before(int64_t index) const;  // as c_before
  double c_before(int64_t index) const;          // what reset_c() puts there; C's elements only

  // C poisoned; with its values before the run where the problem has beta != 0.
  void reset_c();

  // What a run of `kernel` takes: B is packed for it when the problem says so, into memory held here until
  // the next call. On a device they are where they were at the last call, packed B of the first kernel's
  // packing too (all kernels of a problem take it there), and C is as reset_c() or the last run left it.
  Buffers bind(const Kernel& kernel);

  // bind(), and on a device copies of the operands for runs in turn: as many as are beyond its caches, and
  // kMostSets at most. C's values are not copied.
  std::vector<Buffers> bind_sets(const Kernel& kernel);
  static constexpr size_t kMostSets = 48;

  // What the run left in the buffers of bind(): brought back where the kernel's memory is not the host's.
  // Waits.
  void fetch(const Kernel& kernel);

  // "" while nothing but C's elements was written since reset_c(), else what was.
  std::string damage() const;

 private:
  void pack_on_device(const Kernel& kernel);
  Problem problem_;
  GemmView view_;
  FillKind kind_;
  uint64_t seed_;
  GuardedBuffer a_, b_, c_, packed_b_, bias_grad_;
  std::string device_damage_;
  std::vector<GuardedBuffer> d_;
  DeviceCopies device_, packed_on_device_, sets_;
  Buffers on_device_;
  size_t b_bytes_ = 0;     // of on_device_.b
  bool c_is_new_ = false;  // reset since it was brought to the device
};

}  // namespace tessera
