// Operands of one product on the device, many times over.
#pragma once

#include <array>
#include <vector>

#include "core/gemm_view.h"
#include "cuda_graphs.h"
#include "tessera/kernel.h"

namespace tessera {

// Bytes of A, B and C as a set holds them.
std::array<int64_t, 3> bytes_of_set(const GemmView& v);

// So many sets of the same random A and B that together they are beyond the L2 cache, each with a C, and one
// C more.
class BufferSets {
 public:
  explicit BufferSets(const GemmView& v);
  BufferSets(const BufferSets&) = delete;
  ~BufferSets();

  int count() const { return static_cast<int>(sets_.size()); }
  const Buffers& operator[](int i) const { return sets_[static_cast<size_t>(i)]; }
  // The first set with the further C.
  const Buffers& reference() const { return reference_; }

  // Fills the first set's C with NaN, or -1 in integers.
  void poison() const;
  // The first set's C to the reference's.
  void keep() const;
  // ||c - reference|| / ||reference|| over the first set's C, its first most_bytes at most.
  double difference(size_t most_bytes) const;

 private:
  DType type_;
  size_t elements_;
  std::array<int64_t, 3> bytes_;
  CUdeviceptr pool_ = 0;
  std::vector<Buffers> sets_;
  Buffers reference_;
};

}  // namespace tessera
