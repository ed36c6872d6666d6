// Loads of part of a line of memory that convert or widen on the way, without touching what lies behind it.
#pragma once

#include "cpu/convert.h"
#include "cpu/types.h"
#include "cpu/vec.h"

namespace tsr {

#ifdef __clang__
#define TSR_UNROLL _Pragma("clang loop unroll(full)")
#else
#define TSR_UNROLL _Pragma("GCC unroll 256")
#endif

// Accumulators: floats, or integers.
template <int L, bool kInteger>
struct Accumulator {
  typedef typename Vec<L>::F type;
};
template <int L>
struct Accumulator<L, true> {
  typedef typename Vec<L>::I type;
};

// The first `count` elements of a vector. The others are not read, and load as zero.
struct Part {
#ifdef __AVX512BW__
  unsigned long long mask;
  Part() = default;
  TSR_INLINE explicit Part(long long count) : mask(count >= 64 ? ~0ull : (1ull << count) - 1) {}
#else
  long long count;
  Part() = default;
  TSR_INLINE explicit Part(long long n) : count(n) {}
#endif
};

// load_NAME<V>(p, part): the instruction reads kBytes bytes for a whole V, in elements of kElement bytes.
#ifdef __AVX512BW__
#define TSR_LOAD(name, text, divisor, element)                                              \
  template <class V>                                                                        \
  TSR_INLINE V load_##name(const void* p, Part part) {                                      \
    constexpr int kBytes = sizeof(V) / (divisor);                                           \
    V v;                                                                                    \
    asm(text " %1, %0 %{%2%}%{z%}" : "=v"(v) : "m"(memory_at<kBytes>(p)), "Yk"(part.mask)); \
    return v;                                                                               \
  }
#define TSR_COPY(size) "vmovdqu" size
#else
#define TSR_LOAD(name, text, divisor, element)          \
  template <class V>                                    \
  TSR_INLINE V load_##name(const void* p, Part part) {  \
    constexpr int kBytes = sizeof(V) / (divisor);       \
    Memory<kBytes> copy;                                \
    const Memory<kBytes>* from = &memory_at<kBytes>(p); \
    if (part.count * (element) < kBytes) {              \
      __builtin_memset(&copy, 0, kBytes);               \
      __builtin_memcpy(&copy, p, part.count*(element)); \
      from = &copy;                                     \
    }                                                   \
    V v;                                                \
    asm(text " %1, %0" : "=x"(v) : "m"(*from));         \
    return v;                                           \
  }
#define TSR_COPY(size) "vmovdqu"
#endif
TSR_LOAD(copy8, TSR_COPY("8"), 1, 1)
TSR_LOAD(copy16, TSR_COPY("16"), 1, 2)
#ifdef __AVX512BW__
TSR_LOAD(copy32, TSR_COPY("32"), 1, 4)
#else  // the one width of elements that AVX2 has masks for
template <class V>
TSR_INLINE V load_copy32(const void* p, Part part) {
  return load_masked<V>(p, lane_mask(static_cast<int>(part.count < 8 ? part.count : 8)));
}
#endif
TSR_LOAD(u8_as_32, "vpmovzxbd", 4, 1)
TSR_LOAD(i8_as_32, "vpmovsxbd", 4, 1)
TSR_LOAD(u16_as_32, "vpmovzxwd", 2, 2)
TSR_LOAD(u8_as_16, "vpmovzxbw", 2, 1)
TSR_LOAD(i8_as_16, "vpmovsxbw", 2, 1)
TSR_LOAD(half_as_float, "vcvtph2ps", 2, 2)
#undef TSR_LOAD
#undef TSR_COPY

// L elements of a floating type.
template <int L, Type kType>
TSR_INLINE typename Vec<L>::F load_floats(const void* p, Part part) {
  using F = typename Vec<L>::F;
  using U = typename Vec<L>::U;
  if constexpr (kType == Type::f32) {
    return load_copy32<F>(p, part);
  } else if constexpr (kType == Type::bf16) {
    return as_float<L>(load_u16_as_32<U>(p, part) << 16);
  } else if constexpr (kType == Type::f16) {
    return load_half_as_float<F>(p, part);
  } else if constexpr (kType == Type::f8e5m2) {
    return half_to_float(load_u8_as_16<typename Vec<L>::H>(p, part) << 8);
  } else {
    // The exponent field moved into place is 120 too small; the product also makes subnormals right.
    const U u = load_u8_as_32<U>(p, part), magnitude = u & 0x7fu;
    const U finite = as_bits<L>(as_float<L>(magnitude << 20) * 0x1p120f);
    const U nan = (U)(magnitude == 0x7fu) & 0x7fc00000u;
    return as_float<L>(finite | nan | ((u & 0x80u) << 24));
  }
}

// L sums as elements of kType, a floating type or theirs: those of `part` when kMasked, else all.
template <int L, Type kType, bool kMasked, class Acc>
TSR_INLINE void store_lanes(void* p, Acc sums, Part part) {
  if constexpr (!kMasked) {
    if constexpr (bytes_of(kType) == 4) {
      store_whole(p, sums);
    } else {
      store_float<L, kType>(p, L, sums);
    }
  } else {
#ifdef __AVX512BW__
    if constexpr (bytes_of(kType) == 4) {
      asm volatile("vmovdqu32 %0, %2%{%1%}" ::"v"(sums), "Yk"(part.mask), "m"(*(char*)p) : "memory");
    } else {
      typename Vec<L>::H h;
      if constexpr (kType == Type::bf16) {
        h = float_to_bf16<L>(sums);
      } else {
        h = float_to_half(sums);
      }
      asm volatile("vmovdqu16 %0, %2%{%1%}" ::"v"(h), "Yk"(part.mask), "m"(*(char*)p) : "memory");
    }
#endif
  }
}

}  // namespace tsr
