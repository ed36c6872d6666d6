#include "backend/check_buffers.h"

#include <string>

#include "backend/packed_seal.h"
#include "base/text.h"
#include "core/factor.h"
#include "core/tile_math.h"
#include "tessera/error.h"

namespace tessera {
namespace {

constexpr int kPackedAlign = 4;

void check_address(const BufferUse& u) {
  if (!u.address) throw Error(ErrorCode::bad_input, "buffer " + u.title() + " is null");
  if (reinterpret_cast<uintptr_t>(u.address) % static_cast<uintptr_t>(u.alignment)) {
    throw Error(ErrorCode::bad_input, "buffer " + u.title() + " is not aligned to its " +
                                          std::to_string(u.alignment) + "-byte elements");
  }
}

BufferUse use_of(const void* p, const Operand& o, const char* name) {
  return {p, o.extent * bytes_of(o.type), bytes_of(o.type), name};
}

// The kernels compute in f32.
void check_factor(const char* name, const std::optional<double>& factor) {
  if (factor && !is_finite_f32(*factor)) {
    throw Error(ErrorCode::bad_input, std::string(name) + " of the buffers is " + number_text(*factor),
                "it is a finite number within the range of f32");
  }
}

}  // namespace

std::string BufferUse::title() const {
  if (step.empty()) return name;
  return std::string(name) + '[' + std::to_string(index) + "] (" + std::string(step) + ')';
}

UsedBuffers used_buffers(const GemmView& view, const Buffers& buffers, size_t packed_b_bytes) {
  UsedBuffers out;
  out.add(use_of(buffers.c, view.c, "c"));
  if (view.k > 0) {
    out.add(use_of(buffers.a, view.a, "a"));
    out.add(view.b_prepacked ? BufferUse{buffers.b, static_cast<int64_t>(packed_b_bytes), kPackedAlign, "b"}
                             : use_of(buffers.b, view.b, "b"));
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
  for (const BufferUse& u : used) check_address(u);
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
  check_factor("alpha", buffers.alpha);
  check_factor("beta", buffers.beta);
}

void check_host_buffers(const GemmView& view, const Buffers& buffers, size_t panels, uint64_t readers) {
  check_buffers(view, buffers, panels > 0 ? panels + kPackedSealBytes : 0);
  if (panels > 0 && view.k > 0) check_packed_seal(static_cast<const char*>(buffers.b) + panels, readers);
}

void check_packing(const Operand& from, const void* b, void* packed, size_t packed_b_bytes) {
  if (packed_b_bytes == 0) return;
  const BufferUse source = use_of(b, from, "b");
  const BufferUse to{packed, static_cast<int64_t>(packed_b_bytes), kPackedAlign, "packed"};
  check_address(source);
  check_address(to);
  if (to.overlaps(source)) {
    throw Error(ErrorCode::bad_input, "buffer packed overlaps buffer b", "give packed B memory of its own");
  }
}

Operand b_to_pack(const GemmView& view, int64_t ldb) {
  if (!view.b_prepacked)
    throw Error(ErrorCode::unsupported, "this kernel takes B as it is", "add prepack=b to the problem");
  Operand o = view.b;
  if (ldb == Problem::kPacked) return o;
  if (!view.b.plain()) throw Error(ErrorCode::bad_input, "a filter has no leading dimension");
  // By the layout, not the strides: with a k of 1 both of a packed B are 1.
  const bool rows = b_is_row_major(view.layout);
  const int64_t contiguous = rows ? o.cols : o.rows;
  if (ldb < contiguous) {
    throw Error(ErrorCode::bad_input, "a line of B has " + std::to_string(contiguous) +
                                          " elements, more than its leading dimension " +
                                          std::to_string(ldb));
  }
  constexpr int64_t kMost = int64_t{1} << 60;
  const int64_t lines = rows ? o.rows : o.cols;
  if (saturated_product({ldb, lines, view.groups, bytes_of(o.type)}) > kMost) {
    throw Error(ErrorCode::bad_input, "the leading dimension of B " + std::to_string(ldb) + " is too large");
  }
  (rows ? o.row_stride : o.col_stride) = ldb;
  (rows ? o.col_stride : o.row_stride) = 1;
  if (o.group_stride != 0) o.group_stride = ldb * lines;
  o.extent = o.reach(view.groups);
  return o;
}

}  // namespace tessera
