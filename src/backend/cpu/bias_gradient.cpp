#include "backend/cpu/bias_gradient.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "backend/cpu/arena.h"
#include "backend/cpu/deal_out.h"
#include "core/gemm_view.h"
#include "core/tile_math.h"
#include "tessera/error.h"

namespace tessera {
namespace {

// 16-bit types, converted without a branch: loops over them are vectorised.
struct Half {
  uint16_t bits;
};
struct BFloat {
  uint16_t bits;
};
float to_float(float v) { return v; }
float to_float(BFloat v) { return std::bit_cast<float>(uint32_t{v.bits} << 16); }
float to_float(Half v) {
  const uint32_t sign = (v.bits & 0x8000u) << 16, magnitude = (v.bits & 0x7fffu) << 13;
  const uint32_t special = magnitude >= 0x0f800000u ? 0x7f800000u : 0;  // infinite or NaN
  const float scaled =
      std::bit_cast<float>(magnitude) * 0x1p112f;  // from one bias of the exponent to the other
  return std::bit_cast<float>(sign | special | std::bit_cast<uint32_t>(scaled));
}

// Terms that are summed in f32 before they go into a double: as many as rounding errors of f32 leave alone.
constexpr int64_t kTerms = 16;
// Channels at a time, whose sums stay in the first-level cache.
constexpr int64_t kChannels = 1024;
constexpr int64_t kElementsWorthThreads = 1 << 16;  // elements

// sums[j] += the sum of rows [0, rows) of column j.
template <class T>
void add_columns(const T* from, int64_t rows, int64_t row_step, int64_t cols, double* sums) {
  float few[kChannels];
  for (int64_t col = 0; col < cols; col += kChannels) {
    const int64_t width = std::min(kChannels, cols - col);
    for (int64_t row = 0; row < rows; row += kTerms) {
      std::fill_n(few, width, 0.0f);
      for (int64_t r = row; r < std::min(row + kTerms, rows); ++r) {
        const T* line = from + r * row_step + col;
        for (int64_t j = 0; j < width; ++j) few[j] += to_float(line[j]);
      }
      for (int64_t j = 0; j < width; ++j) sums[col + j] += static_cast<double>(few[j]);
    }
  }
}

// The sum of a row, in as many partial sums as vectors have lanes.
template <class T>
double sum_of(const T* from, int64_t count) {
  constexpr int64_t kLanes = 32;
  double sum = 0;
  for (int64_t i = 0; i < count; i += kLanes * kTerms) {
    float few[kLanes] = {};
    const int64_t end = std::min(i + kLanes * kTerms, count), whole = i + (end - i) / kLanes * kLanes;
    for (int64_t j = i; j < whole; j += kLanes) {
      for (int64_t lane = 0; lane < kLanes; ++lane) few[lane] += to_float(from[j + lane]);
    }
    for (int64_t j = whole; j < end; ++j) few[j - whole] += to_float(from[j]);
    for (float f : few) sum += static_cast<double>(f);
  }
  return sum;
}

class BiasGradient : public Kernel {
 public:
  BiasGradient(const Problem& problem, int threads, std::unique_ptr<Kernel> kernel)
      : Kernel(problem, kernel->choice()), kernel_(std::move(kernel)) {
    const ConvShape& s = problem.conv;
    channels_ = s.g * s.k;
    for (int i = 0; i < ConvShape::kAxes; ++i) pixels_ *= s.out(i);
    const int64_t elements = s.n * pixels_ * channels_;
    threads_ =
        elements < kElementsWorthThreads ? 1 : static_cast<int>(std::min<int64_t>(threads, s.n * pixels_));
  }

