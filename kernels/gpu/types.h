// The instructions of GPUs that the prelude of a generated unit names, as in arch/. In memory a type is its
// bits, in registers a float (or an int of i8 products).
#pragma once

#include "common/types.h"

namespace tsr {

enum class Inst : int { wgmma, mma, fma, dp4a, mfma, wmma };

template <int kBytes>
struct BitsOf;
template <>
struct BitsOf<1> {
  typedef unsigned char type;
};
template <>
struct BitsOf<2> {
  typedef unsigned short type;
};
template <>
struct BitsOf<4> {
  typedef unsigned int type;
};
template <Type kType>
using Bits = typename BitsOf<bytes_of(kType)>::type;

}  // namespace tsr
