// Tiles of a left operand whose rows are neighbours in memory: the same by single rows and by whole lines.
#include "backend/cpu/pack_tiles.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "backend/cpu/kernels.h"
#include "backend/cpu/tile_configuration.h"
#include "core/tile_math.h"

namespace tessera {
namespace {

struct Case {
  DType type;
  int group, rows;  // elements in a word, rows of a line of memory
};
constexpr Case kCases[] = {{DType::bf16, 2, 32}, {DType::i8, 4, 64}, {DType::u8, 4, 64}};

TEST(PackTiles, WholeLinesGiveWhatSingleRowsGive) {
  if (!testing_cpu::runs_here("x86_avx512")) GTEST_SKIP() << "needs AVX-512";
  std::mt19937 random(7);
  for (const Case& c : kCases) {
    for (const int64_t apart : {int64_t{c.rows}, int64_t{101}, int64_t{5000}}) {  // the last one: pages
      for (const int64_t depth : {1, 3, 31, 32, 33, 64, 100, 130}) {
        const int64_t size = bytes_of(c.type), tile_bytes = ceil_div(depth * size, 64) * kTileBytes;
        std::vector<char> memory(static_cast<size_t>(((depth - 1) * apart + c.rows) * size));
        for (char& byte : memory) byte = static_cast<char>(random());
        auto source = [&](int64_t row) {
          return PanelSource{memory.data() + row * size, apart, 1, c.type, c.group, false};
        };
        ASSERT_EQ(neighbour_rows(source(0)), c.rows);
        const int64_t all = c.rows / 16 * tile_bytes;
        std::vector<char> rows(static_cast<size_t>(all), 1), lines(static_cast<size_t>(all), 2);
        for (int64_t row = 0; row < c.rows; row += 16)
          pack_tile_rows(source(row), depth, 16, rows.data() + row / 16 * tile_bytes);
        pack_neighbour_rows(source(0), depth, lines.data(), tile_bytes);
        EXPECT_EQ(rows, lines) << info(c.type).name << " depth " << depth << " rows apart " << apart;
      }
    }
  }
}

TEST(PackTiles, OnlyNeighboursOfWholeWordsGoByLines) {
  const char byte = 0;
  EXPECT_EQ(neighbour_rows({&byte, 1, 64, DType::bf16, 2, false}), 0);
  EXPECT_EQ(neighbour_rows({&byte, 64, 1, DType::f8e4m3, 2, false}), 0);
  EXPECT_EQ(neighbour_rows({&byte, 64, 1, DType::i8, 2, false}), 0);
}

}  // namespace
}  // namespace tessera
