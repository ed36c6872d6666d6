#include "tessera/kernel.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "capi/capi.h"
#include "tessera/error.h"

using namespace tessera;
using namespace tessera::capi;

namespace {

static_assert(TSR_MAX_D == Epilogue::kMaxD);

// Where members of the first version end; a longer struct comes from a newer header.
constexpr uint32_t kLeastSize = offsetof(tsr_buffers, bias_grad);

Buffers read_buffers(const tsr_buffers* in) {
  if (!in) throw Error(ErrorCode::bad_input, "the buffers are null");
  if (in->size < kLeastSize) {
    throw Error(ErrorCode::bad_input, "the buffers' size is " + std::to_string(in->size),
                "set it to sizeof(tsr_buffers)");
  }
  if (in->flags & ~uint32_t{TSR_HAS_ALPHA | TSR_HAS_BETA | TSR_UNCHECKED}) {
    throw Error(ErrorCode::bad_input, "the buffers have unknown flags " + std::to_string(in->flags));
  }
  Buffers out{.a = in->a, .b = in->b, .c = in->c, .stream = in->stream, .workspace = in->workspace};
  std::copy(std::begin(in->d), std::end(in->d), out.d.begin());
  if (in->size >= sizeof(tsr_buffers)) out.bias_grad = in->bias_grad;
  if (in->flags & TSR_HAS_ALPHA) out.alpha = in->alpha;
  if (in->flags & TSR_HAS_BETA) out.beta = in->beta;
  return out;
}

Json info_json(const KernelObject& object) {
  const Kernel& k = *object.kernel;
  return Json::object({{"problem", to_string(k.problem())},
                       {"config", to_string(k.choice().config)},
                       {"source", to_string(k.choice().source)},
                       {"predicted_us", k.choice().predicted_us},
                       {"workspace_bytes", static_cast<uint64_t>(k.workspace_bytes())},
                       {"packed_b_bytes", static_cast<uint64_t>(k.packed_b_bytes())},
                       {"host_memory", k.memory() == nullptr},
                       {"build", Json::object({{"from", to_string(object.build.from)},
                                               {"select_us", object.build.select_us},
                                               {"build_ms", object.build.build_ms}})}});
}

constexpr size_t kAlign = 256;

}  // namespace

extern "C" {

tsr_status tsr_kernel_info(tsr_kernel* kernel, char** json) {
  return guarded([&] {
    require_out(json, "answer");
    *json = copy_text(info_json(*checked(kernel)).dump());
  });
}

tsr_status tsr_kernel_run(tsr_kernel* kernel, const tsr_buffers* buffers) {
  return guarded([&] {
    const auto held = checked(kernel);
    const Kernel& k = *held->kernel;
    const Buffers b = read_buffers(buffers);
    if (buffers->flags & TSR_UNCHECKED) {
      k.run_unchecked(b);
    } else {
      k.run(b);
    }
  });
}

tsr_status tsr_kernel_wait(tsr_kernel* kernel) {
  return guarded([&] { checked(kernel)->kernel->wait(); });
}

tsr_status tsr_kernel_pack_b(tsr_kernel* kernel, const void* b, void* packed, int64_t ldb) {
  return guarded([&] {
    const auto held = checked(kernel);
    held->kernel->pack_b(b, packed, ldb);
  });
}

tsr_status tsr_allocate(tsr_kernel* kernel, size_t bytes, void** memory) {
  return guarded([&] {
    require_out(memory, "memory's address");
    const auto held = checked(kernel);
    DeviceMemory* device = held->kernel->memory();
    if (bytes > SIZE_MAX - kAlign) throw std::bad_alloc();
    const size_t rounded = (std::max<size_t>(bytes, 1) + kAlign - 1) / kAlign * kAlign;
    void* got = device ? device->allocate(rounded) : std::aligned_alloc(kAlign, rounded);
    if (!got) throw std::bad_alloc();
    *memory = got;
  });
}

tsr_status tsr_release(tsr_kernel* kernel, void* memory) {
  return guarded([&] {
    const auto held = checked(kernel);
    DeviceMemory* device = held->kernel->memory();
    if (!memory) return;
    if (device) {
      device->release(memory);
    } else {
      std::free(memory);
    }
  });
}

tsr_status tsr_copy(tsr_kernel* kernel, void* to, const void* from, size_t bytes, int direction) {
  return guarded([&] {
    const auto held = checked(kernel);
    DeviceMemory* device = held->kernel->memory();
    if (direction != TSR_TO_DEVICE && direction != TSR_TO_HOST)
      throw Error(ErrorCode::bad_input, "unknown direction");
    if (bytes == 0) return;
    if (!to || !from) throw Error(ErrorCode::bad_input, to ? "from is null" : "to is null");
    if (!device) {
      std::memmove(to, from, bytes);
    } else if (direction == TSR_TO_DEVICE) {
      device->upload(to, from, bytes);
    } else {
      device->download(to, from, bytes);
    }
  });
}

}  // extern "C"
