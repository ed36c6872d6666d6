#include "backend/check_buffers.h"

#include <string>

#include "tessera/error.h"

namespace tessera {

std::string BufferUse::title() const {
  if (step.empty()) return name;
  return std::string(name) + '[' + std::to_string(index) + "] (" + std::string(step) + ')';
}

UsedBuffers used_buffers(const GemmView& view, const Buffers& buffers, size_t packed_b_bytes) {
  const auto of_operand = [](const void* p, const Operand& o, const char* name) {
    return BufferUse{p, o.extent * bytes_of(o.type), bytes_of(o.type), name};
  };
  UsedBuffers out;
  out.add(of_operand(buffers.c, view.c, "c"));
  if (view.k > 0) {
    constexpr int kPackedAlign = 4;
    out.add(of_operand(buffers.a, view.a, "a"));
    out.add(view.b_prepacked ? BufferUse{buffers.b, static_cast<int64_t>(packed_b_bytes), kPackedAlign, "b"}
                             : of_operand(buffers.b, view.b, "b"));
  }
  int index = 0;
  for (const EpilogueStep& step : view.epilogue) {
    const EpilogueKindInfo& kind = info(step.kind);
    if (!kind.takes_d) continue;
    out.add({buffers.d[static_cast<size_t>(index)], view.d_elements(kind.broadcast) * bytes_of(view.d),
             bytes_of(view.d), "d", index, kind.name});
    ++index;
  }
  return out;
}

void check_buffers(const GemmView& view, const Buffers& buffers, size_t packed_b_bytes) {
  const UsedBuffers used = used_buffers(view, buffers, packed_b_bytes);
  for (const BufferUse& u : used) {
    if (!u.address) throw Error(ErrorCode::bad_input, "buffer " + u.title() + " is null");
    if (reinterpret_cast<uintptr_t>(u.address) % static_cast<uintptr_t>(u.alignment)) {
      throw Error(ErrorCode::bad_input, "buffer " + u.title() + " is not aligned to its " +
                                            std::to_string(u.alignment) + "-byte elements");
    }
  }
  const BufferUse& c = *used.begin();
  for (const BufferUse& u : used) {
    if (&u != &c && c.overlaps(u)) {
      throw Error(ErrorCode::bad_input, "buffer c overlaps buffer " + u.title(),
                  "give C memory of its own; C = ... + beta * C needs no second buffer");
    }
  }
  if (buffers.workspace && reinterpret_cast<uintptr_t>(buffers.workspace) % 64) {
    throw Error(ErrorCode::bad_input, "the workspace is not 64-byte aligned");
  }
}

Operand b_to_pack(const GemmView& view, int64_t ldb) {
  if (!view.b_prepacked)
    throw Error(ErrorCode::unsupported, "this kernel takes B as it is", "add prepack=b to the problem");
  Operand o = view.b;
  if (ldb == Problem::kPacked) return o;
  if (!view.b.plain()) throw Error(ErrorCode::bad_input, "a filter has no leading dimension");
  if (ldb < o.contiguous()) {
    throw Error(ErrorCode::bad_input, "a line of B has " + std::to_string(o.contiguous()) +
                                          " elements, more than its leading dimension " +
                                          std::to_string(ldb));
  }
  (o.row_major() ? o.row_stride : o.col_stride) = ldb;
  if (o.group_stride != 0) o.group_stride = ldb * (o.row_major() ? o.rows : o.cols);
  return o;
}

}  // namespace tessera
