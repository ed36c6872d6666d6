// The driver library, found at run time. The few types of its interface are declared here, so that building
// needs no CUDA; a test compares them with cuda.h where there is one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace tessera::cuda {

using Result = int;  // 0 is success
using Device = int;
using DevicePtr = unsigned long long;
struct Context;
struct ModuleHandle;
struct Function;
struct Stream;
struct Event;
struct Graph;
struct GraphExec;

struct LaunchAttribute {
  int id;
  char pad[4];
  union Value {
    char bytes[64];
    struct {
      unsigned x, y, z;
    } cluster;
    int flag;
  } value;
};
inline constexpr int kClusterDimension = 4, kProgrammaticStreamSerialization = 6;

struct LaunchConfig {
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
  Stream* stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};

inline constexpr int kAttributeClockKhz = 13, kAttributeMultiprocessors = 16, kAttributeL2Bytes = 38,
                     kAttributeMajor = 75, kAttributeMinor = 76, kAttributePageableMemory = 88;
inline constexpr int kPointerMemoryType = 2, kPointerDevice = 9;
inline constexpr unsigned kMemoryTypeDevice = 2;  // 0: memory that CUDA knows nothing of
inline constexpr int kFunctionMaxDynamicShared = 8;
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr int kCaptureThreadLocal = 1;

enum class MapType : int { u8 = 0, i32 = 3, f16 = 6, f32 = 7, bf16 = 9 };
inline constexpr int kMapPromote128 = 2, kMapPromote256 = 3;

// X(member, symbol, arguments)
#define TESSERA_LIBCUDA(X)                                                                                 \
  X(init, "cuInit", (unsigned))                                                                            \
  X(error_name, "cuGetErrorName", (Result, const char**))                                                  \
  X(error_text, "cuGetErrorString", (Result, const char**))                                                \
  X(device_count, "cuDeviceGetCount", (int*))                                                              \
  X(device_get, "cuDeviceGet", (Device*, int))                                                             \
  X(device_name, "cuDeviceGetName", (char*, int, Device))                                                  \
  X(device_attribute, "cuDeviceGetAttribute", (int*, int, Device))                                         \
  X(primary_retain, "cuDevicePrimaryCtxRetain", (Context**, Device))                                       \
  X(primary_release, "cuDevicePrimaryCtxRelease_v2", (Device))                                             \
  X(context_current, "cuCtxGetCurrent", (Context**))                                                       \
  X(context_push, "cuCtxPushCurrent_v2", (Context*))                                                       \
  X(context_pop, "cuCtxPopCurrent_v2", (Context**))                                                        \
  X(synchronize, "cuCtxSynchronize", ())                                                                   \
  X(allocate, "cuMemAlloc_v2", (DevicePtr*, size_t))                                                       \
  X(release, "cuMemFree_v2", (DevicePtr))                                                                  \
  X(upload, "cuMemcpyHtoD_v2", (DevicePtr, const void*, size_t))                                           \
  X(download, "cuMemcpyDtoH_v2", (void*, DevicePtr, size_t))                                               \
  X(copy, "cuMemcpyDtoD_v2", (DevicePtr, DevicePtr, size_t))                                               \
  X(pointer_facts, "cuPointerGetAttributes", (unsigned, const int*, void**, DevicePtr))                    \
  X(set_bytes, "cuMemsetD8Async", (DevicePtr, unsigned char, size_t, Stream*))                             \
  X(stream_create, "cuStreamCreate", (Stream**, unsigned))                                                 \
  X(stream_destroy, "cuStreamDestroy_v2", (Stream*))                                                       \
  X(stream_wait, "cuStreamSynchronize", (Stream*))                                                         \
  X(capture_begin, "cuStreamBeginCapture_v2", (Stream*, int))                                              \
  X(capture_end, "cuStreamEndCapture", (Stream*, Graph**))                                                 \
  X(graph_destroy, "cuGraphDestroy", (Graph*))                                                             \
  X(graph_instantiate, "cuGraphInstantiateWithFlags", (GraphExec**, Graph*, unsigned long long))           \
  X(graph_launch, "cuGraphLaunch", (GraphExec*, Stream*))                                                  \
  X(exec_destroy, "cuGraphExecDestroy", (GraphExec*))                                                      \
  X(event_create, "cuEventCreate", (Event**, unsigned))                                                    \
  X(event_destroy, "cuEventDestroy_v2", (Event*))                                                          \
  X(event_record, "cuEventRecord", (Event*, Stream*))                                                      \
  X(event_elapsed, "cuEventElapsedTime", (float*, Event*, Event*))                                         \
  X(module_load, "cuModuleLoadData", (ModuleHandle**, const void*))                                        \
  X(module_unload, "cuModuleUnload", (ModuleHandle*))                                                      \
  X(module_function, "cuModuleGetFunction", (Function**, ModuleHandle*, const char*))                      \
  X(function_set, "cuFuncSetAttribute", (Function*, int, int))                                             \
  X(launch, "cuLaunchKernelEx", (const LaunchConfig*, Function*, void**, void**))                          \
  X(active_clusters, "cuOccupancyMaxActiveClusters", (int*, Function*, const LaunchConfig*))               \
  X(active_blocks, "cuOccupancyMaxActiveBlocksPerMultiprocessor", (int*, Function*, int, size_t))          \
  X(encode_tiled, "cuTensorMapEncodeTiled",                                                                \
    (void*, int, uint32_t, void*, const uint64_t*, const uint64_t*, const uint32_t*, const uint32_t*, int, \
     int, int, int))

struct LibCuda {
#define TESSERA_MEMBER(member, symbol, arguments) Result(*member) arguments = nullptr;
  TESSERA_LIBCUDA(TESSERA_MEMBER)
#undef TESSERA_MEMBER
};

// Null when there is no usable driver, with the reason in *why.
const LibCuda* libcuda(std::string* why);

}  // namespace tessera::cuda
