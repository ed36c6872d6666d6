#include "lt_matmul.h"

#include <dlfcn.h>

#include "cuda_graphs.h"

namespace tessera {
namespace {

#define LT(X)                       \
  X(cublasLtCreate)                 \
  X(cublasLtMatmulDescCreate)       \
  X(cublasLtMatmulDescDestroy)      \
  X(cublasLtMatmulDescSetAttribute) \
  X(cublasLtMatrixLayoutCreate)     \
  X(cublasLtMatrixLayoutDestroy)    \
  X(cublasLtMatmulPreferenceCreate) \
  X(cublasLtMatmulPreferenceSetAttribute) X(cublasLtMatmulAlgoGetHeuristic) X(cublasLtMatmul)
#define DECLARE(f) decltype(&f) p_##f;
LT(DECLARE)
#undef DECLARE

constexpr size_t kWorkspace = 64 << 20;
cublasLtHandle_t lt;
CUdeviceptr workspace;

cudaDataType_t lt_type(DType t) {
  switch (t) {
    case DType::bf16: return CUDA_R_16BF;
    case DType::f16: return CUDA_R_16F;
    case DType::f8e4m3: return CUDA_R_8F_E4M3;
    case DType::f8e5m2: return CUDA_R_8F_E5M2;
    case DType::i8: return CUDA_R_8I;
    case DType::i32: return CUDA_R_32I;
    default: return CUDA_R_32F;
  }
}

}  // namespace

void open_cublas_lt() {
  void* h =
      open_library({"libcublasLt.so.13", "/usr/local/cuda/lib64/libcublasLt.so.13", "libcublasLt.so.12"});
#define RESOLVE(f) p_##f = reinterpret_cast<decltype(p_##f)>(dlsym(h, #f));
  LT(RESOLVE)
#undef RESOLVE
  CU(cuMemAlloc_v2(&workspace, kWorkspace));
  check(p_cublasLtCreate(&lt), "cublasLtCreate");
}

// It computes C^T, column-major, = B^T A^T.
LtMatmul::LtMatmul(const GemmView& v, int count)
    : algos_(static_cast<size_t>(count)), integer_(v.acc == DType::i32) {
  p_cublasLtMatmulDescCreate(&desc_, integer_ ? CUBLAS_COMPUTE_32I : CUBLAS_COMPUTE_32F,
                             integer_ ? CUDA_R_32I : CUDA_R_32F);
  const cublasOperation_t op_a = v.b.row_major() ? CUBLAS_OP_N : CUBLAS_OP_T,
                          op_b = v.a.row_major() ? CUBLAS_OP_N : CUBLAS_OP_T;
  p_cublasLtMatmulDescSetAttribute(desc_, CUBLASLT_MATMUL_DESC_TRANSA, &op_a, sizeof op_a);
  p_cublasLtMatmulDescSetAttribute(desc_, CUBLASLT_MATMUL_DESC_TRANSB, &op_b, sizeof op_b);
  auto layout = [](cublasLtMatrixLayout_t* out, const Operand& o) {
    const auto inner = static_cast<uint64_t>(o.row_major() ? o.cols : o.rows),
               outer = static_cast<uint64_t>(o.row_major() ? o.rows : o.cols);
    p_cublasLtMatrixLayoutCreate(out, lt_type(o.type), inner, outer, o.leading());
  };
  layout(&a_, v.b);
  layout(&b_, v.a);
  layout(&c_, v.c);
  cublasLtMatmulPreference_t preference;
  p_cublasLtMatmulPreferenceCreate(&preference);
  p_cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kWorkspace,
                                         sizeof kWorkspace);
  // Buffers here start at multiples of 256 bytes.
  int found = 0;
  p_cublasLtMatmulAlgoGetHeuristic(lt, desc_, a_, b_, c_, c_, preference, count, algos_.data(), &found);
  algos_.resize(static_cast<size_t>(found));
}

LtMatmul::~LtMatmul() {
  p_cublasLtMatmulDescDestroy(desc_);
  for (auto l : {a_, b_, c_}) p_cublasLtMatrixLayoutDestroy(l);
}

void LtMatmul::enqueue(size_t i, const Buffers& x) {
  const float one = 1, zero = 0;
  const int ione = 1, izero = 0;
  check(p_cublasLtMatmul(lt, desc_, integer_ ? static_cast<const void*>(&ione) : &one, x.b, a_, x.a, b_,
                         integer_ ? static_cast<const void*>(&izero) : &zero, x.c, c_, x.c, c_,
                         &algos_[i].algo, reinterpret_cast<void*>(workspace), kWorkspace,
                         reinterpret_cast<cudaStream_t>(stream)),
        "cublasLtMatmul");
}

}  // namespace tessera
