// What is multiplied to make an element of C, read as the operation is defined, one element at a time.
#pragma once

#include <cstdint>

#include "tune/operands.h"

namespace tessera {

class Factors {
 public:
  explicit Factors(const Operands& operands) : o_(operands), v_(operands.view()) {}

  // Row i of A and column j of B of one group: k numbers each, in the same order.
  void row(int64_t group, int64_t i, double* out) const;
  void column(int64_t group, int64_t j, double* out) const;

 private:
  const Operands& o_;
  const GemmView& v_;
};

}  // namespace tessera
