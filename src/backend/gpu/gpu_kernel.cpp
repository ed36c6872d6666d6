#include "backend/gpu/gpu_kernel.h"

#include <algorithm>
#include <type_traits>

#include "backend/check_buffers.h"
#include "core/tile_math.h"
#include "tessera/error.h"

namespace tessera {
namespace {

bool aligned(const void* p, int64_t bytes) {
  return reinterpret_cast<uintptr_t>(p) % static_cast<uintptr_t>(bytes) == 0;
}

}  // namespace

GpuKernel::GpuKernel(std::shared_ptr<GpuDriver> driver, std::shared_ptr<GpuModule> module,
                     const Problem& problem, const Choice& choice)
    : Kernel(problem, choice),
      driver_(std::move(driver)),
      module_(std::move(module)),
      view_(lower(problem)),
      config_(choice.config) {}

GpuKernel::~GpuKernel() {
  for (const auto& [stream, memory] : own_) driver_->release(memory);
}

void GpuKernel::run(const Buffers& buffers) const {
  check_buffers(view_, buffers, panels_bytes());
  check(buffers);
  check_memory(buffers);
  run_unchecked(buffers);
}

void GpuKernel::check_memory(const Buffers& buffers) const {
  for (const BufferUse& u : used_buffers(view_, buffers, panels_bytes()))
    driver_->require_own(u.address, u.name);
  if (buffers.workspace && workspace_bytes_) driver_->require_own(buffers.workspace, "workspace");
}

void GpuKernel::pack_b_unchecked(const void*, void*, int64_t) const {
  throw Error(ErrorCode::unsupported, "this kernel takes B as it is", "leave prepack=b out of the problem");
}

static_assert(std::extent_v<decltype(tsr::GpuEpilogueArgs::d)> == Epilogue::kMaxD &&
              std::extent_v<decltype(tsr::GpuEpilogueArgs::params)> == Epilogue::kMaxSteps);

tsr::GpuEpilogueArgs GpuKernel::epilogue_args(const Buffers& buffers) const {
  tsr::GpuEpilogueArgs e{};
  e.alpha = static_cast<float>(buffers.alpha.value_or(problem_.alpha));
  e.beta = static_cast<float>(buffers.beta.value_or(problem_.beta));
  e.d_batch_stride = view_.m * view_.n;
  int d = 0;
  for (int i = 0; i < view_.epilogue.count; ++i) {
    const EpilogueStep& step = view_.epilogue.steps[static_cast<size_t>(i)];
    e.params[i][0] = step.params[0];
    e.params[i][1] = step.params[1];
    if (info(step.kind).takes_d) {
      e.d[d] = buffers.d[static_cast<size_t>(d)];
      ++d;
    }
  }
  return e;
}

bool GpuKernel::wide(const Buffers& buffers) const {
  constexpr int64_t kVector = 4;
  if (view_.n % kVector) return false;
  if (view_.c.row_stride % kVector || (view_.groups > 1 && view_.c.group_stride % kVector)) return false;
  if (!aligned(buffers.c, kVector * bytes_of(view_.c.type))) return false;
  size_t d = 0;
  for (const EpilogueStep& step : view_.epilogue) {
    const EpilogueKindInfo& kind = info(step.kind);
    if (!kind.takes_d) continue;
    const void* p = buffers.d[d++];
    if (kind.broadcast == Broadcast::column) continue;
    if (!aligned(p, kVector * bytes_of(view_.d))) return false;
  }
  return true;
}

int64_t GpuKernel::resident_blocks(int threads, int shared_bytes, int cluster) const {
  driver_->allow_shared(*module_, shared_bytes);
  const int64_t resident = driver_->resident_blocks(*module_, threads, shared_bytes, cluster);
  if (resident < cluster) {
    throw Error(ErrorCode::unsupported,
                "no block of kernel '" + to_string(config_) + "' fits a multiprocessor");
  }
  return resident / cluster * cluster;
}

size_t GpuKernel::reserve(int64_t bytes) {
  constexpr int64_t kAlign = 256;
  const size_t at = workspace_bytes_;
  workspace_bytes_ += static_cast<size_t>(round_up(bytes, kAlign));
  return at;
}

void GpuKernel::reserve_parts(int64_t blocks, int64_t sums) {
  reserve(saturated_product({blocks, 4}));
  arrivals_bytes_ = workspace_bytes_;
  reserve(saturated_product({sums, 4}));
}

GpuKernel::Parts GpuKernel::parts(char* workspace) const {
  if (!arrivals_bytes_) return {nullptr, nullptr};
  return {reinterpret_cast<unsigned*>(workspace), reinterpret_cast<float*>(workspace + arrivals_bytes_)};
}

char* GpuKernel::workspace(const Buffers& buffers) const {
  if (!workspace_bytes_) return nullptr;
  const size_t zeroed = arrivals_bytes_;
  if (buffers.workspace) {
    if (zeroed) driver_->zero(buffers.workspace, zeroed, buffers.stream);
    return static_cast<char*>(buffers.workspace);
  }
  std::lock_guard lock(mutex_);
  void*& memory = own_[buffers.stream];
  if (!memory) {
    memory = driver_->allocate(workspace_bytes());
    if (zeroed) {
      driver_->zero(memory, zeroed, nullptr);
      driver_->wait();
    }
  }
  return static_cast<char*>(memory);
}

}  // namespace tessera
