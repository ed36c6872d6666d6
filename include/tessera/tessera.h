/* The C ABI. One set of functions for every operation: what to compute is the text of a problem
 * ("gemm m=512 n=512 k=512 dtype=f32", docs/text_form.md), options and answers are JSON.
 *
 *   tsr_dispatcher* d;
 *   tsr_kernel* k;
 *   if (tsr_dispatcher_create("{\"threads\": 1}", NULL, NULL, NULL, &d) ||
 *       tsr_get(d, "gemm m=64 n=64 k=64 dtype=f32", &k) ||
 *       tsr_kernel_run(k, &(tsr_buffers){.size = sizeof(tsr_buffers), .a = a, .b = b, .c = c}))
 *     fprintf(stderr, "%s\n", tsr_last_error());
 *
 * Every function may be called from any thread, several at once on one handle. A handle that was destroyed,
 * or never was one, gives TSR_BAD_INPUT; calls under way on another thread when it is destroyed end as they
 * would have.
 * Texts are UTF-8 and end in a zero. Functions that return a status write their result only when it is
 * TSR_OK.
 *
 * After a fork the child can use Tessera when the parent had created no dispatcher; otherwise the child's
 * calls give TSR_DEVICE. */
#ifndef TESSERA_TESSERA_H
#define TESSERA_TESSERA_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define TSR_API __attribute__((visibility("default")))
#else
#define TSR_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Raised when a function or a struct of this header changes incompatibly. */
#define TSR_ABI_VERSION 1

typedef enum tsr_status {
  TSR_OK = 0,
  TSR_BAD_INPUT = 1,      /* the caller's argument; nothing was written */
  TSR_UNSUPPORTED = 2,    /* nothing legal, or not on this machine */
  TSR_COMPILE_FAILED = 3, /* the compiler refused a kernel, or there is none */
  TSR_DEVICE = 4,         /* out of memory, a failed launch, a forked process */
  TSR_IO = 5,
  TSR_CORRUPT = 6, /* a damaged file */
  TSR_INTERNAL = 7,
  TSR_INTERRUPTED = 8 /* tsr_interrupt() */
} tsr_status;

typedef struct tsr_dispatcher tsr_dispatcher;
typedef struct tsr_kernel tsr_kernel;
typedef struct tsr_registry tsr_registry;

/* ---- Library ---- */

TSR_API const char* tsr_version(void);  /* "0.1.0" */
TSR_API uint32_t tsr_abi_version(void); /* TSR_ABI_VERSION of the library */
TSR_API void tsr_free(void* text);      /* a text that a function returned; null is allowed */

/* Of this thread's last failed call: "<status>: <what happened>; <what to do>". */
TSR_API const char* tsr_last_error(void);

/* 1: every job, build and compilation under way ends soon with TSR_INTERRUPTED, and so does what starts now;
 * 0: work may start again. Safe in a signal handler. */
TSR_API void tsr_interrupt(int stop);

/* Warnings and messages, whole lines without a line feed, instead of stderr. level: 1 warn, 2 info, 3 debug;
 * TESSERA_LOG says which are sent. Called from any thread, one call at a time; it may set another, and
 * messages that it causes itself go to stderr. Null: stderr again. */
typedef void (*tsr_log)(void* user, int level, const char* text);
TSR_API void tsr_set_log(tsr_log log, void* user);

/* Facts as JSON. what, and what `text` names:
 *   "library"  nothing: version, element types, epilogue steps, knobs, architectures, suites, sets
 *   "device"   "cpu", "cuda:0", "null:ARCH": architecture, threads, compiler
 *   "problem"  a problem: its normal text, floating operations, tensors with types, shapes, strides and bytes
 *   "config"   a config, or every knob as JSON: its normal text and its knobs
 *   "suite"    a suite's file or name: its named problems */
TSR_API tsr_status tsr_describe(const char* what, const char* text, char** json);

