#include "backend/cpu/arena.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "tessera/error.h"

namespace tessera {
namespace {

TEST(Arena, GrowsAndIsAligned) {
  for (size_t bytes : {size_t{1}, size_t{5000}, size_t{3} << 20}) {
    void* data = thread_arena(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % 64, 0u);
    static_cast<char*>(data)[bytes - 1] = 1;
  }
}

// No line that a thread writes lies in a page that another one's share reaches into, wherever shares begin.
TEST(Arena, SharesOfThreadsMeetInNoPage) {
  EXPECT_EQ(thread_share(0), 0);
  for (const int64_t bytes : {1, 64, 4095, 4096, 100000}) {
    for (const int64_t begin : {0, 64, 2048, 4032}) {
      const int64_t last = begin + bytes - 1, next = begin + thread_share(bytes);
      EXPECT_EQ(thread_share(bytes) % 64, 0) << bytes;
      EXPECT_LT(last / kPageBytes, next / kPageBytes) << bytes << ' ' << begin;
    }
  }
}

TEST(Arena, SaysHowMuchMemoryThereIsNot) {
  try {
    thread_arena(size_t{1} << 60);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::device);
    EXPECT_NE(e.what_happened().find("1152921504606846976 bytes"), std::string::npos) << e.what();
  }
  EXPECT_NE(thread_arena(1), nullptr);
}

}  // namespace
}  // namespace tessera
