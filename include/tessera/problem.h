// A Problem is what the caller wants computed. It knows nothing of hardware.
//
//   C[b] = epilogue(alpha * A[b] B[b] + beta * C[b]),  A: m x k, B: k x n, C: m x n row-major, b < batch
//
// Its text form is the CLI argument, log field, database key and test line alike; parsing its own print is
// the identity. Grammar: docs/text_form.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tessera/dtype.h"
#include "tessera/epilogue.h"

namespace tessera {

enum class Op : uint8_t { gemm };

// Order of A, B, C: r row-major, c column-major. C is always row-major.
enum class Layout : uint8_t { rcr, rrr, crr, ccr };

struct Problem {
  static constexpr int64_t kPacked = -1;  // stride or leading dimension: as tight as the sizes allow

  Op op = Op::gemm;
  DType a = DType::bf16, b = DType::bf16;
  DType out = DType::bf16;  // C
  DType d = DType::bf16;    // D tensors and bias
  Layout layout = Layout::rcr;
  bool prepack_b =
      false;  // B is passed in the chosen kernel's own order (Kernel::pack_b), as weights reused often
  int64_t m = 0, n = 0, k = 0;
  int64_t batch = 1;
  int64_t lda = kPacked, ldb = kPacked, ldc = kPacked;  // elements
  int64_t stride_a = kPacked, stride_b = kPacked,
          stride_c = kPacked;  // elements between batches; a, b may be 0
  double alpha = 1, beta = 0;  // defaults of a run; kernels do not depend on them
  Epilogue epilogue;

  // Throws Error(bad_input) with the reason: unknown words, missing or bad sizes, impossible strides,
  // overflow.
  static Problem parse(std::string_view text);

  // Checks what parse() checks beyond syntax, and makes strides that merely repeat the packed value kPacked.
  void validate();

  // Leading dimensions and batch strides with kPacked resolved.
  int64_t ld_a() const;
  int64_t ld_b() const;
  int64_t ld_c() const;
  int64_t batch_stride_a() const;
  int64_t batch_stride_b() const;
  int64_t batch_stride_c() const;

  bool operator==(const Problem&) const = default;
};

std::string to_string(const Problem& p);
uint64_t hash(const Problem& p);  // allocation-free
std::string_view to_string(Layout layout);
std::string_view to_string(Op op);

inline bool a_is_row_major(Layout l) { return l == Layout::rcr || l == Layout::rrr; }
inline bool b_is_row_major(Layout l) { return l == Layout::rrr || l == Layout::crr; }

}  // namespace tessera