  void run(const Buffers& buffers) const override {
    const auto bytes = [](const void* p, int64_t count, int element) {
      const char* begin = static_cast<const char*>(p);
      return std::pair(begin, begin + count * element);
    };
    const void* sums = buffers.bias_grad;
    if (!sums) throw Error(ErrorCode::bad_input, "buffer bias_grad is null");
    if (reinterpret_cast<uintptr_t>(sums) % sizeof(float))
      throw Error(ErrorCode::bad_input, "buffer bias_grad is not aligned to its 4-byte elements");
    const GemmView v = lower(problem_);
    const auto mine = bytes(sums, channels_, 4);
    for (const auto& [name, other] : {std::pair{"a", bytes(buffers.a, v.a.extent, bytes_of(problem_.a))},
                                      {"b", bytes(buffers.b, v.b.extent, bytes_of(problem_.b))},
                                      {"c", bytes(buffers.c, v.c.extent, bytes_of(problem_.out))}}) {
      if (mine.first < other.second && other.first < mine.second)
        throw Error(ErrorCode::bad_input, std::string("buffer bias_grad overlaps buffer ") + name);
    }
    kernel_->run(buffers);
    add_up(buffers);
  }

  void run_unchecked(const Buffers& buffers) const override {
    kernel_->run_unchecked(buffers);
    add_up(buffers);
  }

  size_t workspace_bytes() const override { return std::max(kernel_->workspace_bytes(), sums_bytes()); }
  size_t panels_bytes() const override { return kernel_->panels_bytes(); }
  void pack_b_unchecked(const void* b, void* packed, int64_t ldb) const override {
    kernel_->pack_b_unchecked(b, packed, ldb);
  }

 private:
  bool channels_first() const { return problem_.layout == Layout::channels_first; }
  size_t sums_bytes() const {
    return static_cast<size_t>((channels_first() ? 1 : threads_) * channels_) * sizeof(double);
  }

  void add_up(const Buffers& buffers) const {
    auto* sums = static_cast<double*>(buffers.workspace ? buffers.workspace : thread_arena(sums_bytes()));
    const double alpha = buffers.alpha ? *buffers.alpha : problem_.alpha;
    const double beta = buffers.beta ? *buffers.beta : problem_.beta;
    std::fill_n(sums, sums_bytes() / sizeof(double), 0.0);
    if (alpha != 0) {  // a zero hides what A holds
      switch (problem_.a) {
        case DType::f32: sum<float>(buffers.a, sums); break;
        case DType::f16: sum<Half>(buffers.a, sums); break;
        default: sum<BFloat>(buffers.a, sums);
      }
    }
    auto* out = static_cast<float*>(buffers.bias_grad);
    for (int64_t j = 0; j < channels_; ++j) {
      double total = 0;
      for (int64_t part = 0; part < (channels_first() ? 1 : threads_); ++part)
        total += sums[part * channels_ + j];
      out[j] = static_cast<float>(alpha * total + (beta == 0 ? 0.0 : beta * static_cast<double>(out[j])));
    }
  }

  template <class T>
  void sum(const void* a, double* sums) const {
    const T* from = static_cast<const T*>(a);
    const int64_t rows = problem_.conv.n * pixels_;
    if (channels_first()) {  // every channel of every image is a row
      deal_out(channels_, threads_, [&](int64_t j, int) {
        for (int64_t image = 0; image < problem_.conv.n; ++image)
          sums[j] += sum_of(from + (image * channels_ + j) * pixels_, pixels_);
      });
      return;
    }
    deal_out(threads_, threads_, [&](int64_t part, int) {
      const int64_t first = rows * part / threads_, end = rows * (part + 1) / threads_;
      add_columns(from + first * channels_, end - first, channels_, channels_, sums + part * channels_);
    });
  }

  std::unique_ptr<Kernel> kernel_;
  int64_t channels_ = 0, pixels_ = 1;
  int threads_ = 1;
};

}  // namespace

std::unique_ptr<Kernel> make_bias_gradient(const Problem& problem, int threads,
                                           std::unique_ptr<Kernel> kernel) {
  return std::make_unique<BiasGradient>(problem, threads, std::move(kernel));
}

}  // namespace tessera
