// OpenBLAS: cblas_sgemm.
#include <cblas.h>

#include "blas_library.h"

namespace {

using namespace tsr_peer_impl;

struct Library {
  decltype(cblas_sgemm)* sgemm;
  decltype(openblas_set_num_threads)* set_threads;
  decltype(openblas_get_config)* config;

  static const Library& get() {
    static const Library library = [] {
      // Its detection knows the processors of its day; others with AVX-512 would get AVX2 kernels.
      if (has_avx512()) setenv("OPENBLAS_CORETYPE", "SKYLAKEX", 0);
      void* handle = open_library("libopenblas.so.0");
      return Library{symbol<decltype(cblas_sgemm)>(handle, "cblas_sgemm"),
                     symbol<decltype(openblas_set_num_threads)>(handle, "openblas_set_num_threads"),
                     symbol<decltype(openblas_get_config)>(handle, "openblas_get_config")};
    }();
    return library;
  }
};

class OpenBlas {
 public:
  static std::string description() {
    try {
      return Library::get().config();
    } catch (const Unsupported& e) { return e.what(); }
  }

  explicit OpenBlas(const TsrPeerProblem& p) : p_(p) {
    only_plain_f32(p, "OpenBLAS");
    Library::get().set_threads(p.threads);
  }

  void pack_b(const void*) {}

  void run(const void* a, const void* b, void* c) const {
    const auto trans = [](bool row_major) { return row_major ? CblasNoTrans : CblasTrans; };
    for (int64_t g = 0; g < p_.batch; ++g) {
      Library::get().sgemm(CblasRowMajor, trans(p_.a_row_major), trans(p_.b_row_major),
                           static_cast<int>(p_.m), static_cast<int>(p_.n), static_cast<int>(p_.k), 1.0f,
                           static_cast<const float*>(a) + g * p_.stride_a, static_cast<int>(p_.lda),
                           static_cast<const float*>(b) + g * p_.stride_b, static_cast<int>(p_.ldb), 0.0f,
                           static_cast<float*>(c) + g * p_.stride_c, static_cast<int>(p_.ldc));
    }
  }

 private:
  TsrPeerProblem p_;
};

}  // namespace

TSR_PEER_MODULE(OpenBlas)