/* Long work that needs no handle. `options` is a JSON object (null: {}), unknown keys are refused:
 *   "cache"     {"action": "stats" | "verify" | "repair" | "collect" | "clear", "cache_dir", "max_bytes"}
 *   "pack"      {"action": "create", "path", "problems": [TEXT], "dispatcher": {options},
 *               "jobs", "decisions", "thread_counts": [], "cover": PERCENT, "add": false},
 *               {"action": "list" | "check", "path"}
 *   "tune"      {"problems": [TEXT], "database", "device", "threads", "candidates"}, and RUN
 *   "sweep"     {"action": "plan", "directory", "problems": [TEXT], "generate": [], "dtypes": [],
 *               "layouts": [], "extra", "seed", "candidates", "only", "device", "threads"},
 *               {"action": "run", "directory", "shard", "shards", "retry": []}, and RUN,
 *               {"action": "status", "directory"},
 *               {"action": "store", "directory", "database", "decide": false}
 *   "train"     {"database", "out": FILE, "arch", "operation", "units", "from", "rounds", "depth", "rate",
 *               "seed"}
 *   "evaluate"  {"database", "operation", "fold": "test" | "valid" | "train", "units", "model", "device",
 *               "peer": another library of the program's, "csv": FILE, "html": FILE}, and RUN
 *   RUN         "jobs", "cores": [], "budget_s", "limit_s", "group", "budget_ms", "cold", "cache_dir",
 *               "program": kernels are measured in child processes of `tessera`, which is this one,
 *               TESSERA_PROGRAM's, ../bin/tessera beside the library, or PATH's
 *   "generate"  {"arch", "dtypes": [], "layouts": [], "variant", "set", "config_file", "out", "jobs"}
 * progress (may be null) is called by one thread at a time. */
typedef void (*tsr_progress)(void* user, size_t done, size_t total, const char* what);
TSR_API tsr_status tsr_job(const char* name, const char* options, tsr_progress progress, void* user,
                           char** json);

/* ---- Registry: which kernels may be chosen ---- */

/* Lines of declarations or a registry's JSON; null or "" for an empty one. `name` may be null. */
TSR_API tsr_status tsr_registry_create(const char* name, const char* text, tsr_registry** registry);
TSR_API void tsr_registry_destroy(tsr_registry* registry);
/* Adds what `text` (either form) declares, all or nothing. *added (may be null): how many came in or rose in
 * priority. */
TSR_API tsr_status tsr_registry_add(tsr_registry* registry, const char* text, size_t* added);
/* Keeps the declarations for which keep() is not 0. *dropped may be null. */
typedef int (*tsr_keep)(void* user, const char* declaration_json);
TSR_API tsr_status tsr_registry_filter(tsr_registry* registry, tsr_keep keep, void* user, size_t* dropped);
TSR_API tsr_status tsr_registry_json(tsr_registry* registry, char** json);

/* ---- Dispatcher ---- */

typedef struct tsr_candidate {
  const char* config;
  double predicted_us;
} tsr_candidate;

/* Policy "callback": writes indices into `candidates` to `order` (room for `count`), best first, and returns
 * how many; more than `count` is an error. Called from any thread. */
typedef size_t (*tsr_rank)(void* user, const char* problem, const tsr_candidate* candidates, size_t count,
                           size_t* order);

/* options (null: {}): {"device": "cpu", "threads": 0, "policy": "model", "top_k": 0,
 * "background": true, "config": "",
 * "cache_dir": "", "packs": [], "model": "", "database": PATH or "none"}; unknown keys are refused. Decisions
 * of the database (the program's own where none is named) come before policies model and model_topk. A `rank`
 * without a policy means policy "callback", a config without one policy "explicit"; with a policy that does
 * not go by them they are refused. The registry (null: everything legal) may change or be destroyed later;
 * kernels already got stay as they are. */
TSR_API tsr_status tsr_dispatcher_create(const char* options, tsr_registry* registry, tsr_rank rank,
                                         void* user, tsr_dispatcher** dispatcher);
/* Its kernels go with it. Not from a callback: that may be on a thread of the dispatcher's own, which it
 * waits for. */
TSR_API void tsr_dispatcher_destroy(tsr_dispatcher* dispatcher);
/* {"device", "arch", "threads", "compiler", "cache_dir", "policy", "refining": problems whose kernels are
 * still to be timed in the background} */
TSR_API tsr_status tsr_dispatcher_info(tsr_dispatcher* dispatcher, char** json);

/* Selects, compiles and loads what the first call for a problem needs. The same problem gives the same
 * handle, until policy "model_topk" with "background" has found a faster kernel ("source" of the kernel's
 * info is "measured" from then on); every handle lives as long as the dispatcher. */
TSR_API tsr_status tsr_get(tsr_dispatcher* dispatcher, const char* problem, tsr_kernel** kernel);

