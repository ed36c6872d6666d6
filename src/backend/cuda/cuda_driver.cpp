#include "backend/cuda/cuda_driver.h"

#include <algorithm>
#include <new>

#include "core/tile_math.h"
#include "tessera/error.h"

namespace tessera::cuda {
namespace {

constexpr Result kOutOfMemory = 2;

// Errors after which a context answers every call with the same error, by the range cuda.h keeps for them.
bool poisons(Result r) { return r == 700 || r == 702 || (r >= 710 && r <= 720 && r != 712 && r != 713); }

const LibCuda& require_driver() {
  std::string why;
  const LibCuda* cu = libcuda(&why);
  if (!cu) throw Error(ErrorCode::unsupported, why, "use device cpu, or install the driver");
  return *cu;
}

DevicePtr address(const void* p) { return reinterpret_cast<DevicePtr>(p); }

}  // namespace

class CudaDriver::Current {
 public:
  explicit Current(const CudaDriver& d) : Current(d, std::nothrow) {
    d.check(failed_, "making its context current");
  }
  // For destructors: false where there is no context to work in.
  Current(const CudaDriver& d, std::nothrow_t) noexcept : cu_(d.cu_) {
    Context* now = nullptr;
    if (!cu_.context_current(&now) && now == d.context_) return;
    failed_ = cu_.context_push(d.context_);
    pushed_ = !failed_;
  }
  explicit operator bool() const { return !failed_; }
  ~Current() {
    Context* gone = nullptr;
    if (pushed_) cu_.context_pop(&gone);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  const LibCuda& cu_;
  Result failed_ = 0;
  bool pushed_ = false;
};

class CudaModule : public GpuModule {
 public:
  CudaModule(std::shared_ptr<const CudaDriver> d, ModuleHandle* handle, Function* function,
             std::string symbol)
      : driver_(std::move(d)), handle_(handle), function_(function), symbol_(std::move(symbol)) {}
  ~CudaModule() override {
    if (const CudaDriver::Current current(*driver_, std::nothrow); current)
      driver_->cu_.module_unload(handle_);
  }
  void* function() const override { return function_; }
  void* function(const std::string& suffix) const override {
    const CudaDriver::Current current(*driver_);
    Function* found = nullptr;
    if (driver_->cu_.module_function(&found, handle_, (symbol_ + suffix).c_str())) {
      throw Error(ErrorCode::corrupt, "the code lacks the kernel " + symbol_ + suffix);
    }
    return found;
  }

 private:
  std::shared_ptr<const CudaDriver> driver_;
  ModuleHandle* handle_;
  Function* function_;
  std::string symbol_;
};

class CudaRecording : public Recording {
 public:
  CudaRecording(std::shared_ptr<CudaDriver> d, GraphExec* exec) : driver_(std::move(d)), exec_(exec) {}
  ~CudaRecording() override {
    if (const CudaDriver::Current current(*driver_, std::nothrow); current) driver_->cu_.exec_destroy(exec_);
  }
  double replay() override {
    CudaDriver& d = *driver_;
    std::lock_guard lock(d.recording_);
    const CudaDriver::Current current(d);
    d.check(d.cu_.event_record(d.before_, d.stream_), "timing");
    d.check(d.cu_.graph_launch(exec_, d.stream_), "running what was recorded");
    d.check(d.cu_.event_record(d.after_, d.stream_), "timing");
    d.check(d.cu_.stream_wait(d.stream_), "waiting");
    float ms = 0;
    d.check(d.cu_.event_elapsed(&ms, d.before_, d.after_), "timing");
    return static_cast<double>(ms) * 1e3;
  }

