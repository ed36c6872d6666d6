// Vectors of 32-bit lanes without any header: GCC vector extensions, and inline assembly where a mask or
// a certain instruction is needed. Lanes = 16 (AVX-512) or 8 (AVX2).
#pragma once

namespace tsr {

template <int kLanes>
struct Vec;

template <>
struct Vec<16> {
  typedef float F __attribute__((vector_size(64), may_alias));
  typedef int I __attribute__((vector_size(64), may_alias));
  typedef unsigned U __attribute__((vector_size(64), may_alias));
  typedef unsigned short H __attribute__((vector_size(32), may_alias));
  typedef unsigned char B __attribute__((vector_size(16), may_alias));
};

template <>
struct Vec<8> {
  typedef float F __attribute__((vector_size(32), may_alias));
  typedef int I __attribute__((vector_size(32), may_alias));
  typedef unsigned U __attribute__((vector_size(32), may_alias));
  typedef unsigned short H __attribute__((vector_size(16), may_alias));
  typedef unsigned char B __attribute__((vector_size(8), may_alias));
};

// Half as many lanes.
template <int L>
struct HalfVec;

template <>
struct HalfVec<16> {
  typedef double D __attribute__((vector_size(64)));
  typedef float F __attribute__((vector_size(32)));
  typedef int I __attribute__((vector_size(32)));
};

template <>
struct HalfVec<8> {
  typedef double D __attribute__((vector_size(32)));
  typedef float F __attribute__((vector_size(16)));
  typedef int I __attribute__((vector_size(16)));
};

#define TSR_INLINE inline __attribute__((always_inline))

constexpr long long kLineBytes = 64;  // of memory, that caches hold or fetch at once

TSR_INLINE long long least(long long x, long long y) { return x < y ? x : y; }
TSR_INLINE long long most(long long x, long long y) { return x > y ? x : y; }

// ---- memory. `live` lanes are touched, the others read as zero; live == kLanes is the fast path.

template <class V>
TSR_INLINE V load_whole(const void* p) {
  struct __attribute__((packed, may_alias)) Unaligned {
    V v;
  };
  return static_cast<const Unaligned*>(p)->v;
}

// The first kBytes of a vector, 8, 16 or half of it; zeros behind.
template <int kBytes, class V>
TSR_INLINE V load_low(const void* p) {
  struct __attribute__((packed, may_alias)) Memory {
    char bytes[kBytes];
  };
  const Memory& from = *static_cast<const Memory*>(p);
  V v;
#ifdef __AVX512F__
#define TSR_LOAD_LOW(instruction) asm(instruction : "=v"(v) : "m"(from))
#else
#define TSR_LOAD_LOW(instruction) asm(instruction : "=x"(v) : "m"(from))
#endif
  if constexpr (kBytes == 8) {
    TSR_LOAD_LOW("vmovsd %1, %x0");
  } else if constexpr (kBytes == 16) {
    TSR_LOAD_LOW("vmovups %1, %x0");
  } else {
    static_assert(kBytes == 32);
    TSR_LOAD_LOW("vmovups %1, %t0");
  }
#undef TSR_LOAD_LOW
  return v;
}

template <class V>
TSR_INLINE void store_whole(void* p, V v) {
  struct __attribute__((packed, may_alias)) Unaligned {
    V v;
  };
  static_cast<Unaligned*>(p)->v = v;
}

// Past the caches, to an address that is a multiple of the vector.
template <class V>
TSR_INLINE void stream_whole(void* p, V v) {
  asm volatile("vmovntdq %1, %0" : "=m"(*static_cast<V*>(p)) : "v"(v));
}

// What an instruction may read, whatever lies there.
template <int kBytes>
struct __attribute__((packed, may_alias)) Memory {
  char bytes[kBytes];
};
template <int kBytes>
TSR_INLINE const Memory<kBytes>& memory_at(const void* p) {
  return *static_cast<const Memory<kBytes>*>(p);
}

#ifdef __AVX512BW__
TSR_INLINE unsigned mask_of(int live) { return (1u << live) - 1u; }
TSR_INLINE Vec<16>::U load_part(const unsigned* p, int live, Vec<16>::U) {
  Vec<16>::U v;
  asm("vmovdqu32 %2, %0%{%1%}%{z%}" : "=v"(v) : "Yk"(mask_of(live)), "m"(memory_at<sizeof(Vec<16>::U)>(p)));
  return v;
}
TSR_INLINE Vec<16>::H load_part(const unsigned short* p, int live, Vec<16>::H) {
  Vec<16>::H v;
  asm("vmovdqu16 %2, %0%{%1%}%{z%}" : "=v"(v) : "Yk"(mask_of(live)), "m"(memory_at<sizeof(Vec<16>::H)>(p)));
  return v;
}
TSR_INLINE Vec<16>::B load_part(const unsigned char* p, int live, Vec<16>::B) {
  Vec<16>::B v;
  asm("vmovdqu8 %2, %0%{%1%}%{z%}" : "=v"(v) : "Yk"(mask_of(live)), "m"(memory_at<sizeof(Vec<16>::B)>(p)));
  return v;
}
TSR_INLINE void store_part(unsigned* p, int live, Vec<16>::U v) {
  asm volatile("vmovdqu32 %0, %2%{%1%}" ::"v"(v), "Yk"(mask_of(live)), "m"(*(char*)p) : "memory");
}
TSR_INLINE void store_part(unsigned short* p, int live, Vec<16>::H v) {
  asm volatile("vmovdqu16 %0, %2%{%1%}" ::"v"(v), "Yk"(mask_of(live)), "m"(*(char*)p) : "memory");
}
TSR_INLINE void store_part(unsigned char* p, int live, Vec<16>::B v) {
  asm volatile("vmovdqu8 %0, %2%{%1%}" ::"v"(v), "Yk"(mask_of(live)), "m"(*(char*)p) : "memory");
}
#endif

#ifndef __AVX512BW__
// Lanes below `live` are all ones.
TSR_INLINE Vec<8>::I lane_mask(int live) {
  constexpr Vec<8>::I kLanes = {0, 1, 2, 3, 4, 5, 6, 7};
  return kLanes < live;
}
template <class V>
TSR_INLINE V load_masked(const void* p, Vec<8>::I mask) {
  V v;
  asm("vpmaskmovd %1, %2, %0" : "=x"(v) : "m"(memory_at<sizeof(V)>(p)), "x"(mask));
  return v;
}
TSR_INLINE Vec<8>::U load_part(const unsigned* p, int live, Vec<8>::U) {
  return load_masked<Vec<8>::U>(p, lane_mask(live));
}
#endif

// AVX2 has no masks of bytes and words: lane by lane.
template <class E, class V>
TSR_INLINE V load_part(const E* p, int live, V) {
  V v = {};
  for (int i = 0; i < live; ++i) v[i] = p[i];
  return v;
}
// In pieces of powers of two: AMD's processors take dozens of operations for a masked store.
template <class E, class V>
TSR_INLINE void store_part(E* p, int live, V v) {
  char* to = reinterpret_cast<char*>(p);
  const char* from = reinterpret_cast<const char*>(&v);
  const int bytes = live * static_cast<int>(sizeof(E));
  if (bytes == static_cast<int>(sizeof(V))) return store_whole(p, v);
  const auto piece = [&](auto size) __attribute__((always_inline)) {
    constexpr int kBytes = sizeof(size);
    if (!(bytes & kBytes)) return;
    __builtin_memcpy(to, from, kBytes);
    to += kBytes;
    from += kBytes;
  };
  struct Sixteen {
    char bytes[16];
  };
  if constexpr (sizeof(V) > 16) piece(Sixteen{});
  if constexpr (sizeof(V) > 8) piece(0ll);
  piece(0);
  if constexpr (sizeof(E) < 4) piece(short{});
  if constexpr (sizeof(E) < 2) piece(char{});
}

// ---- lanes

template <int L>
TSR_INLINE typename Vec<L>::F as_float(typename Vec<L>::U u) {
  return (typename Vec<L>::F)u;
}
template <int L>
TSR_INLINE typename Vec<L>::U as_bits(typename Vec<L>::F f) {
  return (typename Vec<L>::U)f;
}
template <int L>
TSR_INLINE typename Vec<L>::F splat(float x) {
  return x - typename Vec<L>::F{};
}
template <int L>
TSR_INLINE typename Vec<L>::F select(typename Vec<L>::I mask, typename Vec<L>::F yes, typename Vec<L>::F no) {
  return (typename Vec<L>::F)(((typename Vec<L>::I)yes & mask) | ((typename Vec<L>::I)no & ~mask));
}

#ifdef __AVX512F__
TSR_INLINE Vec<16>::F round_even(Vec<16>::F f) {
  Vec<16>::F r;
  asm("vrndscaleps $8, %1, %0" : "=v"(r) : "v"(f));
  return r;
}
#endif
TSR_INLINE Vec<8>::F round_even(Vec<8>::F f) {
  Vec<8>::F r;
  asm("vroundps $8, %1, %0" : "=x"(r) : "x"(f));
  return r;
}

}  // namespace tsr
