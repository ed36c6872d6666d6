#include "cuda_graphs.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

#include "program.h"

namespace tessera {

#define TESSERA_DEFINE(f) decltype(&f) p_##f = nullptr;
TESSERA_BENCH_DRIVER(TESSERA_DEFINE)
#undef TESSERA_DEFINE

CUstream stream;

namespace {
CUevent before, after;
}

void check(int result, const char* what) {
  if (result) std::printf("error %d in %s\n", result, what), std::exit(1);
}

void* open_library(std::initializer_list<const char*> names) {
  for (const char* n : names)
    if (void* h = dlopen(n, RTLD_NOW)) return h;
  std::printf("%s\n", dlerror());
  std::exit(1);
}

void open_device() {
  void* h = open_library({"libcuda.so.1"});
#define TESSERA_RESOLVE(f) p_##f = reinterpret_cast<decltype(p_##f)>(dlsym(h, #f));
  TESSERA_BENCH_DRIVER(TESSERA_RESOLVE)
#undef TESSERA_RESOLVE
  CU(cuInit(0));
  CUcontext context;
  CU(cuDevicePrimaryCtxRetain(&context, 0));
  CU(cuCtxSetCurrent(context));
  CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CU(cuEventCreate(&before, 0));
  CU(cuEventCreate(&after, 0));
}

double Timed::median() const { return quantile(us, 0.5); }

void capture(Timed& c, int count, int sets) {
  CUgraph g;
  if (c.graph) CU(cuGraphExecDestroy(c.graph));
  CU(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  for (int i = 0; i < count; ++i) c.enqueue(i % sets);
  CU(cuStreamEndCapture(stream, &g));
  CU(cuGraphInstantiateWithFlags(&c.graph, g, 0));
  CU(cuGraphDestroy(g));
  c.count = count;
}
double replay(Timed& c) {
  CU(cuEventRecord(before, stream));
  CU(cuGraphLaunch(c.graph, stream));
  CU(cuEventRecord(after, stream));
  CU(cuStreamSynchronize(stream));
  float ms = 0;
  CU(cuEventElapsedTime(&ms, before, after));
  return ms * 1e3 / c.count;
}

}  // namespace tessera
