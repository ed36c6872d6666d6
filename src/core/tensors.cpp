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

Operand broadcast_operand(const GemmView& v, Broadcast broadcast) {
  switch (broadcast) {
    case Broadcast::row: return {v.d, 1, v.n, v.n, 1, 0};
    case Broadcast::column: return {v.d, v.m, 1, 1, 1, 0};
    case Broadcast::none: break;
  }
  return {v.d, v.m, v.n, v.n, 1, v.m * v.n};
}

}  // namespace

std::vector<Tensor> tensors(const Problem& p) {
  const GemmView v = lower(p);
  std::vector<Tensor> out;
  out.push_back(matrix("a", v.a, v.groups));
  out.push_back(matrix("b", v.b, v.groups));
  out.back().packed = v.b_prepacked;
  out.push_back(matrix("c", v.c, v.groups));
  out.back().written = true;
  for (const EpilogueStep& step : v.epilogue) {
    const EpilogueKindInfo& kind = info(step.kind);
    if (!kind.takes_d) continue;
    const bool shared = kind.broadcast != Broadcast::none;
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
