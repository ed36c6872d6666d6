#include "backend/cpu/cpu_kernel.h"

#include <algorithm>

#include "core/tile_math.h"
#include "tessera/error.h"

namespace tessera {
namespace {

struct Range {
  const char* begin = nullptr;
  int64_t bytes = 0;
  bool overlaps(const Range& o) const { return begin < o.begin + o.bytes && o.begin < begin + bytes; }
};

Range range_of(const void* p, const Operand& o, int64_t groups) {
  if (o.rows == 0 || o.cols == 0) return {};
  const int64_t last =
      (groups - 1) * o.group_stride + (o.rows - 1) * o.row_stride + (o.cols - 1) * o.col_stride;
  return {static_cast<const char*>(p), (last + 1) * bytes_of(o.type)};
}

void require(const void* p, int alignment, const char* name) {
  if (!p) throw Error(ErrorCode::bad_input, std::string("buffer ") + name + " is null");
  if (reinterpret_cast<uintptr_t>(p) % static_cast<uintptr_t>(alignment)) {
    throw Error(ErrorCode::bad_input, std::string("buffer ") + name + " is not aligned to its " +
                                          std::to_string(alignment) + "-byte elements");
  }
}

}  // namespace

CpuKernel::CpuKernel(std::shared_ptr<CpuModule> module, const ArchSpec& arch, const Problem& problem,
                     const Choice& choice)
    : Kernel(problem, choice),
      module_(std::move(module)),
      entry_(module_->entry()),
      view_(lower(problem)),
      config_(choice.config),
      threads_(arch.compute_units),
      vector_bits_(arch.vector_bits) {
  const Instruction* inst = arch.find_instruction(view_.a.type, view_.b.type, config_);
  if (!inst) throw Error(ErrorCode::internal, "no instruction for config '" + to_string(config_) + "'");
  inst_ = *inst;
}

void CpuKernel::run(const Buffers& buffers) const {
  check(buffers);
  run_unchecked(buffers);
}

void CpuKernel::pack_b(const void*, void*, int64_t) const {
  throw Error(ErrorCode::unsupported, "this kernel takes B as it is", "add prepack=b to the problem");
}

void CpuKernel::check(const Buffers& buffers) const {
  const bool reads_operands = view_.k > 0;
  if (reads_operands) {
    require(buffers.a, bytes_of(view_.a.type), "a");
    require(buffers.b, view_.b_prepacked ? 4 : bytes_of(view_.b.type), "b");
  }
  require(buffers.c, bytes_of(view_.c.type), "c");
  const Range c = range_of(buffers.c, view_.c, view_.groups);
  auto refuse_overlap = [&](const Range& input, const char* name) {
    if (c.overlaps(input)) {
      throw Error(ErrorCode::bad_input, std::string("buffer c overlaps buffer ") + name,
                  "give C memory of its own; C = ... + beta * C needs no second buffer");
    }
  };
  if (reads_operands) {
    refuse_overlap(range_of(buffers.a, view_.a, view_.groups), "a");
    refuse_overlap(view_.b_prepacked
                       ? Range{static_cast<const char*>(buffers.b), static_cast<int64_t>(packed_b_bytes())}
                       : range_of(buffers.b, view_.b, view_.groups),
                   "b");
  }
  int used = 0;
  for (const EpilogueStep& step : view_.epilogue) {
    const EpilogueKindInfo& kind = info(step.kind);
    if (!kind.takes_d) continue;
    const void* d = buffers.d[static_cast<size_t>(used++)];
    const std::string name = "d[" + std::to_string(used - 1) + "] (" + std::string(kind.name) + ")";
    require(d, bytes_of(view_.d), name.c_str());
    const int64_t elements = kind.broadcast == Broadcast::row      ? view_.n
                             : kind.broadcast == Broadcast::column ? view_.m
                                                                   : view_.groups * view_.m * view_.n;
    refuse_overlap({static_cast<const char*>(d), elements * bytes_of(view_.d)}, name.c_str());
  }
  if (buffers.workspace && reinterpret_cast<uintptr_t>(buffers.workspace) % 64) {
    throw Error(ErrorCode::bad_input, "the workspace is not 64-byte aligned");
  }
}

void CpuKernel::set_epilogue(tsr::EpilogueArgs& e, const Buffers& buffers) const {
  e.c = buffers.c;
  e.c_stride = view_.c.row_stride;
  e.alpha = static_cast<float>(buffers.alpha.value_or(problem_.alpha));
  e.beta = static_cast<float>(buffers.beta.value_or(problem_.beta));
  e.plain = e.alpha == 1.0f && e.beta == 0.0f;
  int d = 0;
  for (int i = 0; i < view_.epilogue.count; ++i) {
    const EpilogueStep& step = view_.epilogue.steps[static_cast<size_t>(i)];
    e.params[i][0] = step.params[0];
    e.params[i][1] = step.params[1];
    const EpilogueKindInfo& kind = info(step.kind);
    if (!kind.takes_d) continue;
    e.d[d] = buffers.d[static_cast<size_t>(d)];
    e.d_row[d] = kind.broadcast == Broadcast::none ? view_.n : kind.broadcast == Broadcast::column ? 1 : 0;
    e.d_col[d] = kind.broadcast == Broadcast::column ? 0 : 1;
    ++d;
  }
}

void CpuKernel::set_group(tsr::EpilogueArgs& e, const Buffers& buffers, int64_t group) const {
  e.c = static_cast<char*>(buffers.c) + group * view_.c.group_stride * bytes_of(view_.c.type);
  int d = 0;
  for (const EpilogueStep& step : view_.epilogue) {
    const EpilogueKindInfo& kind = info(step.kind);
    if (!kind.takes_d) continue;
    const char* base = static_cast<const char*>(buffers.d[static_cast<size_t>(d)]);
    e.d[d++] =
        kind.broadcast == Broadcast::none ? base + group * view_.m * view_.n * bytes_of(view_.d) : base;
  }
}

}  // namespace tessera
