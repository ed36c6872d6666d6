// A Problem as groups x (m, n, k) with three operands. After this only operand loaders know which operation
// it was.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/dtype.h"
#include "tessera/epilogue.h"
#include "tessera/problem.h"

namespace tessera {

// One axis of images over which a filter moves. Position p and tap t meet at coordinate
// (p * step + t * spread + shift) / divide; where that is not a whole number in [0, size) they meet a zero.
struct WindowAxis {
  int64_t positions = 1, taps = 1;
  int64_t step = 1, spread = 1, shift = 0, divide = 1;
  int64_t size = 1;
  int64_t stride = 0;  // elements from one coordinate to the next
};

// A matrix of patches: row (image, position on each axis), column (tap on each axis, channel), the last index
// fastest. Neighbouring channels are neighbours in memory.
struct Window {
  std::array<WindowAxis, ConvShape::kAxes> axes;
  int64_t images = 1, channels = 1;
  int64_t image_stride = 0;  // elements

  int64_t taps() const { return axes[0].taps * axes[1].taps * axes[2].taps; }
  int64_t positions() const {
    return axes[0].positions * axes[1].positions * axes[2].positions;
  }  // of one image
  int64_t divisor() const { return axes[0].divide * axes[1].divide * axes[2].divide; }
};

// A matrix in memory. Element (i, j) of group g sits at i * row_stride + j * col_stride + g * group_stride
// elements; of a filter at offset(i, j); of patches where the view's window says, from g * group_stride on.
struct Operand {
  DType type = DType::f32;
  int64_t rows = 0, cols = 0;
  int64_t row_stride = 0, col_stride = 0;
  int64_t group_stride = 0;
  bool patches = false;  // GemmView::window says where its elements are; the row and column strides are those
                         // of the packed patches
  int64_t row_block = 0;  // > 0: rows come in blocks of this many, `block_stride` elements apart
  int64_t block_stride = 0;
  int64_t extent = 0;  // elements from the first to the last of all groups

  bool row_major() const { return col_stride == 1; }
  int64_t leading() const { return row_major() ? row_stride : col_stride; }
  // Elements along the unit-stride axis.
  int64_t contiguous() const { return row_major() ? cols : rows; }
  // Whether the two strides alone say where everything is.
  bool plain() const { return !patches && row_block == 0; }
  // Elements from the first to the last of so many groups, by the strides alone.
  int64_t reach(int64_t groups) const {
    if (rows == 0 || cols == 0) return 0;
    return (groups - 1) * group_stride + (rows - 1) * row_stride + (cols - 1) * col_stride + 1;
  }
};

// Where the D tensors that an epilogue reads lie: element (i, j) of group g of a full one, element j of a
// row. Columns (one element for each row of C) are shared by all groups.
struct DStrides {
  int64_t row = 0, group = 0;  // of full ones; their columns are neighbours
  int64_t row_group = 0;       // of rows: from one group's to the next, 0 where groups share one
};

// Rows of C in the order of another index: row (image, position on each axis) of a smaller grid. See
// strided_parts().
struct RowGrid {
  std::array<int64_t, ConvShape::kAxes> positions;    // of one image, in the smaller grid
  std::array<int64_t, ConvShape::kAxes> whole;        // the same of C
  std::array<int64_t, ConvShape::kAxes> first, step;  // the p-th position is C's first + p * step
  int64_t row(int64_t i) const;                       // of C
};

struct GemmView {
  int64_t groups = 1, m = 0, n = 0, k = 0;
  Operand a, b, c;         // m x k, k x n, m x n
  DType acc = DType::f32;  // accumulator
  DType d = DType::f32;    // D tensors
  DStrides d_strides;
  Layout layout = Layout::rcr;
  bool b_prepacked = false;
  Epilogue epilogue;
  std::optional<Window> window;   // of the operand that is patches
  std::optional<RowGrid> c_rows;  // instead of C's rows being those of the product
  // The caller's tensors have their channels first, the view's last: what runs it brings them into its order.
  bool channels_first = false;
  bool bias_grad = false;  // what runs it sums the rows of A too: Buffers::bias_grad
  double work = 0;         // multiply-adds that were asked for

  // Whether strides alone say where all three matrices are.
  bool plain() const { return a.plain() && b.plain() && !c_rows; }
  // Of k, what a row of C takes on average: the others of a divided window meet no coordinate.
  double depth() const {
    return static_cast<double>(k) / static_cast<double>(window ? window->divisor() : 1);
  }
  int64_t d_elements(Broadcast shape) const;  // of a D tensor of all groups
  double flops() const { return 2.0 * work; }
  // Least traffic with memory: each operand once, C written once, D tensors read once.
  double bytes() const;
  // Of fewer multiply-adds of a convolution waking another thread costs more than it saves. To write an
  // element of C takes as long as 32 of them.
  bool worth_threads() const {
    return !window || work + 32.0 * static_cast<double>(groups * m) * static_cast<double>(n) >= 1e6;
  }
  // The same where nothing is packed: of multiply-adds and bytes together.
  bool worth_threads_unpacked() const { return work / 16 + bytes() > 2e5; }
  // bytes() without the elements of patches that no position meets, which strides pass over.
  double bytes_met() const;
};

// `p` must be valid (Problem::parse or validate()).
GemmView lower(const Problem& p);

// The view as views without division, each with the rows of C and the taps whose positions leave one
// remainder: what they meet needs no dividing, and no product with a zero between coordinates is left. Itself
// where nothing is divided. Their rows together are C's; a view may have no taps, k = 0. B is the whole
// filter in all of them, `taps` says which of its taps they use.
struct StridedPart {
  GemmView view;
  std::vector<int64_t> taps;  // of B, in the part's order; empty: all
};
std::vector<StridedPart> strided_parts(const GemmView& view);

}  // namespace tessera
