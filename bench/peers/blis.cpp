// BLIS: its own interface with general strides.
#include <blis.h>

#include "blas_library.h"

namespace {

using namespace tsr_peer_impl;

struct Library {
  decltype(bli_sgemm)* sgemm;
  decltype(bli_thread_set_num_threads)* set_threads;
  decltype(bli_info_get_version_str)* version;
  decltype(bli_arch_query_id)* arch;  // after bli_init
  decltype(bli_arch_string)* arch_name;

  static const Library& get() {
    static const Library library = [] {
      // Processors that it does not know get portable C kernels.
      if (has_avx512()) setenv("BLIS_ARCH_TYPE", std::to_string(BLIS_ARCH_SKX).c_str(), 0);
      void* handle = open_library("libblis.so.4");
      symbol<decltype(bli_init)>(handle, "bli_init")();
      return Library{symbol<decltype(bli_sgemm)>(handle, "bli_sgemm"),
                     symbol<decltype(bli_thread_set_num_threads)>(handle, "bli_thread_set_num_threads"),
                     symbol<decltype(bli_info_get_version_str)>(handle, "bli_info_get_version_str"),
                     symbol<decltype(bli_arch_query_id)>(handle, "bli_arch_query_id"),
                     symbol<decltype(bli_arch_string)>(handle, "bli_arch_string")};
    }();
    return library;
  }
};

class Blis {
 public:
  static std::string description() {
    try {
      const Library& l = Library::get();
      return "BLIS " + std::string(l.version()) + " " + l.arch_name(l.arch());
    } catch (const Unsupported& e) { return e.what(); }
  }

  explicit Blis(const TsrPeerProblem& p) : p_(p) {
    only_plain_f32(p, "BLIS");
    Library::get().set_threads(p.threads);
  }

  void pack_b(const void*) {}

  void run(const void* a, const void* b, void* c) const {
    float one = 1, zero = 0;
    for (int64_t g = 0; g < p_.batch; ++g) {
      Library::get().sgemm(BLIS_NO_TRANSPOSE, BLIS_NO_TRANSPOSE, p_.m, p_.n, p_.k, &one,
                           const_cast<float*>(static_cast<const float*>(a)) + g * p_.stride_a,
                           p_.a_row_major ? p_.lda : 1, p_.a_row_major ? 1 : p_.lda,
                           const_cast<float*>(static_cast<const float*>(b)) + g * p_.stride_b,
                           p_.b_row_major ? p_.ldb : 1, p_.b_row_major ? 1 : p_.ldb, &zero,
                           static_cast<float*>(c) + g * p_.stride_c, p_.ldc, 1);
    }
  }

 private:
  TsrPeerProblem p_;
};

}  // namespace

TSR_PEER_MODULE(Blis)
