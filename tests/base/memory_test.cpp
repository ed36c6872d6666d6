#include "base/memory.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(Memory, ThereIsSome) { EXPECT_GT(available_memory(), int64_t{1} << 20); }

}  // namespace
}  // namespace tessera
