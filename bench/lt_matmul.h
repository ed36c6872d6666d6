// A problem as cuBLASLt computes it, with nothing of CUDA linked.
#pragma once

#include <cublasLt.h>

#include <vector>

#include "core/gemm_view.h"
#include "tessera/kernel.h"

namespace tessera {

// The library, a handle and 64 MiB of workspace, on the device that cuda_graphs opened.
void open_cublas_lt();

// Its algorithms for a problem, best first as it thinks.
class LtMatmul {
 public:
  LtMatmul(const GemmView& v, int most);
  LtMatmul(const LtMatmul&) = delete;
  ~LtMatmul();

  size_t algos() const { return algos_.size(); }
  void enqueue(size_t algo, const Buffers& x);

 private:
  cublasLtMatmulDesc_t desc_;
  cublasLtMatrixLayout_t a_, b_, c_;
  std::vector<cublasLtMatmulHeuristicResult_t> algos_;
  bool integer_;
};

}  // namespace tessera
