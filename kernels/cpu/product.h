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

// The config of a product of floats that were made of operands of other types.
template <class C>
struct FloatOperands : C {
  static constexpr Type type_a = Type::f32, type_b = Type::f32;
};

// Rows of A times one panel of B after another.
template <class C>
struct BareProducts {
  using P = Packed<BareProduct<C>>;
  EpilogueArgs sums_as_they_are{};
  PackedArgs args{};

  TSR_INLINE BareProducts(long long rows, long long row_bytes, long long steps, long long sums_row_bytes) {
    sums_as_they_are.c_stride = sums_row_bytes / 4;
    sums_as_they_are.alpha = 1;
    sums_as_they_are.plain = 1;
    args.a_row_bytes = row_bytes;
    args.a_step_bytes = 4;
    args.b_step_bytes = C::tile_n * 4;
    args.rows = rows;
    args.steps = steps;
    args.first = args.last = 1;
    args.epilogue = &sums_as_they_are;
    args.next_b_bytes = panel_bytes(steps);
  }
  BareProducts(const BareProducts&) = delete;  // args points into it

  static TSR_INLINE long long panel_bytes(long long steps) { return steps * C::tile_n * 4; }

  // The first `cols` columns of a panel, rounded up to what instructions compute. `next`, if any, is the
  // panel to ask for.
  TSR_INLINE void multiply(const char* a, const char* panel, const char* next, long long cols, char* sums) {
    args.a = a;
    args.b = panel;
    args.next_b = next;
    args.cols = P::whole_columns(cols);
    sums_as_they_are.c = sums;
    P::template dispatch<P::kVectors>(args);
  }
};

}  // namespace tsr
