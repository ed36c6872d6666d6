// Which problems there are: sizes, strides and types that make sense together, and whose products fit 64
// bits.
#include <array>

#include "core/bad_value.h"
#include "core/factor.h"
#include "core/known_words.h"
#include "core/tile_math.h"
#include "tessera/error.h"
#include "tessera/problem.h"

namespace tessera {
namespace {

int64_t checked_product(int64_t x, int64_t y, std::string_view what) {
  int64_t out;
  if (__builtin_mul_overflow(x, y, &out) || out > (int64_t{1} << 60)) {
    bad_value("the extent of " + std::string(what) + " overflows 64-bit offsets",
              "use smaller sizes or strides");
  }
  return out;
}

int64_t checked_sum(std::initializer_list<int64_t> terms, std::string_view what) {
  int64_t sum = 0;
  for (int64_t term : terms) sum += checked_product(term, 1, what);  // a few, each far below 2^63
  return sum;
}

// What parse_epilogue ensures of a text, for an epilogue that was put together by hand.
void check_epilogue(const Epilogue& e) {
  if (e.empty()) return;
  std::string why;
  if (!parse_epilogue(to_string(e), &why)) bad_value(why);
}

// One operand of a GEMM: `rows` runs of `run` contiguous elements, `ld` apart, `stride` between batches.
struct Matrix {
  char name;
  int64_t rows, run;
  int64_t Problem::*ld, Problem::*stride;
  DType type;
};
std::array<Matrix, 3> matrices_of(const Problem& p) {
  const bool a_rows = a_is_row_major(p.layout), b_rows = b_is_row_major(p.layout);
  return {{{'a', a_rows ? p.m : p.k, a_rows ? p.k : p.m, &Problem::lda, &Problem::stride_a, p.a},
           {'b', b_rows ? p.k : p.n, b_rows ? p.n : p.k, &Problem::ldb, &Problem::stride_b, p.b},
           {'c', p.m, p.n, &Problem::ldc, &Problem::stride_c, p.out}}};
}

void check_operand(const Problem& p, const Matrix& matrix) {
  const auto [name, rows, run, ld_of, stride_of, type] = matrix;
  const int64_t ld = p.*ld_of, stride = p.*stride_of, batch = p.batch;
  std::string key(1, name);
  if (ld != Problem::kPacked && ld < run) {
    bad_value("ld" + key + "=" + std::to_string(ld) + " is less than the " + std::to_string(run) +
                  " contiguous elements of a row or column of " +
                  std::string(1, static_cast<char>(name - 32)),
              "give at least " + std::to_string(run) + " or leave it out");
  }
  const int64_t leading = ld == Problem::kPacked ? run : ld;
  const int64_t one = rows == 0 || run == 0 ? 0 : checked_product(rows - 1, leading, key) + run;
  const int64_t packed = checked_product(rows, leading, key);
  if (stride != Problem::kPacked && stride < 0) bad_value("stride_" + key + " is negative");
  const int64_t step = stride == Problem::kPacked ? packed : stride;
  if (name == 'c' && batch > 1) {
    const bool apart = step >= one;
    const bool interleaved = step >= run && checked_product(batch, step, key) <= leading;
    if (!apart && !interleaved) {
      bad_value("stride_" + key + "=" + std::to_string(step) +
                " makes the outputs of different batches overlap");
    }
  }
  checked_product(checked_product(batch - 1, step, key) + one, bytes_of(type), key);
}

void at_least(std::string_view name, int64_t v, int64_t low) {
  if (v < low)
    bad_value(std::string(name) + "=" + std::to_string(v) + " must be at least " + std::to_string(low));
}

void check_gemm(const Problem& p) {
  at_least("m", p.m, 1);
  at_least("n", p.n, 1);
  at_least("k", p.k, 0);
  at_least("batch", p.batch, 1);
  if (is_conv(p.layout)) bad_value("layout " + std::string(to_string(p.layout)) + " is of convolutions");
  if (p.conv != ConvShape{} || p.bias_grad) bad_value("a GEMM has no sizes and outputs of a convolution");
  for (const Matrix& matrix : matrices_of(p)) check_operand(p, matrix);
  checked_product(checked_product(p.m, p.n, "the work"), p.k + 1, "the work");
  if (p.prepack_b && (p.ldb != Problem::kPacked || (p.stride_b != Problem::kPacked && p.stride_b != 0))) {
    bad_value("prepack=b describes B after packing",
              "leave ldb and stride_b out; Kernel::pack_b takes B's own stride");
  }
}

constexpr std::string_view kAxisNames[] = {"depth", "height", "width"};

// Along one axis; `used` ones are those of the convolution's dimensions.
void check_axis(const ConvShape& c, size_t i, bool used) {
  const std::string of = " along the " + std::string(kAxisNames[i]);
  for (auto [name, value] : {std::pair{"in", c.in[i]},
                             {"filter", c.filter[i]},
                             {"stride", c.stride[i]},
                             {"dilation", c.dilation[i]}}) {
    if (value < 1)
      bad_value(std::string(name) + " is " + std::to_string(value) + of + ", it must be at least 1");
    if (!used && value != 1)
      bad_value(std::string(name) + " is " + std::to_string(value) + of + ", which is no axis of it");
  }
  for (int64_t pad : {c.pad_lo[i], c.pad_hi[i]}) {
    if (pad < 0) bad_value("pad is " + std::to_string(pad) + of + ", it must not be negative");
    if (!used && pad != 0) bad_value("pad is " + std::to_string(pad) + of + ", which is no axis of it");
  }
  const int64_t padded = checked_sum({c.in[i], c.pad_lo[i], c.pad_hi[i]}, "the padded input");
  const int64_t reach = checked_product(c.filter[i] - 1, c.dilation[i], "the filter") + 1;
  if (reach > padded) {
    bad_value("the filter covers " + std::to_string(reach) + of + " and the padded input has " +
                  std::to_string(padded) + ": there is no output",
              "a smaller filter or dilation, or more padding");
  }
}

void check_conv(const Problem& p) {
  const ConvShape& c = p.conv;
  at_least("n", c.n, 1);
  at_least("g", c.g, 1);
  at_least("c", c.c, 1);
  at_least("k", c.k, 1);
  if (c.dims < 1 || c.dims > ConvShape::kAxes) bad_value(std::to_string(c.dims) + " spatial axes", "1 to 3");
  for (int i = 0; i < ConvShape::kAxes; ++i)
    check_axis(c, static_cast<size_t>(i), i >= ConvShape::kAxes - c.dims);
  if (!is_conv(p.layout)) bad_value("layout " + std::string(to_string(p.layout)) + " is of GEMMs");
  const Problem none;
  if (p.m || p.n || p.k || p.batch != 1 || p.lda != none.lda || p.ldb != none.ldb || p.ldc != none.ldc ||
      p.stride_a != none.stride_a || p.stride_b != none.stride_b || p.stride_c != none.stride_c) {
    bad_value("a convolution has no sizes and strides of a GEMM");
  }
  if (!info(p.a).is_float && p.op != Op::conv_fwd) {
    bad_value("integer operands in " + std::string(to_string(p.op)), "integers are for conv_fwd");
  }
  if (p.bias_grad && p.op != Op::conv_bwd_weight) {
    bad_value("bias_grad in " + std::string(to_string(p.op)), "it is an output of conv_bwd_weight");
  }
  if (p.bias_grad && bytes_of(p.a) == 1)
    bad_value("bias_grad of " + types_text(p), "it is of f32, f16 and bf16");
  if (p.op == Op::conv_bwd_weight) {
    if (p.prepack_b) bad_value("prepack=b in conv_bwd_weight, whose B is the input", "it is for filters");
    if (!p.epilogue.empty()) bad_value("conv_bwd_weight takes no epilogue", "alpha and beta are all it has");
    if (p.layout == Layout::channels_first && bytes_of(p.out) == 1) {
      bad_value("out=" + std::string(to_string(p.out)) + " of conv_bwd_weight with layout=channels_first",
                "out=f32, f16 or bf16");
    }
  }
  int64_t images = c.n, outputs = c.n, taps = 1;
  for (int i = 0; i < ConvShape::kAxes; ++i) {
    const auto axis = static_cast<size_t>(i);
    images = checked_product(images, c.in[axis], "the input");
    outputs = checked_product(outputs, c.out(i), "the output");
    taps = checked_product(taps, c.filter[axis], "the filter");
  }
  const int64_t in_channels = checked_product(c.g, c.c, "the input"),
                out_channels = checked_product(c.g, c.k, "the output");
  constexpr int64_t kLargest = 8;  // bytes of an element, at least
  checked_product(checked_product(images, in_channels, "the input"), kLargest, "the input");
  checked_product(checked_product(outputs, out_channels, "the output"), kLargest, "the output");
  const int64_t filter =
      checked_product(checked_product(taps, c.c, "the filter"), out_channels, "the filter");
  checked_product(filter, kLargest, "the filter");
  checked_product(filter, std::max(images, outputs), "the work");
}

}  // namespace

void Problem::simplify_strides() noexcept {
  if (is_conv(op)) return;
  for (const Matrix& matrix : matrices_of(*this)) {
    int64_t &ld = this->*matrix.ld, &stride = this->*matrix.stride, packed = 0;
    if (ld == matrix.run) ld = kPacked;
    const bool repeats =
        !__builtin_mul_overflow(matrix.rows, ld == kPacked ? matrix.run : ld, &packed) && stride == packed;
    if (repeats || (batch == 1 && stride >= 0)) stride = kPacked;
  }
}

void Problem::validate() {
  if (const std::string why = unknown_word(*this); !why.empty()) bad_value(why);
  for (auto [name, value] : {std::pair{"alpha", alpha}, {"beta", beta}}) {
    if (!is_finite_f32(value)) bad_value(std::string(name) + " is no finite number within the range of f32");
  }
  check_epilogue(epilogue);
  for (DType t : {a, b}) {
    if (!info(t).operand) bad_value("dtype " + std::string(to_string(t)) + " cannot be an operand");
  }
  if (info(a).is_float != info(b).is_float) bad_value("A and B mix a floating and an integer type");
  if (a != b && info(a).is_float && (bytes_of(a) != 1 || bytes_of(b) != 1)) {
    bad_value("mixed types " + types_text(*this) + " are not supported", "f8e4m3 with f8e5m2, or u8 with i8");
  }
  if (b == DType::u8) bad_value("B cannot be u8", "u8 is for A: dtype=u8xi8");
  if (info(a).is_float && !info(out).is_float) bad_value("floating operands with an integer output");
  if (!info(a).is_float && out != DType::i32 && out != DType::i8 && out != DType::u8 && out != DType::f32) {
    bad_value("integer operands give i32, f32, i8 or u8, not " + std::string(to_string(out)));
  }
  if (d == DType::u8 || d == DType::i8) bad_value("D tensors cannot be 8-bit integers", "use d=f32 or d=i32");
  if (out == DType::i32 && (d != DType::f32 && d != DType::i32)) bad_value("with out=i32, d is f32 or i32");
  if (info(out).is_float && d == DType::i32) bad_value("a floating output takes floating D tensors");
  simplify_strides();
  is_conv(op) ? check_conv(*this) : check_gemm(*this);
}

}  // namespace tessera