 private:
  std::shared_ptr<CudaDriver> driver_;
  GraphExec* exec_;
};

CudaDriver::CudaDriver(int ordinal) : cu_(require_driver()), ordinal_(ordinal) {
  int count = 0;
  check(cu_.device_count(&count), "counting devices");
  if (ordinal < 0 || ordinal >= count) {
    throw Error(count ? ErrorCode::bad_input : ErrorCode::unsupported,
                "there is no device cuda:" + std::to_string(ordinal) + ", this machine has " +
                    std::to_string(count) + " CUDA device(s)");
  }
  check(cu_.device_get(&device_, ordinal), "opening it");
  check(cu_.primary_retain(&context_, device_), "making its context");
  reads_host_ = attribute(kAttributePageableMemory) != 0;
}

CudaDriver::~CudaDriver() {
  if (stream_) {
    if (const Current current(*this, std::nothrow); current) {
      cu_.event_destroy(before_);
      cu_.event_destroy(after_);
      cu_.stream_destroy(stream_);
    }
  }
  if (context_) cu_.primary_release(device_);
}

void CudaDriver::fail(Result r, const std::string& doing) const {
  const char *name = nullptr, *text = nullptr;
  cu_.error_name(r, &name);
  cu_.error_text(r, &text);
  const std::string what = "cuda:" + std::to_string(ordinal_) + ": " + doing + ": " +
                           (text ? text : "unknown error") + " (" + (name ? name : std::to_string(r)) + ")";
  if (poisons(r)) {
    throw Error(ErrorCode::device, what + "; some kernel that ran on this device before broke its context",
                "start the process again; compute-sanitizer finds the kernel");
  }
  throw Error(ErrorCode::device, what,
              r == kOutOfMemory ? "free memory on the device or use a smaller problem" : "");
}

void* CudaDriver::allocate(size_t bytes) {
  Current current(*this);
  DevicePtr p = 0;
  check(cu_.allocate(&p, std::max<size_t>(bytes, 1)), "allocating memory");
  return reinterpret_cast<void*>(p);
}

void CudaDriver::release(void* memory) noexcept {
  if (!memory) return;
  if (const Current current(*this, std::nothrow); current) cu_.release(address(memory));
}

void CudaDriver::upload(void* to, const void* from, size_t bytes) {
  Current current(*this);
  if (bytes) check(cu_.upload(address(to), from, bytes), "copying to the device");
}

void CudaDriver::download(void* to, const void* from, size_t bytes) {
  Current current(*this);
  if (bytes) check(cu_.download(to, address(from), bytes), "copying from the device");
}

void CudaDriver::copy(void* to, const void* from, size_t bytes) {
  Current current(*this);
  if (bytes) check(cu_.copy(address(to), address(from), bytes), "copying on the device");
  wait();
}

void CudaDriver::fill(void* to, unsigned char byte, size_t bytes) {
  Current current(*this);
  if (bytes) check(cu_.set_bytes(address(to), byte, bytes, nullptr), "filling memory");
  wait();
}

std::unique_ptr<Recording> CudaDriver::record(int count, const Enqueue& enqueue) {
  std::lock_guard lock(recording_);
  Current current(*this);
  if (!stream_) {
    check(cu_.event_create(&before_, 0), "making an event");
    check(cu_.event_create(&after_, 0), "making an event");
    check(cu_.stream_create(&stream_, kStreamNonBlocking), "making a stream");
  }
  enqueue(0, stream_);
  check(cu_.stream_wait(stream_), "waiting");
  check(cu_.capture_begin(stream_, kCaptureThreadLocal), "recording");
  Graph* graph = nullptr;
  try {
    for (int i = 0; i < count; ++i) enqueue(i, stream_);
  } catch (...) {
    if (!cu_.capture_end(stream_, &graph) && graph) cu_.graph_destroy(graph);
    throw;
  }
  check(cu_.capture_end(stream_, &graph), "recording");
  GraphExec* exec = nullptr;
  const Result made = cu_.graph_instantiate(&exec, graph, 0);
  cu_.graph_destroy(graph);
  check(made, "recording");
  return std::make_unique<CudaRecording>(shared_from_this(), exec);
}

std::shared_ptr<GpuModule> CudaDriver::load(const Binary& binary) {
  Current current(*this);
  ModuleHandle* module = nullptr;
  Function* function = nullptr;
  if (const Result r = cu_.module_load(&module, binary.bytes.data())) {
    if (poisons(r) || r == kOutOfMemory) fail(r, "loading a kernel");
    throw Error(ErrorCode::corrupt, "the driver does not load the code of " + binary.symbol);
  }
  if (cu_.module_function(&function, module, binary.symbol.c_str())) {
    cu_.module_unload(module);
    throw Error(ErrorCode::corrupt, "the code lacks the kernel " + binary.symbol);
  }
  return std::make_shared<CudaModule>(shared_from_this(), module, function, binary.symbol);
}

void CudaDriver::allow_shared(const GpuModule& module, int bytes) {
  Current current(*this);
  check(cu_.function_set(static_cast<Function*>(module.function()), kFunctionMaxDynamicShared, bytes),
        "asking for shared memory");
}

int CudaDriver::resident_blocks(const GpuModule& module, int threads, int shared_bytes, int cluster) {
  Current current(*this);
  auto* function = static_cast<Function*>(module.function());
  const int units = attribute(kAttributeMultiprocessors);
  int count = 0;
  if (cluster == 1) {
    check(cu_.active_blocks(&count, function, threads, static_cast<size_t>(shared_bytes)),
          "asking for occupancy");
    return count * units;
  }
  LaunchAttribute a{};
  a.id = kClusterDimension;
  a.value.cluster = {static_cast<unsigned>(cluster), 1, 1};
  const LaunchConfig config = {static_cast<unsigned>(units / cluster * cluster),
                               1,
                               1,
                               static_cast<unsigned>(threads),
                               1,
                               1,
                               static_cast<unsigned>(shared_bytes),
                               nullptr,
                               &a,
                               1};
  check(cu_.active_clusters(&count, function, &config), "asking for occupancy");
  return count * cluster;
}

void CudaDriver::launch(const GpuLaunch& l, void* params) {
  Current current(*this);
  LaunchAttribute overlap{};
  overlap.id = kProgrammaticStreamSerialization;
  overlap.value.flag = 1;
  const LaunchConfig config = {
      l.grid, 1, 1, l.block, 1, 1, l.shared_bytes, static_cast<Stream*>(l.stream), &overlap, l.overlap};
  void* arguments[] = {params};
  check(cu_.launch(&config, static_cast<Function*>(l.function), arguments, nullptr), "launching a kernel");
}

void CudaDriver::zero(void* memory, size_t bytes, void* stream) {
  Current current(*this);
  check(cu_.set_bytes(address(memory), 0, bytes, static_cast<Stream*>(stream)), "clearing memory");
}

void CudaDriver::wait() {
  Current current(*this);
  check(cu_.synchronize(), "waiting");
}

void CudaDriver::require_own(const void* memory, const char* name) const {
  constexpr int kAsked[] = {kPointerMemoryType, kPointerDevice};
  unsigned type = 0;
  int device = -1;
  void* answers[] = {&type, &device};
  if (cu_.pointer_facts(2, kAsked, answers, address(const_cast<void*>(memory)))) return;
  const std::string self = "cuda:" + std::to_string(ordinal_);
  if (type == kMemoryTypeDevice && device != device_) {
    throw Error(ErrorCode::bad_input,
                std::string("buffer ") + name + " is memory of device " + std::to_string(device) +
                    ", the kernel runs on " + self,
                "copy it there, or make a dispatcher for its device");
  }
  if (type == 0 && !reads_host_) {
    throw Error(ErrorCode::bad_input,
                std::string("buffer ") + name + " is no memory that " + self + " can reach",
                "copy it to memory of the device");
  }
}

int CudaDriver::attribute(int id) const {
  int value = 0;
  check(cu_.device_attribute(&value, id, device_), "asking for an attribute");
  return value;
}

std::string CudaDriver::name() const {
  char text[128] = {};
  check(cu_.device_name(text, sizeof text, device_), "asking for its name");
  return text;
}

tsr::TensorMap CudaDriver::encode(const BoxedTensor& t, const void* at, const char* what) const {
  const auto size = static_cast<uint64_t>(t.element);
  const uint64_t dims[] = {t.inner, t.outer, t.groups};
  const uint64_t strides[] = {t.outer_stride * size, t.group_stride * size};
  const uint32_t box[] = {t.box_inner, t.box_outer, 1}, ones[] = {1, 1, 1};
  // Swizzles 32B, 64B, 128B are 1, 2, 3 in the driver's order.
  const uint32_t bytes = t.box_inner * static_cast<uint32_t>(t.element);
  const int swizzle = bytes == 128 ? 3 : bytes == 64 ? 2 : bytes == 32 ? 1 : 0;
  // Of 256 bytes that L2 is asked for, half would be another row's where rows do not begin with lines.
  const bool lines = strides[0] % kTmaLine == 0 && strides[1] % kTmaLine == 0;
  tsr::TensorMap map;
  Current current(*this);
  if (const Result r =
          cu_.encode_tiled(&map, static_cast<int>(t.type), 3, const_cast<void*>(at), dims, strides, box, ones,
                           0, swizzle, lines ? kMapPromote256 : kMapPromote128, 0)) {
    throw Error(ErrorCode::bad_input,
                std::string("the driver makes no tensor map of buffer ") + what + " (error " +
                    std::to_string(r) + ")",
                "align it to 16 bytes");
  }
  return map;
}

}  // namespace tessera::cuda
