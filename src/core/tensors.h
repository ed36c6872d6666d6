// The buffers of a problem as its caller sees them: what a, b, c and the D tensors are made of.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/json.h"
#include "tessera/problem.h"

namespace tessera {

struct Tensor {
  std::string name;  // "a", "b", "c", "d0", ...; "bias_grad"
  DType type = DType::f32;
  std::vector<int64_t> shape,
      strides;        // elements, slowest axis first; the batch axis only where there is one
  int64_t bytes = 0;  // from the first element to the end of the last
  bool written = false;
  bool packed = false;  // passed in the kernel's own order, whose size Kernel::packed_b_bytes() gives
  std::string step{};   // of a D tensor: the epilogue step that reads it
};

// In the order of Buffers. `p` must be valid.
std::vector<Tensor> tensors(const Problem& p);

Json to_json(const Tensor& t);

}  // namespace tessera
