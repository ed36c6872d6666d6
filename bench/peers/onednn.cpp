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

memory::dims dims_of(const memory::desc& d) {
#if DNNL_VERSION_MAJOR >= 3
  return d.get_dims();
#else
  return d.dims();
#endif
}

// Activations with channels last stay as they are; those with channels first, and the filter, have the
// library's own order, as in place it would run its slowest code. What the caller does not pack ahead is
// reordered in every run.
class Convolution : public Primitive {
 public:
  explicit Convolution(const TsrPeerProblem& p) : stream_(engine()), packed_(p.packed_b != 0) {
    const TsrPeerConv& c = *p.conv;
    const bool first = c.channels_first;
    const auto axes = [&](const int64_t(&all)[3]) { return memory::dims(all + 3 - c.dims, all + 3); };
    // `leading` axes, then channels, then extents; in memory the channels are before or behind the extents.
    const auto tensor = [&](const char* type, memory::dims leading, int64_t channels,
                            const memory::dims& extents) {
      const size_t at = leading.size();
      memory::dims dims = std::move(leading);
      dims.push_back(channels);
      dims.insert(dims.end(), extents.begin(), extents.end());
      memory::dims strides(dims.size());
      int64_t step = first ? 1 : channels;
      strides[at] = 1;
      for (size_t i = dims.size(); i-- > at + 1; step *= dims[i]) strides[i] = step;
      if (first) strides[at] = step, step *= channels;
      for (size_t i = at; i-- > 0; step *= dims[i]) strides[i] = step;
      return memory::desc(dims, type_of(type), strides);
    };
    const auto any = [](const char* type, const memory::dims& dims) {
      return memory::desc(dims, type_of(type), memory::format_tag::any);
    };
    const bool fwd = c.direction == TSR_PEER_FWD, data = c.direction == TSR_PEER_BWD_DATA;
    const char* const x_type = fwd ? p.a : data ? p.out : p.b;
    const char* const y_type = fwd ? p.out : p.a;
    const char* const w_type = fwd || data ? p.b : p.out;
    const memory::desc x_user = tensor(x_type, {c.n}, c.g * c.c, axes(c.in));
    const memory::desc y_user = tensor(y_type, {c.n}, c.g * c.k, axes(c.out));
    const memory::desc w_user =
        tensor(w_type, c.g == 1 ? memory::dims{c.k} : memory::dims{c.g, c.k}, c.c, axes(c.filter));
    const memory::desc x = first ? any(x_type, dims_of(x_user)) : x_user;
    const memory::desc y = first ? any(y_type, dims_of(y_user)) : y_user;
    const memory::desc w = any(w_type, dims_of(w_user));
    memory::dims dilation = axes(c.dilation);
    for (int64_t& d : dilation) --d;
    const auto stride = axes(c.stride), lo = axes(c.pad_lo), hi = axes(c.pad_hi);
    using dnnl::algorithm, dnnl::prop_kind;
    const auto forward = [&](prop_kind kind) {
#if DNNL_VERSION_MAJOR >= 3
      return dnnl::convolution_forward::primitive_desc(engine(), kind, algorithm::convolution_direct, x, w, y,
                                                       stride, dilation, lo, hi);
#else
      return dnnl::convolution_forward::primitive_desc(
          dnnl::convolution_forward::desc(kind, algorithm::convolution_direct, x, w, y, stride, dilation, lo,
                                          hi),
          engine());
#endif
    };
    if (fwd) {
      const auto plan = forward(prop_kind::forward_inference);
      primitive_ = dnnl::convolution_forward(plan);
      set(0, DNNL_ARG_SRC, x_user, plan.src_desc());
      set(1, DNNL_ARG_WEIGHTS, w_user, plan.weights_desc());
      set(2, DNNL_ARG_DST, y_user, plan.dst_desc());
    } else if (data) {
#if DNNL_VERSION_MAJOR >= 3
      const dnnl::convolution_backward_data::primitive_desc plan(engine(), algorithm::convolution_direct, x,
                                                                 w, y, stride, dilation, lo, hi,
                                                                 forward(prop_kind::forward_training));
#else
      const dnnl::convolution_backward_data::primitive_desc plan(
          dnnl::convolution_backward_data::desc(algorithm::convolution_direct, x, w, y, stride, dilation, lo,
                                                hi),
          engine(), forward(prop_kind::forward_training));
#endif
      primitive_ = dnnl::convolution_backward_data(plan);
      set(0, DNNL_ARG_DIFF_DST, y_user, plan.diff_dst_desc());
      set(1, DNNL_ARG_WEIGHTS, w_user, plan.weights_desc());
      set(2, DNNL_ARG_DIFF_SRC, x_user, plan.diff_src_desc());
    } else {
#if DNNL_VERSION_MAJOR >= 3
      const dnnl::convolution_backward_weights::primitive_desc plan(engine(), algorithm::convolution_direct,
                                                                    x, w, y, stride, dilation, lo, hi,
                                                                    forward(prop_kind::forward_training));
#else
      const dnnl::convolution_backward_weights::primitive_desc plan(
          dnnl::convolution_backward_weights::desc(algorithm::convolution_direct, x, w, y, stride, dilation,
                                                   lo, hi),
          engine(), forward(prop_kind::forward_training));
#endif
      primitive_ = dnnl::convolution_backward_weights(plan);
      set(0, DNNL_ARG_DIFF_DST, y_user, plan.diff_dst_desc());
      set(1, DNNL_ARG_SRC, x_user, plan.src_desc());
      set(2, DNNL_ARG_DIFF_WEIGHTS, w_user, plan.diff_weights_desc());
    }
  }

  void pack_b(const void* b) override {
    bring(1, b);
    stream_.wait();
  }

  void run(const void* a, const void* b, void* c) override {
    bring(0, a);
    if (!packed_) bring(1, b);
    Tensor& out = tensors_[2];
    (out.reordered ? out.user : out.own).set_data_handle(c);
    dnnl_primitive_execute(primitive_.get(), stream_.get(), static_cast<int>(arguments_.size()),
                           arguments_.data());
    if (out.reordered) out.reorder.execute(stream_, out.own, out.user);
    dnnl_stream_wait(stream_.get());
  }

 private:
  struct Tensor {
    memory user, own;  // as the caller has it, as the primitive wants it
    bool reordered = false;
    dnnl::reorder reorder;
  };

  // a, b, c
  void set(size_t i, int argument, const memory::desc& user, const memory::desc& own) {
    Tensor& t = tensors_[i];
    t.reordered = own != user;
    t.user = memory(user, engine(), nullptr);
    t.own = t.reordered ? memory(own, engine()) : memory(own, engine(), nullptr);
    if (t.reordered) t.reorder = i < 2 ? dnnl::reorder(t.user, t.own) : dnnl::reorder(t.own, t.user);
    arguments_[i] = {argument, t.own.get()};
  }

  void bring(size_t i, const void* data) {
    Tensor& t = tensors_[i];
    (t.reordered ? t.user : t.own).set_data_handle(const_cast<void*>(data));
    if (t.reordered) t.reorder.execute(stream_, t.user, t.own);
  }

  dnnl::stream stream_;
  dnnl::primitive primitive_;
  std::array<Tensor, 3> tensors_;
  std::array<dnnl_exec_arg_t, 3> arguments_{};
  bool packed_;
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
