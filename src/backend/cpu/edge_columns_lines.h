// The loops of edge_columns.h for one width of vectors. Included by the files of that width alone, each of
// which keeps its own copy: see cmake/isa_flags.cmake.
#pragma once

#include <cstring>

#include "backend/cpu/edge_columns.h"

namespace tessera {
namespace {

template <int kLanes>
struct EdgeLines {
  using Vector [[gnu::vector_size(4 * kLanes)]] = float;
  // Rows at a time: accumulators, a vector of each column and one of A fit the registers.
  static constexpr int kRows = kLanes == 16 ? 6 : 2;

  using Bits [[gnu::vector_size(4 * kLanes)]] = int;

  static Vector load(const char* from) {
    Vector v;
    std::memcpy(&v, from, sizeof(v));
    return v;
  }
  static Vector masked(const Vector& v, const Bits& mask) {
    return reinterpret_cast<Vector>(reinterpret_cast<Bits>(v) & mask);
  }

  template <int kCount>
  using Part [[gnu::vector_size(4 * kCount)]] = float;
  template <int kCount>
  static float sum(Part<kCount> v) {
    if constexpr (kCount == 1) {
      return v[0];
    } else {
      Part<kCount / 2> halves[2];
      std::memcpy(halves, &v, sizeof(v));
      return sum<kCount / 2>(halves[0] + halves[1]);
    }
  }

  template <bool kMasked, int kHeight, int kCols>
  static void step(Vector (&acc)[kHeight][kCols], const EdgeColumns& e, const char* a, int64_t k,
                   const Bits& mask) {
    Vector right[kCols];
    for (int j = 0; j < kCols; ++j) {
      right[j] = load(static_cast<const char*>(e.b) + j * e.b_stride + k * 4);
      if (kMasked) right[j] = masked(right[j], mask);
    }
    for (int i = 0; i < kHeight; ++i) {
      Vector left = load(a + i * e.a_stride + k * 4);
      if (kMasked) left = masked(left, mask);
      asm("" : "+v"(left));  // loaded once, not once per column
      for (int j = 0; j < kCols; ++j) acc[i][j] += left * right[j];
    }
  }

  // The last, shorter step reads a whole vector that ends where k does, without what was multiplied before.
  template <int kHeight, int kCols>
  static void some_rows(const EdgeColumns& e, int64_t row) {
    const char* a = static_cast<const char*>(e.a) + row * e.a_stride;
    Vector acc[kHeight][kCols] = {};
    Bits mask = {};
    int64_t k = 0;
    for (; k + kLanes <= e.k; k += kLanes) step<false>(acc, e, a, k, mask);
    if (k < e.k) {
      int lanes[kLanes];
      for (int i = 0; i < kLanes; ++i) lanes[i] = k + kLanes - e.k <= i ? -1 : 0;
      std::memcpy(&mask, lanes, sizeof(mask));
      step<true>(acc, e, a, e.k - kLanes, mask);
    }
    char* sums = static_cast<char*>(e.sums) + row * e.sums_stride;
    for (int i = 0; i < kHeight; ++i, sums += e.sums_stride) {
      for (int j = 0; j < kCols; ++j) {
        const float s = sum<kLanes>(acc[i][j]);
        std::memcpy(sums + j * 4, &s, 4);
      }
    }
  }

  template <int kCols>
  static void all_rows(const EdgeColumns& e) {
    int64_t row = 0;
    for (; row + kRows <= e.rows; row += kRows) some_rows<kRows, kCols>(e, row);
    for (; row < e.rows; ++row) some_rows<1, kCols>(e, row);
  }

  static void run(const EdgeColumns& e) {
    static_assert(kMostEdgeColumns == 4);
    switch (e.cols) {
      case 1: return all_rows<1>(e);
      case 2: return all_rows<2>(e);
      case 3: return all_rows<3>(e);
      default: return all_rows<4>(e);
    }
  }
};

}  // namespace
}  // namespace tessera
