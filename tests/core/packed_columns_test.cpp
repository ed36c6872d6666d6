#include "core/packed_columns.h"

#include <gtest/gtest.h>

#include "tessera/problem.h"

namespace tessera {
namespace {

int64_t pitch(const char* problem) { return column_pitch(lower(Problem::parse(problem))); }

TEST(PackedColumns, LongOnesBeginWithALineAndNotWithAPage) {
  EXPECT_EQ(pitch("gemm m=1 n=2 k=100 dtype=f32 prepack=b"), 100);
  EXPECT_EQ(pitch("gemm m=1 n=2 k=257 dtype=f32 prepack=b"), 272);
  EXPECT_EQ(pitch("gemm m=1 n=2 k=1000 dtype=f32 prepack=b"), 1008);
  EXPECT_EQ(pitch("gemm m=1 n=2 k=1024 dtype=f32 prepack=b"), 1040);
  EXPECT_EQ(pitch("gemm m=1 n=2 k=4096 dtype=bf16 prepack=b"), 4128);
  EXPECT_EQ(pitch("gemm m=1 n=2 k=0 dtype=f32 prepack=b"), 0);
}

TEST(PackedColumns, AreSeenAsAMatrixInMemory) {
  for (const char* layout : {"rcr", "rrr"}) {
    const GemmView v = with_packed_columns(lower(
        Problem::parse(std::string("gemm m=3 n=5 k=1000 batch=2 dtype=f32 prepack=b layout=") + layout)));
    EXPECT_FALSE(v.b_prepacked);
    EXPECT_EQ(v.b.row_stride, 1);
    EXPECT_EQ(v.b.col_stride, 1008);
    EXPECT_EQ(v.b.group_stride, 5 * 1008);
    EXPECT_EQ(v.b.extent, 9 * 1008 + 1000);
  }
}

TEST(PackedColumns, AreForKernelsThatReadColumns) {
  const auto packs = [](const char* config) { return packs_columns(KernelConfig::parse(config).value()); };
  EXPECT_TRUE(packs("cpu_dot tile=4x4 inst=1x16x1 preshuffle=1"));
  EXPECT_TRUE(packs("cpu_direct tile=4x32 inst=1x16x1 preshuffle=1 swap_ab=1"));
  EXPECT_FALSE(packs("cpu_direct tile=4x32 inst=1x16x1 preshuffle=1"));
  EXPECT_FALSE(packs("cpu_packed tile=6x64 inst=1x16x1 preshuffle=1"));
}

}  // namespace
}  // namespace tessera
