#include "backend/cpu/transpose.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tune/guarded_buffer.h"

namespace tessera {
namespace {

template <class T>
void expect_transposed(int64_t count, int64_t rows, int64_t cols, int threads) {
  const auto bytes = static_cast<size_t>(count * rows * cols) * sizeof(T);
  GuardedBuffer from(bytes, sizeof(T)), to(bytes, sizeof(T));
  auto* x = reinterpret_cast<T*>(from.data());
  for (int64_t i = 0; i < count * rows * cols; ++i) x[i] = static_cast<T>(i * 40503u);
  transpose(from.data(), to.data(), count, rows, cols, sizeof(T), threads);
  const auto* y = reinterpret_cast<const T*>(to.data());
  for (int64_t m = 0; m < count; ++m) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < cols; ++c) {
        ASSERT_EQ(y[m * rows * cols + c * rows + r], x[m * rows * cols + r * cols + c])
            << sizeof(T) << " bytes, " << rows << " x " << cols << " at " << m << ", " << r << ", " << c;
      }
    }
  }
  EXPECT_EQ(to.damage(), "");
}

TEST(Transpose, EveryRemainder) {
  for (int64_t rows : {1, 2, 3, 4, 7, 8, 15, 16, 17, 33, 65, 130}) {
    for (int64_t cols : {1, 2, 5, 8, 16, 19, 32, 71}) {
      expect_transposed<uint8_t>(2, rows, cols, 1);
      expect_transposed<uint16_t>(2, rows, cols, 1);
      expect_transposed<uint32_t>(2, rows, cols, 1);
    }
  }
}

TEST(Transpose, ByManyThreads) {
  expect_transposed<uint8_t>(5, 130, 333, 3);
  expect_transposed<uint32_t>(5, 130, 333, 3);
}

}  // namespace
}  // namespace tessera
