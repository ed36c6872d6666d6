// oneDNN: the matmul and convolution primitives, B as the user stores it or in the library's own order.
#include <omp.h>
#include <dnnl.hpp>

#include <array>
#include <memory>
#include <vector>

#include "peer.h"

namespace {

using namespace tsr_peer_impl;
using dnnl::memory;

memory::data_type type_of(std::string_view name) {
  if (name == "f32") return memory::data_type::f32;
  if (name == "bf16") return memory::data_type::bf16;
  if (name == "f16") return memory::data_type::f16;
  if (name == "i8") return memory::data_type::s8;
  if (name == "u8") return memory::data_type::u8;
  if (name == "i32") return memory::data_type::s32;
  throw Unsupported("oneDNN has nothing for " + std::string(name));
}

dnnl::engine& engine() {
  static dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

class Primitive {
 public:
  virtual ~Primitive() = default;
  virtual void pack_b(const void* b) = 0;
  virtual void run(const void* a, const void* b, void* c) = 0;
};

class Matmul : public Primitive {
 public:
  explicit Matmul(const TsrPeerProblem& p) : stream_(engine()) {
    const auto matrix = [&](const char* type, int64_t rows, int64_t cols, bool row_major, int64_t ld,
                            int64_t stride) {
      const memory::dims row_col = row_major ? memory::dims{ld, 1} : memory::dims{1, ld};
      if (p.batch == 1) return memory::desc({rows, cols}, type_of(type), row_col);
      return memory::desc({stride ? p.batch : 1, rows, cols}, type_of(type),
                          {stride, row_col[0], row_col[1]});
    };
    const memory::desc a = matrix(p.a, p.m, p.k, p.a_row_major, p.lda, p.stride_a);
    const memory::desc b = matrix(p.b, p.k, p.n, p.b_row_major, p.ldb, p.stride_b);
    const memory::desc c = matrix(p.out, p.m, p.n, true, p.ldc, p.stride_c);
    memory::desc b_wanted = b;
    if (p.packed_b) {
      b_wanted = p.batch == 1 ? memory::desc({p.k, p.n}, type_of(p.b), memory::format_tag::any)
                              : memory::desc({p.stride_b ? p.batch : 1, p.k, p.n}, type_of(p.b),
                                             memory::format_tag::any);
    }
#if DNNL_VERSION_MAJOR >= 3
    const dnnl::matmul::primitive_desc plan(engine(), a, b_wanted, c);
#else
    const dnnl::matmul::primitive_desc plan(dnnl::matmul::desc(a, b_wanted, c), engine());
#endif
    matmul_ = dnnl::matmul(plan);
    a_ = memory(a, engine(), nullptr);
    b_ = memory(plan.weights_desc(), engine(), nullptr);
    c_ = memory(c, engine(), nullptr);
    user_b_ = memory(b, engine(), nullptr);
    packed_ = p.packed_b != 0;
    arguments_ = {{{DNNL_ARG_SRC, a_.get()}, {DNNL_ARG_WEIGHTS, b_.get()}, {DNNL_ARG_DST, c_.get()}}};
  }

  void pack_b(const void* b) override {
    user_b_.set_data_handle(const_cast<void*>(b));
    b_ = memory(b_.get_desc(), engine());
    dnnl::reorder(user_b_, b_).execute(stream_, user_b_, b_);
    stream_.wait();
    arguments_[1].memory = b_.get();
  }

  void run(const void* a, const void* b, void* c) override {
    if (a != last_a_ || b != last_b_ || c != last_c_) {
      a_.set_data_handle(const_cast<void*>(a));
      if (!packed_) b_.set_data_handle(const_cast<void*>(b));
      c_.set_data_handle(c);
      last_a_ = a;
      last_b_ = b;
      last_c_ = c;
    }
    // The C entry point: no map of arguments is built per call.
    dnnl_primitive_execute(matmul_.get(), stream_.get(), static_cast<int>(arguments_.size()),
                           arguments_.data());
    dnnl_stream_wait(stream_.get());
  }

 private:
  dnnl::stream stream_;
  dnnl::matmul matmul_;
  memory a_, b_, c_, user_b_;
  std::array<dnnl_exec_arg_t, 3> arguments_{};
  const void *last_a_ = nullptr, *last_b_ = nullptr;
  void* last_c_ = nullptr;
  bool packed_ = false;
};

// Activations stay N(spatial)C; the filter has the library's own order, as in place it would run its slowest
// code. What the caller does not pack ahead is reordered in every run.
class Convolution : public Primitive {
 public:
  explicit Convolution(const TsrPeerProblem& p) : stream_(engine()), packed_(p.packed_b != 0) {
    const TsrPeerConv& c = *p.conv;
    const auto axes = [&](const int64_t(&all)[3]) { return memory::dims(all + 3 - c.dims, all + 3); };
    const auto images = [&](const char* type, const int64_t(&size)[3], int64_t channels) {
      memory::dims dims{c.n, channels}, strides{0, 1};
      for (int64_t extent : axes(size)) dims.push_back(extent);
      strides.resize(dims.size());
      int64_t step = channels;
      for (size_t i = dims.size(); i-- > 2; step *= dims[i]) strides[i] = step;
      strides[0] = step;
      return memory::desc(dims, type_of(type), strides);
    };
    const bool fwd = c.direction == TSR_PEER_FWD, data = c.direction == TSR_PEER_BWD_DATA;
    const char* const filter_type = fwd || data ? p.b : p.out;
    const memory::desc x = images(fwd ? p.a : data ? p.out : p.b, c.in, c.g * c.c);
    const memory::desc y = images(fwd ? p.out : p.a, c.out, c.g * c.k);
    memory::dims dims{c.g, c.k, c.c}, strides(3 + static_cast<size_t>(c.dims));
    for (int64_t extent : axes(c.filter)) dims.push_back(extent);
    int64_t step = c.c;
    strides[2] = 1;
    for (size_t i = dims.size(); i-- > 3; step *= dims[i]) strides[i] = step;
    strides[1] = step;
    strides[0] = step * c.k;
    if (c.g == 1) {
      dims.erase(dims.begin());
      strides.erase(strides.begin());
    }
    const memory::desc user(dims, type_of(filter_type), strides);
    const memory::desc any(dims, type_of(filter_type), memory::format_tag::any);
    memory::dims dilation = axes(c.dilation);
    for (int64_t& d : dilation) --d;
    const auto stride = axes(c.stride), lo = axes(c.pad_lo), hi = axes(c.pad_hi);
    using dnnl::algorithm, dnnl::prop_kind;
    const auto forward = [&](prop_kind kind) {
#if DNNL_VERSION_MAJOR >= 3
      return dnnl::convolution_forward::primitive_desc(engine(), kind, algorithm::convolution_direct, x, any,
                                                       y, stride, dilation, lo, hi);
#else
      return dnnl::convolution_forward::primitive_desc(
          dnnl::convolution_forward::desc(kind, algorithm::convolution_direct, x, any, y, stride, dilation,
                                          lo, hi),
          engine());
#endif
    };
    memory::desc own;
    if (fwd) {
      const auto plan = forward(prop_kind::forward_inference);
      own = plan.weights_desc();
      primitive_ = dnnl::convolution_forward(plan);
      set_arguments(DNNL_ARG_SRC, x, DNNL_ARG_WEIGHTS, own, DNNL_ARG_DST, y);
    } else if (data) {
#if DNNL_VERSION_MAJOR >= 3
      const dnnl::convolution_backward_data::primitive_desc plan(engine(), algorithm::convolution_direct, x,
                                                                 any, y, stride, dilation, lo, hi,
                                                                 forward(prop_kind::forward_training));
#else
      const dnnl::convolution_backward_data::primitive_desc plan(
          dnnl::convolution_backward_data::desc(algorithm::convolution_direct, x, any, y, stride, dilation,
                                                lo, hi),
          engine(), forward(prop_kind::forward_training));
#endif
      own = plan.weights_desc();
      primitive_ = dnnl::convolution_backward_data(plan);
      set_arguments(DNNL_ARG_DIFF_DST, y, DNNL_ARG_WEIGHTS, own, DNNL_ARG_DIFF_SRC, x);
    } else {
#if DNNL_VERSION_MAJOR >= 3
      const dnnl::convolution_backward_weights::primitive_desc plan(engine(), algorithm::convolution_direct,
                                                                    x, any, y, stride, dilation, lo, hi,
                                                                    forward(prop_kind::forward_training));
#else
      const dnnl::convolution_backward_weights::primitive_desc plan(
          dnnl::convolution_backward_weights::desc(algorithm::convolution_direct, x, any, y, stride, dilation,
                                                   lo, hi),
          engine(), forward(prop_kind::forward_training));
#endif
      own = plan.diff_weights_desc();
      primitive_ = dnnl::convolution_backward_weights(plan);
      set_arguments(DNNL_ARG_DIFF_DST, y, DNNL_ARG_SRC, x, DNNL_ARG_DIFF_WEIGHTS, own);
    }
    filter_ = fwd || data ? 1 : 2;
    user_ = memory(user, engine(), nullptr);
    if (own == user) return;
    own_order_ = true;
    memory_[filter_] = memory(own, engine());
    arguments_[filter_].memory = memory_[filter_].get();
    reorder_ = filter_ == 1 ? dnnl::reorder(user_, memory_[1]) : dnnl::reorder(memory_[2], user_);
  }

  void pack_b(const void* b) override {
    user_.set_data_handle(const_cast<void*>(b));
    if (own_order_) {
      reorder_.execute(stream_, user_, memory_[1]);
    } else {
      memory_[1].set_data_handle(const_cast<void*>(b));
    }
    stream_.wait();
  }

  void run(const void* a, const void* b, void* c) override {
    memory_[0].set_data_handle(const_cast<void*>(a));
    if (filter_ == 2) {
      memory_[1].set_data_handle(const_cast<void*>(b));
      own_order_ ? user_.set_data_handle(c) : memory_[2].set_data_handle(c);
    } else {
      memory_[2].set_data_handle(c);
      if (!packed_ && own_order_) {
        user_.set_data_handle(const_cast<void*>(b));
        reorder_.execute(stream_, user_, memory_[1]);
      } else if (!packed_) {
        memory_[1].set_data_handle(const_cast<void*>(b));
      }
    }
    dnnl_primitive_execute(primitive_.get(), stream_.get(), static_cast<int>(arguments_.size()),
                           arguments_.data());
    if (filter_ == 2 && own_order_) reorder_.execute(stream_, memory_[2], user_);
    dnnl_stream_wait(stream_.get());
  }

 private:
  void set_arguments(int a, const memory::desc& a_desc, int b, const memory::desc& b_desc, int c,
                     const memory::desc& c_desc) {
    memory_ = {memory(a_desc, engine(), nullptr), memory(b_desc, engine(), nullptr),
               memory(c_desc, engine(), nullptr)};
    arguments_ = {{{a, memory_[0].get()}, {b, memory_[1].get()}, {c, memory_[2].get()}}};
  }

  dnnl::stream stream_;
  dnnl::primitive primitive_;
  dnnl::reorder reorder_;
  std::array<memory, 3> memory_;  // a, b, c as the primitive wants them
  memory user_;                   // the filter, or its gradient, as the user has it
  std::array<dnnl_exec_arg_t, 3> arguments_{};
  size_t filter_ = 1;  // which of the three is the filter
  bool packed_, own_order_ = false;
};

class OneDnn {
 public:
  static constexpr bool kConvolutions = true;
  static std::string description() {
    const dnnl_version_t* v = dnnl_version();
    return "oneDNN " + std::to_string(v->major) + "." + std::to_string(v->minor) + "." +
           std::to_string(v->patch);
  }

  explicit OneDnn(const TsrPeerProblem& p) {
    omp_set_num_threads(p.threads);
    if (p.conv) {
      primitive_ = std::make_unique<Convolution>(p);
    } else {
      primitive_ = std::make_unique<Matmul>(p);
    }
  }
  void pack_b(const void* b) { primitive_->pack_b(b); }
  void run(const void* a, const void* b, void* c) { primitive_->run(a, b, c); }

 private:
  std::unique_ptr<Primitive> primitive_;
};

}  // namespace

TSR_PEER_MODULE(OneDnn)
