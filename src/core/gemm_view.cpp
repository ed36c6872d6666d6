#include "core/gemm_view.h"

namespace tessera {
namespace {

Operand matrix(DType type, int64_t rows, int64_t cols, bool row_major, int64_t leading,
               int64_t group_stride) {
  return {type, rows, cols, row_major ? leading : 1, row_major ? 1 : leading, group_stride};
}

}  // namespace

double GemmView::bytes() const {
  // An operand that all groups share (stride 0) is read once.
  auto size = [this](const Operand& o) {
    const double one = static_cast<double>(o.rows) * o.cols * bytes_of(o.type);
    return o.group_stride == 0 ? one : one * groups;
  };
  double d_bytes = 0;
  for (const EpilogueStep& step : epilogue) {
    const EpilogueKindInfo& kind = info(step.kind);
    if (!kind.takes_d) continue;
    const double elements = kind.broadcast == Broadcast::none  ? static_cast<double>(groups) * m * n
                            : kind.broadcast == Broadcast::row ? static_cast<double>(n)
                                                               : static_cast<double>(m);
    d_bytes += elements * bytes_of(d);
  }
  return size(a) + size(b) + size(c) + d_bytes;
}

GemmView lower(const Problem& p) {
  GemmView v;
  v.groups = p.batch;
  v.m = p.m;
  v.n = p.n;
  v.k = p.k;
  v.a = matrix(p.a, p.m, p.k, a_is_row_major(p.layout), p.ld_a(), p.batch_stride_a());
  v.b = matrix(p.b, p.k, p.n, b_is_row_major(p.layout), p.ld_b(), p.batch_stride_b());
  v.c = matrix(p.out, p.m, p.n, true, p.ld_c(), p.batch_stride_c());
  v.acc = info(p.a).accumulator;
  v.d = p.d;
  v.layout = p.layout;
  v.b_prepacked = p.prepack_b;
  v.epilogue = p.epilogue;
  return v;
}

}  // namespace tessera
