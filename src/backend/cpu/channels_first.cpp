#include "backend/cpu/channels_first.h"

#include <algorithm>
#include <cstring>

#include "backend/check_buffers.h"
#include "backend/cpu/arena.h"
#include "backend/cpu/deal_out.h"
#include "backend/cpu/element.h"
#include "backend/cpu/transpose.h"
#include "core/lower_conv.h"
#include "core/tile_math.h"
#include "tessera/error.h"

namespace tessera {
namespace {

// What the images of one step take in the kernel's order, all tensors together; one image takes what it
// takes.
constexpr int64_t kStepBytes = int64_t{16} << 20;
// Of C or of k, in one step at least: rules of configurations look at the whole problem and ask for no more.
constexpr int64_t kLeastRows = 512;
constexpr int64_t kAlign = 64;

// Images of all channels, or a filter: `count` matrices of channels x points, to be points x channels.
struct Turned {
  int64_t count = 0, channels = 1, points = 1;
  int element = 4;

  bool as_it_is() const { return channels == 1 || points == 1; }
  int64_t bytes(int64_t some) const { return some * channels * points * element; }
  int64_t space(int64_t some) const { return as_it_is() ? 0 : round_up(bytes(some), kAlign); }
};

// In the kernel's order: where it lies, or in `space`, which is moved on then.
const char* turned(const Turned& t, const char* from, int64_t some, char*& space, int threads) {
  if (t.as_it_is()) return from;
  char* to = space;
  space += t.space(some);
  transpose(from, to, some, t.channels, t.points, t.element, threads);
  return to;
}

class ChannelsFirst : public Kernel {
 public:
  using Make = std::function<std::unique_ptr<Kernel>(const Problem&)>;

  ChannelsFirst(const Problem& problem, const Choice& choice, int threads, const Make& make)
      : Kernel(problem, choice), view_(lower(problem)), threads_(threads) {
    view_.c.type = problem.out;  // the caller's, of as many elements
    const ConvShape& s = problem.conv;
    int64_t inputs = 1, outputs = 1, taps = 1;
    for (int i = 0; i < ConvShape::kAxes; ++i) {
      inputs *= s.in[static_cast<size_t>(i)];
      outputs *= s.out(i);
      taps *= s.filter[static_cast<size_t>(i)];
    }
    const Turned x{s.n, s.g * s.c, inputs, 4}, y{s.n, s.g * s.k, outputs, 4}, w{s.g * s.k, s.c, taps, 4};
    a_ = problem.op == Op::conv_fwd ? x : y;
    b_ = gradient() ? x : w;
    c_ = problem.op == Op::conv_fwd ? y : problem.op == Op::conv_bwd_data ? x : w;
    d_ = c_;
    a_.element = bytes_of(problem.a);
    b_.element = bytes_of(problem.b);
    c_.element = bytes_of(problem.out);
    d_.element = bytes_of(problem.d);
    for (const EpilogueStep& step : problem.epilogue)
      full_d_ += info(step.kind).takes_d && info(step.kind).broadcast == Broadcast::none;

    const int64_t least = ceil_div(kLeastRows, std::min(inputs, outputs));
    const int64_t fit = kStepBytes / std::max<int64_t>(step_space(1), 1);
    const int64_t images = std::clamp<int64_t>(std::max(least, fit), 1, s.n), steps = ceil_div(s.n, images);
    small_ = s.n / steps;
    larger_steps_ = s.n % steps;
    Problem own = channels_last(problem);
    own.conv.n = small_;
    kernel_ = make(own);
    own.conv.n = small_ + 1;
    if (larger_steps_) larger_ = make(own);
    if (larger_ && larger_->panels_bytes() != kernel_->panels_bytes())
      throw Error(ErrorCode::internal, "the packed filter depends on the number of images");
  }

  void run(const Buffers& buffers) const override {
    check_host_buffers(view_, buffers, panels_bytes(), packed_readers_);
    run_unchecked(buffers);
  }

  void run_unchecked(const Buffers& buffers) const override {
    char* space = static_cast<char*>(buffers.workspace ? buffers.workspace : thread_arena(workspace_bytes()));
    if (gradient()) return run_gradient(buffers, space);
    Buffers own = buffers;
    if (!problem_.prepack_b)
      own.b = turned(b_, static_cast<const char*>(buffers.b), b_.count, space, threads_);
    const bool reads_c = (buffers.beta ? *buffers.beta : problem_.beta) != 0;
    for_each_step([&](const Kernel& kernel, int64_t first, int64_t images) {
      char* next = space;
      own.a = turned(a_, static_cast<const char*>(buffers.a) + a_.bytes(first), images, next, threads_);
      char* const c = static_cast<char*>(buffers.c) + c_.bytes(first);
      own.c = c;
      if (!c_.as_it_is()) {
        own.c = next;
        next += c_.space(images);
        if (reads_c) transpose(c, own.c, images, c_.channels, c_.points, c_.element, threads_);
      }
      set_d(own, buffers, first, images, next);
      own.workspace = next;
      kernel.run_unchecked(own);
      if (!c_.as_it_is()) transpose(own.c, c, images, c_.points, c_.channels, c_.element, threads_);
    });
  }

