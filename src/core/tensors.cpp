#include "core/tensors.h"

#include "core/gemm_view.h"

namespace tessera {
namespace {

int64_t extent_bytes(const Tensor& t) {
  int64_t last = 0;
  for (size_t i = 0; i < t.shape.size(); ++i) {
    if (t.shape[i] == 0) return 0;
    last += (t.shape[i] - 1) * t.strides[i];
  }
  return (last + 1) * bytes_of(t.type);
}

Tensor matrix(std::string name, const Operand& o, int64_t groups) {
  Tensor t{.name = std::move(name), .type = o.type};
  t.shape = {o.rows, o.cols};
  t.strides = {o.row_stride, o.col_stride};
  if (groups > 1) {
    t.shape.insert(t.shape.begin(), groups);
    t.strides.insert(t.strides.begin(), o.group_stride);
  }
  t.bytes = extent_bytes(t);
  return t;
}

// One after the other in memory, the last axis fastest.
Tensor dense(std::string name, DType type, std::vector<int64_t> shape) {
  Tensor t{.name = std::move(name), .type = type, .shape = std::move(shape)};
  t.strides.assign(t.shape.size(), 1);
  for (size_t i = t.shape.size() - 1; i-- > 0;) t.strides[i] = t.strides[i + 1] * t.shape[i + 1];
  t.bytes = extent_bytes(t);
  return t;
}

// N(spatial)GC of the input, GK(filter)C, N(spatial)GK of the output, or the same with the spatial axes last:
// as A, B and C by the direction.
std::vector<Tensor> conv_tensors(const Problem& p) {
  const ConvShape& c = p.conv;
  std::vector<int64_t> x{c.n}, w{c.g, c.k}, y{c.n};
  const bool first = p.layout == Layout::channels_first;
  const auto add_channels = [&] {
    x.insert(x.end(), {c.g, c.c});
    w.push_back(c.c);
    y.insert(y.end(), {c.g, c.k});
  };
  if (first) add_channels();
  for (int i = ConvShape::kAxes - c.dims; i < ConvShape::kAxes; ++i) {
    x.push_back(c.in[static_cast<size_t>(i)]);
    w.push_back(c.filter[static_cast<size_t>(i)]);
    y.push_back(c.out(i));
  }
  if (!first) add_channels();
  const auto& a = p.op == Op::conv_fwd ? x : y;
  const auto& b = p.op == Op::conv_bwd_weight ? x : w;
  const auto& out = p.op == Op::conv_fwd ? y : p.op == Op::conv_bwd_data ? x : w;
  return {dense("a", p.a, a), dense("b", p.b, b), dense("c", p.out, out)};
}

Operand broadcast_operand(const GemmView& v, Broadcast broadcast) {
  switch (broadcast) {
    case Broadcast::row: return {.type = v.d, .rows = 1, .cols = v.n, .row_stride = v.n, .col_stride = 1};
    case Broadcast::column: return {.type = v.d, .rows = v.m, .cols = 1, .row_stride = 1, .col_stride = 1};
    case Broadcast::none: break;
  }
  return {
      .type = v.d, .rows = v.m, .cols = v.n, .row_stride = v.n, .col_stride = 1, .group_stride = v.m * v.n};
}

}  // namespace

std::vector<Tensor> tensors(const Problem& p) {
  const GemmView v = lower(p);
  std::vector<Tensor> out;
  if (is_conv(p.op)) {
    out = conv_tensors(p);
  } else {
    out = {matrix("a", v.a, v.groups), matrix("b", v.b, v.groups), matrix("c", v.c, v.groups)};
  }
  out[1].packed = v.b_prepacked;
  out[2].written = true;
  if (p.bias_grad) {
    out.push_back(dense("bias_grad", DType::f32, {p.conv.g * p.conv.k}));
    out.back().written = true;
  }
  for (const EpilogueStep& step : v.epilogue) {
    const EpilogueKindInfo& kind = info(step.kind);
    if (!kind.takes_d) continue;
    const bool shared = kind.broadcast != Broadcast::none;
    if (is_conv(p.op)) {
      const std::string name = "d" + std::to_string(out.size() - 3);
      out.push_back(
          dense(name, v.d, shared ? std::vector<int64_t>{v.d_elements(kind.broadcast)} : out[2].shape));
      out.back().step = kind.name;
      continue;
    }
    Tensor t = matrix("d" + std::to_string(out.size() - 3), broadcast_operand(v, kind.broadcast),
                      shared ? 1 : v.groups);
    if (shared) {  // a vector
      t.shape = {kind.broadcast == Broadcast::row ? v.n : v.m};
      t.strides = {1};
    }
    t.step = kind.name;
    out.push_back(std::move(t));
  }
  return out;
}

Json to_json(const Tensor& t) {
  Json shape = Json::array(), strides = Json::array();
  for (int64_t s : t.shape) shape.push(s);
  for (int64_t s : t.strides) strides.push(s);
  Json out = Json::object({{"name", t.name},
                           {"dtype", to_string(t.type)},
                           {"shape", std::move(shape)},
                           {"strides", std::move(strides)},
                           {"bytes", t.bytes},
                           {"written", t.written},
                           {"packed", t.packed}});
  if (!t.step.empty()) out.set("step", t.step);
  return out;
}

}  // namespace tessera
