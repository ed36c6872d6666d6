#include "core/gemm_view.h"

#include "core/lower_conv.h"

namespace tessera {
namespace {

Operand matrix(DType type, int64_t rows, int64_t cols, bool row_major, int64_t leading,
               int64_t group_stride) {
  Operand o{.type = type, .rows = rows, .cols = cols};
  o.row_stride = row_major ? leading : 1;
  o.col_stride = row_major ? 1 : leading;
  o.group_stride = group_stride;
  return o;
}

GemmView lower_gemm(const Problem& p) {
  GemmView v;
  v.groups = p.batch;
  v.m = p.m;
  v.n = p.n;
  v.k = p.k;
  v.a = matrix(p.a, p.m, p.k, a_is_row_major(p.layout), p.ld_a(), p.batch_stride_a());
  v.b = matrix(p.b, p.k, p.n, b_is_row_major(p.layout), p.ld_b(), p.batch_stride_b());
  v.c = matrix(p.out, p.m, p.n, true, p.ld_c(), p.batch_stride_c());
  v.d_strides = {.row = p.n, .group = p.m * p.n, .row_group = 0};
  v.layout = p.layout;
  v.work = static_cast<double>(p.batch) * p.m * p.n * p.k;
  for (Operand* o : {&v.a, &v.b, &v.c}) o->extent = o->reach(v.groups);
  return v;
}

}  // namespace

double GemmView::bytes() const {
  // An operand that all groups share (stride 0) is read once.
  auto size = [this](const Operand& o) {
    if (o.patches) return static_cast<double>(o.extent) * bytes_of(o.type);
    const double one = static_cast<double>(o.rows) * o.cols * bytes_of(o.type);
    return o.group_stride == 0 ? one : one * groups;
  };
  double d_bytes = 0;
  for (const EpilogueStep& step : epilogue) {
    const EpilogueKindInfo& kind = info(step.kind);
    if (!kind.takes_d) continue;
    d_bytes += static_cast<double>(d_elements(kind.broadcast)) * bytes_of(d);
  }
  return size(a) + size(b) + size(c) + d_bytes;
}

double GemmView::bytes_met() const {
  const Operand& patches = a.patches ? a : b;
  if (!patches.patches) return bytes();
  double met = 1;
  for (const WindowAxis& x : window->axes)
    met *= std::min(1.0, static_cast<double>(x.positions * x.taps) / static_cast<double>(x.divide * x.size));
  return bytes() - (1 - met) * static_cast<double>(patches.extent) * bytes_of(patches.type);
}

int64_t GemmView::d_elements(Broadcast shape) const {
  switch (shape) {
    case Broadcast::row: return d_strides.row_group ? groups * n : n;
    case Broadcast::column: return m;
    default: return groups * m * n;
  }
}

GemmView lower(const Problem& p) {
  if (p.layout == Layout::channels_first) {
    GemmView v = lower(channels_last(p));
    v.channels_first = true;
    return v;
  }
  GemmView v = is_conv(p.op) ? lower_conv(p) : lower_gemm(p);
  v.acc = info(p.a).accumulator;
  v.d = p.d;
  v.b_prepacked = p.prepack_b;
  v.bias_grad = p.bias_grad;
  v.epilogue = p.epilogue;
  return v;
}

}  // namespace tessera
