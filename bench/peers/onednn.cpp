// oneDNN: the matmul primitive, B as the user stores it or in the library's own order.
#include <omp.h>
#include <dnnl.hpp>

#include <array>

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
  throw Unsupported("oneDNN has no matmul for " + std::string(name));
}

dnnl::engine& engine() {
  static dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

class OneDnn {
 public:
  static std::string description() {
    const dnnl_version_t* v = dnnl_version();
    return "oneDNN " + std::to_string(v->major) + "." + std::to_string(v->minor) + "." +
           std::to_string(v->patch);
  }

  explicit OneDnn(const TsrPeerProblem& p) : stream_(engine()) {
    omp_set_num_threads(p.threads);
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

  void pack_b(const void* b) {
    user_b_.set_data_handle(const_cast<void*>(b));
    b_ = memory(b_.get_desc(), engine());
    dnnl::reorder(user_b_, b_).execute(stream_, user_b_, b_);
    stream_.wait();
    arguments_[1].memory = b_.get();
  }

  void run(const void* a, const void* b, void* c) {
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

}  // namespace

TSR_PEER_MODULE(OneDnn)