/* Compiles for many problems (one a line) in parallel; jobs 0: all cores, fewer are refused. *json: one text
 * per problem, "" where it went well. */
TSR_API tsr_status tsr_build(tsr_dispatcher* dispatcher, const char* problems, int jobs,
                             tsr_progress progress, void* user, char** json);

/* The candidates, in the policy's order, each with its predicted time; where nothing can be chosen there are
 * none, and "why_none" says why. options: {"rejected": false} also those that rules refuse;
 * {"suggest": CONFIG} instead: whether CONFIG is legal, and the nearest that is. Compiles nothing. */
TSR_API tsr_status tsr_explain(tsr_dispatcher* dispatcher, const char* problem, const char* options,
                               char** json);

/* The chosen kernel's generated source; whole != 0: with its headers in place. */
TSR_API tsr_status tsr_emit(tsr_dispatcher* dispatcher, const char* problem, int whole, char** text);

/* Runs the problem on data of its own, checks the result against the reference and times it. options:
 * {"seed": 1, "integers": false, "verify": true, "budget_ms": 200, "cold": false}. */
TSR_API tsr_status tsr_measure(tsr_dispatcher* dispatcher, const char* problem, const char* options,
                               char** json);

/* ---- Kernel ---- */

enum {
  TSR_HAS_ALPHA = 1, /* alpha instead of the problem's */
  TSR_HAS_BETA = 2,  /* the same of beta */
  /* The caller has checked its buffers: null, misaligned or overlapping ones are undefined. */
  TSR_UNCHECKED = 4
};

#define TSR_MAX_D 5

/* What one run reads and writes, on the kernel's device; tsr_describe("problem") gives each buffer's type,
 * shape and bytes. C may not overlap an input; alpha and beta are finite, within the range of f32. Zero it
 * and set `size`: members added later are then absent. */
typedef struct tsr_buffers {
  uint32_t size;  /* sizeof(tsr_buffers) */
  uint32_t flags; /* TSR_HAS_ALPHA | ... */
  const void* a;
  const void* b; /* packed by tsr_kernel_pack_b when the problem says prepack=b */
  void* c;
  const void* d[TSR_MAX_D]; /* one per epilogue step that reads a tensor, in their order */
  double alpha, beta;
  void* stream;    /* GPU: a CUstream; null: the default stream */
  void* workspace; /* "workspace_bytes" of the kernel's info, 64-byte aligned; null: the kernel brings its own
                    */
  float* bias_grad; /* of problems with bias_grad=f32: g * k sums of A, by alpha and beta as C */
} tsr_buffers;

/* {"problem", "config", "source", "predicted_us", "workspace_bytes", "packed_b_bytes", "host_memory",
 * "build": {"from", "select_us", "build_ms"}} */
TSR_API tsr_status tsr_kernel_info(tsr_kernel* kernel, char** json);
/* Runs to completion (CPU) or enqueues (GPU). */
TSR_API tsr_status tsr_kernel_run(tsr_kernel* kernel, const tsr_buffers* buffers);
TSR_API tsr_status tsr_kernel_wait(tsr_kernel* kernel); /* until the device has done what was enqueued */
/* B into the kernel's own order. ldb: B's leading dimension in elements, -1 when tight. b is aligned to its
 * elements, packed to 4 bytes, and they do not overlap. What it packs serves any m (of convolutions n),
 * epilogue, alpha and beta under the same configuration; a run refuses a B in host memory that was packed for
 * another kernel. */
TSR_API tsr_status tsr_kernel_pack_b(tsr_kernel* kernel, const void* b, void* packed, int64_t ldb);

/* Memory of the kernel's device, 256-byte aligned; released through a kernel of the same dispatcher. */
typedef enum tsr_direction { TSR_TO_DEVICE = 0, TSR_TO_HOST = 1 } tsr_direction;
TSR_API tsr_status tsr_allocate(tsr_kernel* kernel, size_t bytes, void** memory);
TSR_API tsr_status tsr_release(tsr_kernel* kernel, void* memory);
TSR_API tsr_status tsr_copy(tsr_kernel* kernel, void* to, const void* from, size_t bytes,
                            int direction /* a tsr_direction */);

/* tsr_get and tsr_kernel_run in one. */
TSR_API tsr_status tsr_run(tsr_dispatcher* dispatcher, const char* problem, const tsr_buffers* buffers);

#ifdef __cplusplus
}
#endif

#endif /* TESSERA_TESSERA_H */
