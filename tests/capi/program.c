/* program PROBLEM C.bin A.bin B.bin [D.bin ...]: one problem through the C ABI, operands from files, C to a file.
 * Prints the chosen config. Without arguments: what a C program sees of the ABI, checked. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tessera/tessera.h"

#define EXPECT(condition)                                                                      \
  do {                                                                                         \
    if (!(condition)) {                                                                        \
      fprintf(stderr, "line %d: %s; last error: %s\n", __LINE__, #condition, tsr_last_error()); \
      return 1;                                                                                \
    }                                                                                          \
  } while (0)

static void* read_whole(const char* path, size_t* bytes) {
  FILE* file = fopen(path, "rb");
  if (!file) return NULL;
  fseek(file, 0, SEEK_END);
  *bytes = (size_t)ftell(file);
  rewind(file);
  void* data = aligned_alloc(64, (*bytes / 64 + 1) * 64);
  if (data && fread(data, 1, *bytes, file) != *bytes) {
    free(data);
    data = NULL;
  }
  fclose(file);
  return data;
}

static size_t count_calls(void* user, const char* problem, const tsr_candidate* candidates, size_t count,
                          size_t* order) {
  (void)problem;
  (void)candidates;
  ++*(int*)user;
  order[0] = count - 1; /* the worst predicted one */
  return 1;
}

static void count_progress(void* user, size_t done, size_t total, const char* what) {
  (void)what;
  if (done <= total) ++*(int*)user;
}

static int keep_none(void* user, const char* declaration) {
  (void)user;
  return strstr(declaration, "cpu_packed") == NULL;
}

