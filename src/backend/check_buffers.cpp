#include "backend/check_buffers.h"

#include <string>

#include "tessera/error.h"

namespace tessera {
namespace {

struct Range {
  const char* begin = nullptr;
  int64_t bytes = 0;
  bool overlaps(const Range& o) const { return begin < o.begin + o.bytes && o.begin < begin + bytes; }
};

Range range_of(const void* p, const Operand& o) {
  return {static_cast<const char*>(p), o.extent * bytes_of(o.type)};
}

void require(const void* p, int alignment, const std::string& name) {
  if (!p) throw Error(ErrorCode::bad_input, "buffer " + name + " is null");
  if (reinterpret_cast<uintptr_t>(p) % static_cast<uintptr_t>(alignment)) {
    throw Error(ErrorCode::bad_input,
                "buffer " + name + " is not aligned to its " + std::to_string(alignment) + "-byte elements");
  }
}

}  // namespace

void check_buffers(const GemmView& view, const Buffers& buffers, size_t packed_b_bytes) {
  const bool reads_operands = view.k > 0;
  if (reads_operands) {
    require(buffers.a, bytes_of(view.a.type), "a");
    require(buffers.b, view.b_prepacked ? 4 : bytes_of(view.b.type), "b");
  }
  require(buffers.c, bytes_of(view.c.type), "c");
  const Range c = range_of(buffers.c, view.c);
  auto refuse_overlap = [&](const Range& input, const std::string& name) {
    if (c.overlaps(input)) {
      throw Error(ErrorCode::bad_input, "buffer c overlaps buffer " + name,
                  "give C memory of its own; C = ... + beta * C needs no second buffer");
    }
  };
  if (reads_operands) {
    refuse_overlap(range_of(buffers.a, view.a), "a");
    refuse_overlap(view.b_prepacked
                       ? Range{static_cast<const char*>(buffers.b), static_cast<int64_t>(packed_b_bytes)}
                       : range_of(buffers.b, view.b),
                   "b");
  }
  int used = 0;
  for (const EpilogueStep& step : view.epilogue) {
    const EpilogueKindInfo& kind = info(step.kind);
    if (!kind.takes_d) continue;
    const void* d = buffers.d[static_cast<size_t>(used++)];
    const std::string name = "d[" + std::to_string(used - 1) + "] (" + std::string(kind.name) + ")";
    require(d, bytes_of(view.d), name);
    refuse_overlap({static_cast<const char*>(d), view.d_elements(kind.broadcast) * bytes_of(view.d)}, name);
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
