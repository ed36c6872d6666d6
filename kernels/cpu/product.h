// A product of matrices whose sums stay as they are, for kernels that work on them further.
#pragma once

#include "cpu/packed.h"

namespace tsr {

// The config of such a product: rows of A hold words along k, B lies in panels.
template <class C>
struct BareProduct : C {
  static constexpr Type type_out = Type::f32;
  static constexpr int epilogue_count = 0;
  static constexpr int a_along_k = 1, a_table = 0, a_step = 4, b_step = 4 * C::tile_n;
};

}  // namespace tsr
