// A Problem is what the caller wants computed. It knows nothing of hardware.
//
// clang-format off
//   gemm             C[b] = epilogue(alpha * A[b] B[b] + beta * C[b]); A: m x k, B: k x n, C: m x n row-major, b < batch
//   conv_fwd         C = epilogue(alpha * conv(A, B) + beta * C); A: the input, B: the filter, C: the output
//   conv_bwd_data    the gradient of the input; A: that of the output, B: the filter, C: that of the input
//   conv_bwd_weight  the gradient of the filter; A: that of the output, B: the input, C: that of the filter
// clang-format on
//
// Convolutions are grouped, 1- to 3-dimensional, and "conv" is the correlation of neural networks: no filter
// is flipped. Layouts: N(spatial)GC, GK(filter)C, N(spatial)GK (channels_last), or NGC(spatial),
// GKC(filter), NGK(spatial) (channels_first).
//
// Its text form is the CLI argument, log field, database key and test line alike; parsing its own print is
// the identity. Grammar: docs/text_form.md.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/dtype.h"
#include "tessera/epilogue.h"

namespace tessera {

enum class Op : uint8_t { gemm, conv_fwd, conv_bwd_data, conv_bwd_weight };
inline constexpr int kOpCount = 4;

// Order of A, B, C: r row-major, c column-major. C is always row-major. Of a convolution, where its channels
// are.
enum class Layout : uint8_t { rcr, rrr, crr, ccr, channels_last, channels_first };
inline constexpr int kLayoutCount = 6;

// Sizes of a convolution, those of the forward pass in every direction. Spatial axes are the last `dims` of
// three, outermost first; the others have extent, filter, stride and dilation 1.
struct ConvShape {
  static constexpr int kAxes = 3;
  using Axes = std::array<int64_t, kAxes>;

  int dims = 0;          // 1 to 3
  int64_t n = 1, g = 1;  // images, groups
  int64_t c = 0, k = 0;  // input and output channels, per group
  Axes in = {1, 1, 1}, filter = {1, 1, 1};
  Axes stride = {1, 1, 1}, dilation = {1, 1, 1};
  Axes pad_lo = {}, pad_hi = {};  // zeros before and after the input

  // Positions of the filter along an axis. The shape must be valid.
  int64_t out(int axis) const {
    const auto i = static_cast<size_t>(axis);
    return (in[i] + pad_lo[i] + pad_hi[i] - (filter[i] - 1) * dilation[i] - 1) / stride[i] + 1;
  }
  bool operator==(const ConvShape& o) const {  // without a branch or call: every look-up compares
    const auto apart = [](const Axes& x, const Axes& y) {
      return (x[0] ^ y[0]) | (x[1] ^ y[1]) | (x[2] ^ y[2]);
    };
    return ((dims ^ o.dims) | (n ^ o.n) | (g ^ o.g) | (c ^ o.c) | (k ^ o.k) | apart(in, o.in) |
            apart(filter, o.filter) | apart(stride, o.stride) | apart(dilation, o.dilation) |
            apart(pad_lo, o.pad_lo) | apart(pad_hi, o.pad_hi)) == 0;
  }
};
static_assert(sizeof(ConvShape) == (5 + 6 * ConvShape::kAxes) * sizeof(int64_t), "compare new members too");

struct Problem {
  static constexpr int64_t kPacked = -1;  // stride or leading dimension: as tight as the sizes allow

  Op op = Op::gemm;
  DType a = DType::bf16, b = DType::bf16;
  DType out = DType::bf16;  // C
  DType d = DType::bf16;    // D tensors and bias
  Layout layout = Layout::rcr;
  bool prepack_b =
      false;  // B is passed in the chosen kernel's own order (Kernel::pack_b), as weights reused often
  bool bias_grad = false;  // conv_bwd_weight: Buffers::bias_grad is written too
  int64_t m = 0, n = 0, k = 0;
  int64_t batch = 1;
  int64_t lda = kPacked, ldb = kPacked, ldc = kPacked;  // elements
  int64_t stride_a = kPacked, stride_b = kPacked,
          stride_c = kPacked;  // elements between batches; a, b may be 0
  double alpha = 1, beta = 0;  // defaults of a run, within the range of f32; kernels do not depend on them
  Epilogue epilogue;
  ConvShape conv;  // instead of the sizes and strides above

  // Throws Error(bad_input) with the reason: unknown words, missing or bad sizes, impossible strides,
  // overflow.
  static Problem parse(std::string_view text);

  // Checks what parse() checks beyond syntax, and does simplify_strides().
  void validate();
  // Makes strides that merely repeat the packed value kPacked. Checks nothing, and takes any values.
  void simplify_strides() noexcept;

  // Leading dimensions and batch strides with kPacked resolved.
  int64_t ld_a() const;
  int64_t ld_b() const;
  int64_t ld_c() const;
  int64_t batch_stride_a() const;
  int64_t batch_stride_b() const;
  int64_t batch_stride_c() const;

  bool operator==(const Problem&) const = default;
};

std::string to_string(const Problem& p);  // a description where a member's value has no name
uint64_t hash(const Problem& p);          // allocation-free
std::string_view to_string(Layout layout);
std::string_view to_string(Op op);
Op parse_op(std::string_view word);  // Error(bad_input) with the known names
bool is_op(std::string_view word);   // whether a problem's text starts with it
std::string layout_names();          // of every operation
std::string layout_names(Op op);     // those the operation has: "rcr rrr crr ccr"
std::vector<std::string>
problem_words();  // what a problem's text is made of: operations, and keys with their '='
// The value of dtype=: "bf16", "u8xi8".
std::string types_text(DType a, DType b);
std::string types_text(const Problem& p);

inline bool is_conv(Op op) { return op != Op::gemm; }
inline bool is_conv(Layout l) { return l == Layout::channels_last || l == Layout::channels_first; }
inline bool a_is_row_major(Layout l) { return l == Layout::rcr || l == Layout::rrr; }
inline bool b_is_row_major(Layout l) { return l == Layout::rrr || l == Layout::crr; }

}  // namespace tessera