  size_t workspace_bytes() const override {
    const int64_t once = gradient()           ? round_up(c_.count * c_.channels * c_.points * 4, kAlign)
                         : problem_.prepack_b ? 0
                                              : b_.space(b_.count);
    return static_cast<size_t>(once + step_space(small_ + (larger_steps_ ? 1 : 0))) +
           std::max(kernel_->workspace_bytes(), larger_ ? larger_->workspace_bytes() : 0);
  }

  size_t panels_bytes() const override { return kernel_->panels_bytes(); }

  void pack_b_unchecked(const void* b, void* packed, int64_t ldb) const override {
    if (ldb != Problem::kPacked) throw Error(ErrorCode::bad_input, "a filter has no leading dimension");
    char* space =
        b_.as_it_is() ? nullptr : static_cast<char*>(thread_arena(static_cast<size_t>(b_.space(b_.count))));
    kernel_->pack_b_unchecked(turned(b_, static_cast<const char*>(b), b_.count, space, threads_), packed,
                              ldb);
  }

 private:
  bool gradient() const { return problem_.op == Op::conv_bwd_weight; }

  // For what is brought into order anew in every step.
  int64_t step_space(int64_t images) const {
    return gradient() ? a_.space(images) + b_.space(images)
                      : a_.space(images) + c_.space(images) + full_d_ * d_.space(images);
  }

  template <class F>
  void for_each_step(F step) const {  // step(kernel, first image, images)
    for (int64_t first = 0, i = 0; first < problem_.conv.n; ++i) {
      const bool larger = i < larger_steps_;
      step(larger ? *larger_ : *kernel_, first, small_ + larger);
      first += small_ + larger;
    }
  }

  void set_d(Buffers& own, const Buffers& buffers, int64_t first, int64_t images, char*& next) const {
    size_t i = 0;
    for (const EpilogueStep& step : problem_.epilogue) {
      const EpilogueKindInfo& kind = info(step.kind);
      if (!kind.takes_d) continue;
      const char* from = static_cast<const char*>(buffers.d[i]);
      if (kind.broadcast == Broadcast::none) {
        own.d[i] = turned(d_, from + d_.bytes(first), images, next, threads_);
      } else if (kind.broadcast == Broadcast::column) {  // one element for each pixel
        own.d[i] = from + first * d_.points * d_.element;
      }
      ++i;
    }
  }

  // Sums of all steps in f32, in the kernel's order; then C from them.
  void run_gradient(const Buffers& buffers, char* space) const {
    const double alpha = buffers.alpha ? *buffers.alpha : problem_.alpha;
    const double beta = buffers.beta ? *buffers.beta : problem_.beta;
    auto* sums = reinterpret_cast<float*>(space);
    const int64_t filter = c_.channels * c_.points;
    space += round_up(c_.count * filter * 4, kAlign);
    if (alpha != 0) {  // a zero hides what the operands hold
      for_each_step([&](const Kernel& kernel, int64_t first, int64_t images) {
        char* next = space;
        Buffers own{
            .a = turned(a_, static_cast<const char*>(buffers.a) + a_.bytes(first), images, next, threads_),
            .b = turned(b_, static_cast<const char*>(buffers.b) + b_.bytes(first), images, next, threads_),
            .c = sums};
        own.beta = first ? 1.0 : 0.0;
        own.workspace = next;
        kernel.run_unchecked(own);
      });
    } else {
      std::memset(sums, 0, static_cast<size_t>(c_.count * filter * 4));
    }
    const auto factor = static_cast<float>(alpha), old = static_cast<float>(beta);
    deal_out(c_.count, c_.count * filter < (1 << 16) ? 1 : threads_, [&](int64_t k, int) {
      char* to = static_cast<char*>(buffers.c) + c_.bytes(k);
      for (int64_t c = 0; c < c_.channels; ++c) {
        for (int64_t t = 0; t < c_.points; ++t, to += c_.element) {
          float v = factor * sums[k * filter + t * c_.channels + c];
          if (old != 0) v += old * read_float(to, problem_.out);
          write_float(to, problem_.out, v);
        }
      }
    });
  }

  GemmView view_;
  int threads_;
  Turned a_, b_, c_, d_;
  int full_d_ = 0;
  int64_t small_ = 1, larger_steps_ = 0;  // images of a step; the first steps have one more
  std::unique_ptr<Kernel> kernel_, larger_;
};

}  // namespace

std::unique_ptr<Kernel> make_channels_first(
    const Problem& problem, const Choice& choice, int threads,
    const std::function<std::unique_ptr<Kernel>(const Problem&)>& make) {
  return std::make_unique<ChannelsFirst>(problem, choice, threads, make);
}

}  // namespace tessera
