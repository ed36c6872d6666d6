#include "backend/cpu/cpu_kernel.h"

#include "tessera/error.h"

namespace tessera {

CpuKernel::CpuKernel(std::shared_ptr<CpuModule> module, const ArchSpec& arch, GemmView view,
                     const Problem& problem, const Choice& choice)
    : Kernel(problem, choice),
      module_(std::move(module)),
      entry_(module_->entry()),
      view_(std::move(view)),
      config_(choice.config),
      alpha_(static_cast<float>(problem.alpha)),
      beta_(static_cast<float>(problem.beta)),
      threads_(arch.compute_units),
      vector_bits_(arch.vector_bits) {
  const Instruction* inst = arch.find_instruction(view_.a.type, view_.b.type, config_);
  if (!inst) throw Error(ErrorCode::internal, "no instruction for config '" + to_string(config_) + "'");
  inst_ = *inst;
}

void CpuKernel::run(const Buffers& buffers) const {
  check_host_buffers(view_, buffers, panels_bytes(), packed_readers_);
  run_unchecked(buffers);
}

static_assert(tsr::EpilogueArgs::kMaxSteps == Epilogue::kMaxSteps &&
              tsr::EpilogueArgs::kMaxD == Epilogue::kMaxD);

void CpuKernel::set_steps(tsr::EpilogueArgs& e, const Buffers& buffers) const {
  int d = 0;
  for (int i = 0; i < view_.epilogue.count; ++i) {
    const EpilogueStep& step = view_.epilogue.steps[static_cast<size_t>(i)];
    e.params[i][0] = step.params[0];
    e.params[i][1] = step.params[1];
    const EpilogueKindInfo& kind = info(step.kind);
    if (!kind.takes_d) continue;
    e.d[d] = buffers.d[static_cast<size_t>(d)];
    e.d_row[d] = kind.broadcast == Broadcast::none     ? view_.d_strides.row
                 : kind.broadcast == Broadcast::column ? 1
                                                       : 0;
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
    const DStrides& strides = view_.d_strides;
    const int64_t apart = kind.broadcast == Broadcast::none  ? strides.group
                          : kind.broadcast == Broadcast::row ? strides.row_group
                                                             : 0;
    e.d[d++] = base + group * apart * bytes_of(view_.d);
  }
}

}  // namespace tessera
