// What a peer module (another library behind a shared object, for comparison only) offers: plain C, so that a
// module depends on nothing of this project. A module exports tsr_peer().
#ifndef TSR_PEER_ABI_H
#define TSR_PEER_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TSR_PEER_ABI 3

/* A grouped convolution: N(spatial)GC, GK(filter)C, N(spatial)GK, or with the spatial axes last; c, k per
 * group. a, b, c are input, filter, output of the forward pass; output gradient, filter, input gradient;
 * output gradient, input, filter gradient. */
enum { TSR_PEER_FWD, TSR_PEER_BWD_DATA, TSR_PEER_BWD_WEIGHT };
typedef struct TsrPeerConv {
  int direction;
  int dims;           /* spatial axes, the last ones of the three below */
  int channels_first; /* NGC(spatial), GKC(filter), NGK(spatial) */
  int64_t n, g, c, k;
  int64_t in[3], out[3], filter[3], stride[3], dilation[3], pad_lo[3], pad_hi[3];
} TsrPeerConv;

/* C[b] = A[b] B[b], C row-major; strides in elements; types by name ("f32", "bf16", "u8", ...). */
typedef struct TsrPeerProblem {
  int64_t m, n, k, batch;
  int64_t lda, ldb, ldc, stride_a, stride_b, stride_c;
  const char *a, *b, *out;
  int a_row_major, b_row_major;
  int packed_b; /* pack_b() is called once, then run() ignores its b */
  int threads;
  const TsrPeerConv* conv; /* not null: this instead of m to stride_c and the orders of a and b */
} TsrPeerProblem;

typedef struct TsrPeer {
  int abi;                          /* TSR_PEER_ABI */
  const char* (*description)(void); /* library, version, what it detected */
  /* Null with the reason in why when the library does not offer this. */
  void* (*create)(const TsrPeerProblem* problem, char* why, size_t why_size);
  void (*pack_b)(void* handle, const void* b);
  void (*run)(void* handle, const void* a, const void* b, void* c);
  void (*destroy)(void* handle);
} TsrPeer;

const TsrPeer* tsr_peer(void);

#ifdef __cplusplus
}
#endif

#endif
