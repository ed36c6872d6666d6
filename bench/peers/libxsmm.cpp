// LIBXSMM: its kernels over blocks of C, one thread. It is column-major: C^T = B^T A^T, so its first operand
// is our B.
#include <libxsmm.h>

#include <algorithm>
#include <vector>

#include "peer.h"

namespace {

using namespace tsr_peer_impl;

constexpr int64_t kColumns = 64;  // of our C in one packed panel of B
constexpr int64_t kRows = 96;     // of our C per kernel call

template <class T>
struct Types;

template <>
struct Types<float> {
  using Kernel = libxsmm_smmfunction;
  static constexpr int pairs = 1, extra_flags = 0;
  static Kernel dispatch(int m, int n, int k, int lda, int ldb, int ldc, int flags) {
    const float one = 1, zero = 0;
    return libxsmm_smmdispatch(m, n, k, &lda, &ldb, &ldc, &one, &zero, &flags, nullptr);
  }
};

template <>
struct Types<libxsmm_bfloat16> {
  using Kernel = libxsmm_bmmfunction;
  static constexpr int pairs = 2, extra_flags = LIBXSMM_GEMM_FLAG_VNNI_A;
  static Kernel dispatch(int m, int n, int k, int lda, int ldb, int ldc, int flags) {
    const float one = 1, zero = 0;
    return libxsmm_bmmdispatch(m, n, k, &lda, &ldb, &ldc, &one, &zero, &flags, nullptr);
  }
};

// A call: columns [col, col + width) of C, rows [row, row + height).
template <class T>
struct Call {
  typename Types<T>::Kernel kernel;
  int64_t row, col;
};

template <class T>
class Blocked {
 public:
  explicit Blocked(const TsrPeerProblem& p) : p_(p) {
    if (p.threads != 1 || p.batch != 1)
      throw Unsupported("LIBXSMM's kernels are compared on one thread and one batch");
    if (p.k == 0 || p.k % Types<T>::pairs) throw Unsupported("LIBXSMM's bf16 kernels need an even k");
    if (!p.packed_b && Types<T>::pairs > 1) throw Unsupported("LIBXSMM's bf16 kernels need packed pairs");
    if (!p.packed_b && !p.b_row_major) throw Unsupported("LIBXSMM does not read a k-contiguous B in place");
    if (!p.a_row_major && Types<T>::pairs > 1)
      throw Unsupported("LIBXSMM's bf16 kernels need k-contiguous A");
    const int flags =
        Types<T>::extra_flags | LIBXSMM_GEMM_FLAG_BETA_0 | (p.a_row_major ? 0 : LIBXSMM_GEMM_FLAG_TRANS_B);
    const int64_t ld_panel = p.packed_b ? kColumns : p.ldb;
    for (int64_t col = 0; col < p.n; col += kColumns) {
      for (int64_t row = 0; row < p.m; row += kRows) {
        const auto kernel = Types<T>::dispatch(static_cast<int>(std::min(kColumns, p.n - col)),
                                               static_cast<int>(std::min(kRows, p.m - row)),
                                               static_cast<int>(p.k), static_cast<int>(ld_panel),
                                               static_cast<int>(p.lda), static_cast<int>(p.ldc), flags);
        if (!kernel) throw Unsupported("LIBXSMM generates no kernel for this shape");
        calls_.push_back({kernel, row, col});
      }
    }
  }

  // Panels of kColumns columns: [k / pairs][kColumns][pairs].
  void pack_b(const void* b) {
    const int64_t panels = (p_.n + kColumns - 1) / kColumns;
    constexpr int64_t pairs = Types<T>::pairs;
    packed_.assign(static_cast<size_t>(panels * p_.k * kColumns), T{});
    const T* from = static_cast<const T*>(b);
    for (int64_t j = 0; j < p_.n; ++j) {
      T* panel = packed_.data() + j / kColumns * p_.k * kColumns;
      for (int64_t x = 0; x < p_.k; ++x) {
        panel[(x / pairs * kColumns + j % kColumns) * pairs + x % pairs] =
            from[p_.b_row_major ? x * p_.ldb + j : j * p_.ldb + x];
      }
    }
  }

  void run(const void* a, const void* b, void* c) const {
    for (const Call<T>& call : calls_) {
      const T* panel = p_.packed_b ? packed_.data() + call.col * p_.k : static_cast<const T*>(b) + call.col;
      const T* rows = static_cast<const T*>(a) + (p_.a_row_major ? call.row * p_.lda : call.row);
      call.kernel(panel, rows, static_cast<T*>(c) + call.row * p_.ldc + call.col);
    }
  }

 private:
  TsrPeerProblem p_;
  std::vector<Call<T>> calls_;
  std::vector<T> packed_;
};

class LibXsmm {
 public:
  static std::string description() {
    libxsmm_init();
    return std::string("LIBXSMM " LIBXSMM_VERSION " ") + libxsmm_get_target_arch();
  }

  explicit LibXsmm(const TsrPeerProblem& p) {
    if (all_are(p, "f32")) {
      f32_ = new Blocked<float>(p);
    } else if (all_are(p, "bf16")) {
      bf16_ = new Blocked<libxsmm_bfloat16>(p);
    } else {
      throw Unsupported("compared in f32 and bf16 only");
    }
  }
  LibXsmm(const LibXsmm&) = delete;
  LibXsmm& operator=(const LibXsmm&) = delete;
  ~LibXsmm() {
    delete f32_;
    delete bf16_;
  }

  void pack_b(const void* b) { f32_ ? f32_->pack_b(b) : bf16_->pack_b(b); }
  void run(const void* a, const void* b, void* c) const { f32_ ? f32_->run(a, b, c) : bf16_->run(a, b, c); }

 private:
  Blocked<float>* f32_ = nullptr;
  Blocked<libxsmm_bfloat16>* bf16_ = nullptr;
};

}  // namespace

TSR_PEER_MODULE(LibXsmm)
