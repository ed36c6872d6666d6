#include "backend/cpu/transpose.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "backend/cpu/deal_out.h"
#include "core/cache_line.h"
#include "core/tile_math.h"

namespace tessera {
namespace {

constexpr int64_t kBytesWorthThreads = 1 << 16;  // below, waking a thread costs more than it saves

// Vectors that any compiler for any processor splits or joins as its registers are.
template <class T>
struct Vector {
  static constexpr int kLanes = 16 / sizeof(T);
  typedef T Type __attribute__((vector_size(16)));
};

template <class T, int... i>
void interleave(typename Vector<T>::Type x, typename Vector<T>::Type y, typename Vector<T>::Type& low,
                typename Vector<T>::Type& high, std::integer_sequence<int, i...>) {
  constexpr int n = Vector<T>::kLanes;
#if __has_builtin(__builtin_shufflevector)
  low = __builtin_shufflevector(x, y, (i / 2 + i % 2 * n)...);
  high = __builtin_shufflevector(x, y, (n / 2 + i / 2 + i % 2 * n)...);
#else  // GCC before 12
  using Lanes = typename Vector<T>::Type;
  low = __builtin_shuffle(x, y, Lanes{static_cast<T>(i / 2 + i % 2 * n)...});
  high = __builtin_shuffle(x, y, Lanes{static_cast<T>(n / 2 + i / 2 + i % 2 * n)...});
#endif
}

// As many rows as a vector has lanes, and as many columns: interleaving the upper with the lower half of the
// rows, once for each power of two, exchanges the axes.
template <class T>
void block(const T* from, int64_t from_step, T* to, int64_t to_step) {
  constexpr int n = Vector<T>::kLanes;
  typename Vector<T>::Type r[n], s[n];
  for (int i = 0; i < n; ++i) std::memcpy(&r[i], from + i * from_step, sizeof r[i]);
  for (int width = n; width > 1; width /= 2) {
    for (int i = 0; i < n / 2; ++i) {
      interleave<T>(r[i], r[i + n / 2], s[2 * i], s[2 * i + 1], std::make_integer_sequence<int, n>{});
    }
    std::memcpy(r, s, sizeof r);
  }
  for (int i = 0; i < n; ++i) std::memcpy(to + i * to_step, &r[i], sizeof r[i]);
}

// Rows [row, end) of one matrix. Lines of the result are written whole, one after another, and the rows of a
// block are streams that the processor fetches ahead.
template <class T>
void rows_of_one(const T* from, T* to, const TransposeShape& s, int64_t row, int64_t end) {
  constexpr int64_t n = Vector<T>::kLanes;
  const int64_t whole_rows = row + (end - row) / n * n, whole_cols = s.cols / n * n;
  for (int64_t c = 0; c < whole_cols; c += n) {
    for (int64_t r = row; r < whole_rows; r += n)
      block(from + r * s.from_step + c, s.from_step, to + c * s.to_step + r, s.to_step);
  }
  for (int64_t c = 0; c < s.cols; ++c) {
    for (int64_t r = c < whole_cols ? whole_rows : row; r < end; ++r)
      to[c * s.to_step + r] = from[r * s.from_step + c];
  }
}

template <class T>
void transpose_all(const T* from, T* to, const TransposeShape& s, int threads) {
  constexpr int64_t kRows = kCacheLine / static_cast<int64_t>(sizeof(T));
  const int64_t strips = ceil_div(s.rows, kRows), tasks = s.count * strips;
  const bool worth = s.count * s.rows * s.cols * static_cast<int64_t>(sizeof(T)) >= kBytesWorthThreads;
  deal_out(tasks, worth ? threads : 1, [&](int64_t task, int) {
    const int64_t matrix = task / strips, row = task % strips * kRows;
    rows_of_one(from + matrix * s.from_apart, to + matrix * s.to_apart, s, row,
                std::min(row + kRows, s.rows));
  });
}

}  // namespace

void transpose(const void* from, void* to, const TransposeShape& shape, int element_bytes, int threads) {
  const auto as = [&](auto element) {
    using T = decltype(element);
    transpose_all(static_cast<const T*>(from), static_cast<T*>(to), shape, threads);
  };
  switch (element_bytes) {
    case 1: return as(uint8_t{});
    case 2: return as(uint16_t{});
    default: return as(uint32_t{});
  }
}

void transpose(const void* from, void* to, int64_t count, int64_t rows, int64_t cols, int element_bytes,
               int threads) {
  transpose(from, to, {count, rows, cols, cols, rows, rows * cols, rows * cols}, element_bytes, threads);
}

}  // namespace tessera
