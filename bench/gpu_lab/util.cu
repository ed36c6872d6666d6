// Filling, checking and comparing on the device, for the lab. Types: 0 bf16, 1 f16, 2 e4m3, 3 e5m2, 4 i8, 5 f32, 6 i32.
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

__device__ double value(const void* p, i64 i, int type) {
  if (type == 0) return __uint_as_float((u32)((const u16*)p)[i] << 16);
  if (type == 5) return ((const float*)p)[i];
  if (type == 6) return ((const int*)p)[i];
  if (type == 4) return ((const signed char*)p)[i];
  u16 h;
  if (type == 1) h = ((const u16*)p)[i];
  else {
    u32 x; u16 b = ((const u8*)p)[i];
    if (type == 2) asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(x) : "h"(b)); else asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(x) : "h"(b));
    h = (u16)x;
  }
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
  return f;
}

__device__ u32 mix(u64 x) {
  x ^= x >> 33; x *= 0xff51afd7ed558ccdull; x ^= x >> 33; x *= 0xc4ceb9fe1a85ec53ull; x ^= x >> 33;
  return (u32)x;
}

extern "C" __global__ void fill(void* p, i64 n, int type, u64 seed) {
  for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x) {
    u32 r = mix(seed * 0x9e3779b97f4a7c15ull + i);
    float f = (int)r * (1.0f / 2147483648.0f);
    u32 x; u16 h;
    if (type == 0) { asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(x) : "f"(0.f), "f"(f)); ((u16*)p)[i] = (u16)x; }
    if (type == 1) { asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(x) : "f"(0.f), "f"(f)); ((u16*)p)[i] = (u16)x; }
    if (type == 2) { asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(h) : "f"(0.f), "f"(f)); ((u8*)p)[i] = (u8)h; }
    if (type == 3) { asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(h) : "f"(0.f), "f"(f)); ((u8*)p)[i] = (u8)h; }
    if (type == 4) ((u8*)p)[i] = (u8)(r >> 7);
    if (type == 5) ((float*)p)[i] = f;
  }
}

// out[0] sum of squared errors, out[1] of squares, out[2] elements that are not numbers. Samples among m x n: all of them
// when there are fewer than `samples`, else random ones, a quarter each in the last row and the last column.
extern "C" __global__ void check(const void* a, const void* b, const void* c, int ta, int tb, int tc, i64 m, i64 n, i64 k,
                                 i64 a_row, i64 a_col, i64 b_row, i64 b_col, i64 ldc, i64 samples, double* out) {
  double err = 0, ref = 0, bad = 0;
  bool all = m * n <= samples;
  i64 count = all ? m * n : samples;
  for (i64 s = blockIdx.x; s < count; s += gridDim.x) {
    i64 i = all ? s / n : mix(s * 2 + 1) % m, j = all ? s % n : mix(s * 2 + 2) % n;
    if (!all && s % 4 == 0) i = m - 1;
    if (!all && s % 4 == 1) j = n - 1;
    double sum = 0;
    for (i64 x = threadIdx.x; x < k; x += blockDim.x) sum += value(a, i * a_row + x * a_col, ta) * value(b, x * b_row + j * b_col, tb);
    for (int o = 16; o; o /= 2) sum += __shfl_xor_sync(~0u, sum, o);
    __shared__ double part[8];
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
      sum = 0;
      for (int w = 0; w < blockDim.x / 32; ++w) sum += part[w];
      double got = value(c, i * ldc + j, tc);
      if (got != got) bad += 1; else err += (got - sum) * (got - sum), ref += sum * sum;
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) { atomicAdd(out, err); atomicAdd(out + 1, ref); atomicAdd(out + 2, bad); }
}

// The same three numbers of every element of x against y.
extern "C" __global__ void compare(const void* x, const void* y, i64 n, int tx, int ty, double* out) {
  double err = 0, ref = 0, bad = 0;
  for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x) {
    double g = value(x, i, tx), w = value(y, i, ty);
    if (g != g) bad += 1; else err += (g - w) * (g - w), ref += w * w;
  }
  for (int o = 16; o; o /= 2) { err += __shfl_xor_sync(~0u, err, o); ref += __shfl_xor_sync(~0u, ref, o); bad += __shfl_xor_sync(~0u, bad, o); }
  if (threadIdx.x % 32 == 0) { atomicAdd(out, err); atomicAdd(out + 1, ref); atomicAdd(out + 2, bad); }
}
