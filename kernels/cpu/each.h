// Loops that are unrolled by constants, and values that stay in registers in them.
#pragma once

#include "cpu/shuffle.h"

namespace tsr {

template <int I>
struct Int {
  static constexpr int value = I;
};
template <class F, int... I>
TSR_INLINE void each(const F& f, Seq<I...>) {
  (f(Int<I>()), ...);
}
// f(Int<0>()), f(Int<1>()), ...: a loop whose index is a constant.
template <int N, class F>
TSR_INLINE void each(const F& f) {
  each(f, typename MakeSeq<N>::type());
}

// For functions whose addresses follow one from the other already: the compiler's own choice of what to count
// along takes more registers than there are.
#ifdef __clang__
#define TSR_OWN_ADDRESSES
#else
#define TSR_OWN_ADDRESSES __attribute__((optimize("no-ivopts")))
#endif

// Keeps a value in a register, where the compiler would rather read it from memory for every use.
template <class T>
TSR_INLINE void hold(T& x) {
#ifdef __AVX512F__
  asm("" : "+v"(x));
#else
  asm("" : "+x"(x));
#endif
}
// The same for a pointer, of which the compiler would make one per use, or a distance.
template <class T>
TSR_INLINE void hold(const T*& p) {
  asm("" : "+r"(p));
}
TSR_INLINE void hold(long long& x) { asm("" : "+r"(x)); }

}  // namespace tsr
