// Work on a CUDA device as graphs that are replayed and timed, with nothing of CUDA linked.
#pragma once

#include <cuda.h>

#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

namespace tessera {

// clang-format off
#define TESSERA_BENCH_DRIVER(X) \
  X(cuInit) \
  X(cuDevicePrimaryCtxRetain) \
  X(cuCtxSetCurrent) \
  X(cuStreamCreate) \
  X(cuStreamSynchronize) \
  X(cuStreamBeginCapture_v2) \
  X(cuStreamEndCapture) \
  X(cuGraphInstantiateWithFlags) \
  X(cuGraphLaunch) \
  X(cuGraphDestroy) \
  X(cuGraphExecDestroy) \
  X(cuEventCreate) \
  X(cuEventRecord) \
  X(cuEventElapsedTime) \
  X(cuMemAlloc_v2) \
  X(cuMemFree_v2) \
  X(cuMemcpyHtoD_v2) \
  X(cuMemcpyDtoH_v2) \
  X(cuMemcpyDtoD_v2) \
  X(cuMemsetD8Async)
// clang-format on
#define TESSERA_DECLARE(f) extern decltype(&f) p_##f;
TESSERA_BENCH_DRIVER(TESSERA_DECLARE)
#undef TESSERA_DECLARE

// Ends the program where `result` is an error.
void check(int result, const char* what);
#define CU(call) check(p_##call, #call)

// The first of these libraries that is there; ends the program where none is.
void* open_library(std::initializer_list<const char*> names);

extern CUstream stream;

// The driver, the first device's primary context, the stream.
void open_device();

struct Timed {
  std::string name;
  std::function<void(int)> enqueue;  // on buffer set i
  CUgraphExec graph = nullptr;
  int count = 0;
  std::vector<double> us{};

  double median() const;
};

// `count` launches, over `sets` sets of buffers in turn.
void capture(Timed& c, int count, int sets);
// Microseconds of one launch.
double replay(Timed& c);

}  // namespace tessera