static int check_abi(void) {
  const char* problem = "gemm m=8 n=16 k=4 dtype=f32 layout=rrr epilogue=bias,relu";
  float a[8 * 4], b[4 * 16], bias[16], c[8 * 16];
  for (int i = 0; i < 32; ++i) a[i] = 1;
  for (int i = 0; i < 64; ++i) b[i] = 2;
  for (int i = 0; i < 16; ++i) bias[i] = (float)(i - 12);
  memset(c, 0xff, sizeof c);

  EXPECT(tsr_abi_version() == TSR_ABI_VERSION);
  EXPECT(strchr(tsr_version(), '.'));

  tsr_dispatcher* d = NULL;
  EXPECT(tsr_dispatcher_create("{\"thread\": 1}", NULL, NULL, NULL, &d) == TSR_BAD_INPUT);
  EXPECT(strstr(tsr_last_error(), "thread") && !d);
  EXPECT(tsr_dispatcher_create("{\"threads\": 1}", NULL, NULL, NULL, &d) == TSR_OK);

  tsr_kernel *k = NULL, *again = NULL;
  EXPECT(tsr_get(d, "gemm m=8 n=16 k=4 dtype=half", &k) == TSR_BAD_INPUT);
  EXPECT(strstr(tsr_last_error(), "unknown dtype 'half'"));
  EXPECT(tsr_get(d, problem, &k) == TSR_OK);
  EXPECT(tsr_get(d, problem, &again) == TSR_OK && again == k);

  tsr_buffers buffers = {.size = sizeof buffers, .a = a, .b = b, .c = c, .d = {bias}};
  EXPECT(tsr_kernel_run(k, &buffers) == TSR_OK);
  for (int i = 0; i < 8 * 16; ++i) {
    const float right = 8 + (float)(i % 16 - 12);
    EXPECT(c[i] == (right > 0 ? right : 0));
  }
  buffers.alpha = 2;
  buffers.flags = TSR_HAS_ALPHA;
  EXPECT(tsr_run(d, problem, &buffers) == TSR_OK && c[15] == 19);
  buffers.flags = 64;
  EXPECT(tsr_kernel_run(k, &buffers) == TSR_BAD_INPUT);
  buffers.flags = 0;
  buffers.b = NULL;
  EXPECT(tsr_kernel_run(k, &buffers) == TSR_BAD_INPUT && strstr(tsr_last_error(), "buffer b is null"));
  buffers.size = 4;
  EXPECT(tsr_kernel_run(k, &buffers) == TSR_BAD_INPUT);
  EXPECT(tsr_kernel_wait(k) == TSR_OK);

  char* json = NULL;
  EXPECT(tsr_kernel_info(k, &json) == TSR_OK && strstr(json, "\"config\""));
  tsr_free(json);
  EXPECT(tsr_explain(d, problem, "{\"rejected\": true}", &json) == TSR_OK && strstr(json, "\"rule\""));
  tsr_free(json);
  EXPECT(tsr_emit(d, problem, 0, &json) == TSR_OK && strstr(json, "#include"));
  tsr_free(json);
  EXPECT(tsr_describe("problem", problem, &json) == TSR_OK && strstr(json, "\"d0\""));
  tsr_free(json);
  EXPECT(tsr_describe("library", NULL, &json) == TSR_OK && strstr(json, "\"knobs\""));
  tsr_free(json);

  void* memory = NULL;
  EXPECT(tsr_allocate(k, 100, &memory) == TSR_OK && (size_t)memory % 256 == 0);
  EXPECT(tsr_copy(k, memory, a, sizeof(float), TSR_TO_DEVICE) == TSR_OK);
  EXPECT(tsr_copy(k, b, memory, sizeof(float), TSR_TO_HOST) == TSR_OK && b[0] == 1);
  EXPECT(tsr_release(k, memory) == TSR_OK);

  int calls = 0;
  EXPECT(tsr_build(d, "gemm m=8 n=8 k=8 dtype=f32 layout=rrr\n# none\ngemm m=9 n=8 k=8 dtype=f32 layout=rrr\n", 1,
                   count_progress, &calls, &json) == TSR_OK);
  EXPECT(calls == 2 && strcmp(json, "[\"\",\"\"]") == 0);
  tsr_free(json);

  tsr_registry* r = NULL;
  size_t count = 0;
  EXPECT(tsr_registry_create("mine", "any cpu_packed\nany cpu_direct\n", &r) == TSR_OK);
  EXPECT(tsr_registry_add(r, "any cpu_packed priority=3\n", &count) == TSR_OK && count == 1);
  EXPECT(tsr_registry_filter(r, keep_none, NULL, &count) == TSR_OK && count == 1);
  EXPECT(tsr_registry_json(r, &json) == TSR_OK && strstr(json, "cpu_direct") && !strstr(json, "cpu_packed"));
  tsr_free(json);

  calls = 0;
  tsr_dispatcher* chosen = NULL;
  EXPECT(tsr_dispatcher_create(NULL, r, count_calls, &calls, &chosen) == TSR_OK);
  tsr_registry_destroy(r);
  EXPECT(tsr_registry_json(r, &json) == TSR_BAD_INPUT);
  tsr_kernel* other = NULL;
  EXPECT(tsr_get(chosen, problem, &other) == TSR_OK && calls > 0);
  EXPECT(tsr_kernel_info(other, &json) == TSR_OK && strstr(json, "\"callback\"") && strstr(json, "cpu_direct"));
  tsr_free(json);
  tsr_dispatcher_destroy(chosen);
  EXPECT(tsr_kernel_info(other, &json) == TSR_BAD_INPUT && strstr(tsr_last_error(), "closed"));

  tsr_dispatcher_destroy(d);
  tsr_dispatcher_destroy(d);
  tsr_dispatcher_destroy(NULL);
  EXPECT(tsr_kernel_run(k, &buffers) == TSR_BAD_INPUT);
  EXPECT(tsr_kernel_run((tsr_kernel*)d, &buffers) == TSR_BAD_INPUT);
  EXPECT(tsr_job("nothing", NULL, NULL, NULL, &json) == TSR_BAD_INPUT);
  EXPECT(tsr_job("cache", "{\"action\": \"stats\"}", NULL, NULL, &json) == TSR_OK && strstr(json, "entries"));
  tsr_free(json);
  puts("c abi ok");
  return 0;
}

static int run_files(int argc, char** argv) {
  const void* inputs[2 + TSR_MAX_D] = {0};
  size_t bytes = 0, c_bytes = 0;
  void* c = read_whole(argv[2], &c_bytes);
  for (int i = 3; i < argc && i < 5 + TSR_MAX_D; ++i) EXPECT((inputs[i - 3] = read_whole(argv[i], &bytes)));
  tsr_dispatcher* d = NULL;
  tsr_kernel* k = NULL;
  EXPECT(tsr_dispatcher_create("{\"threads\": 1}", NULL, NULL, NULL, &d) == TSR_OK);
  EXPECT(tsr_get(d, argv[1], &k) == TSR_OK);
  tsr_buffers buffers = {.size = sizeof buffers, .a = inputs[0], .b = inputs[1], .c = c};
  memcpy(buffers.d, inputs + 2, sizeof buffers.d);
  EXPECT(tsr_kernel_run(k, &buffers) == TSR_OK);
  FILE* out = fopen(argv[2], "wb");
  EXPECT(out && fwrite(c, 1, c_bytes, out) == c_bytes);
  fclose(out);
  char* json = NULL;
  EXPECT(tsr_kernel_info(k, &json) == TSR_OK);
  puts(json);
  tsr_free(json);
  tsr_dispatcher_destroy(d);
  free(c);
  for (int i = 0; i < 2 + TSR_MAX_D; ++i) free((void*)inputs[i]);
  return 0;
}

int main(int argc, char** argv) { return argc < 2 ? check_abi() : run_files(argc, argv); }
