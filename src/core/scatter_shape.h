// How cpu_scatter sees a convolution. Known to its rules, its source, its driver and its model alike.
#pragma once

#include <algorithm>
#include <array>

#include "core/gemm_view.h"
#include "tessera/kernel_config.h"

namespace tessera {

// Bytes of the sums of one thread: more is refused.
constexpr int64_t kMostScatterSums = int64_t{4} << 20;

// Coordinates are those of the operand that is walked, positions those of the result. Coordinate q and tap t
// meet at position q * divide + t * |spread| - shift along an axis.
struct ScatterShape {
  int outer = 0;        // the axis along which finished planes of sums leave, never the last
  int64_t run = 0;      // elements of C, neighbours, that neighbouring taps of a coordinate add to
  int64_t advance = 0;  // elements of C from what a coordinate adds to, to what the next one does
  int64_t runs = 0;     // of a coordinate
  int64_t columns = 0;  // of a product: taps times columns of C
  int64_t images = 0;
  int64_t coordinates = 0;    // of an image
  int64_t positions = 0;      // along `outer`
  int64_t planes = 0;         // of sums that coordinates of one place along `outer` add to
  int64_t plane_lines = 0;    // positions between `outer` and the last axis
  int64_t lead = 0;           // positions before the first of a line that a coordinate may meet
  int64_t line_floats = 0;    // of a line of sums, what lies beyond its ends with it
  int64_t product_bytes = 0;  // of the product of a coordinate: whole vectors
  bool flat = false;          // rows of C follow each other in memory and every element is treated alike
  int64_t sums_bytes() const { return planes * plane_lines * line_floats * 4; }
  // Parts of an image that threads take: few, since each repeats what its neighbour's coordinates give too.
  int64_t most_parts() const { return std::max<int64_t>(positions / (4 * planes), 1); }
};

// Whether this is a convolution that the family computes: see its rules.
bool scatter_window(const GemmView& v);

// `v` must fulfil scatter_window().
ScatterShape scatter_shape(const GemmView& v);

}  // namespace tessera
