/* A GEMM with bias and relu from C: choose, compile, run, and ask what was chosen. */
#include <stdio.h>

#include "tessera/tessera.h"

#define M 16
#define N 24
#define K 32

static int fail(void) {
  fprintf(stderr, "%s\n", tsr_last_error());
  return 1;
}

int main(void) {
  static float a[M * K], b[K * N], bias[N], c[M * N];
  for (int i = 0; i < M * K; ++i) a[i] = 0.5f;
  for (int i = 0; i < K * N; ++i) b[i] = 2.0f;
  for (int i = 0; i < N; ++i) bias[i] = i % 2 ? 1.0f : -100.0f;

  tsr_dispatcher* dispatcher;
  tsr_kernel* kernel;
  if (tsr_dispatcher_create("{\"threads\": 1}", NULL, NULL, NULL, &dispatcher)) return fail();
  if (tsr_get(dispatcher, "gemm m=16 n=24 k=32 dtype=f32 layout=rrr epilogue=bias,relu", &kernel))
    return fail();

  const tsr_buffers buffers = {.size = sizeof buffers, .a = a, .b = b, .c = c, .d = {bias}};
  if (tsr_kernel_run(kernel, &buffers)) return fail();
  for (int i = 0; i < M * N; ++i) {
    if (c[i] != (i % 2 ? 33.0f : 0.0f)) {
      fprintf(stderr, "c[%d] is %g\n", i, c[i]);
      return 1;
    }
  }

  char* json;
  if (tsr_kernel_info(kernel, &json)) return fail();
  puts(json);
  tsr_free(json);
  tsr_dispatcher_destroy(dispatcher);
  return 0;
}
