// The vector packers against the plain one, word by word, with the source against guard pages.
#include "backend/cpu/pack.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "core/arch_spec.h"
#include "core/tile_math.h"
#include "tune/guarded_buffer.h"

namespace tessera {
namespace {

struct Kind {
  DType type;
  int group;
};
constexpr Kind kKinds[] = {{DType::f32, 1},    {DType::bf16, 1}, {DType::f16, 1},    {DType::f8e4m3, 1},
                           {DType::f8e5m2, 1}, {DType::bf16, 2}, {DType::f8e4m3, 2}, {DType::i8, 2},
                           {DType::u8, 2},     {DType::i8, 4},   {DType::u8, 4},     {DType::f8e5m2, 2}};

// Every byte pattern, NaN among them. A NaN may change its payload on the way, so words are compared as
// values.
GuardedBuffer bytes(size_t count) {
  GuardedBuffer buffer(count, 4);
  auto* p = static_cast<unsigned char*>(buffer.data());
  uint32_t state = 1;
  for (size_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    p[i] = static_cast<unsigned char>(state >> 24);
  }
  return buffer;
}

bool same_word(uint32_t x, uint32_t y, Kind kind) {
  if (x == y) return true;
  const auto nan16 = [](uint32_t h) { return (h & 0x7f80) == 0x7f80 && (h & 0x7f); };
  if (kind.group == 1) return nan16(x >> 16) && nan16(y >> 16);
  const auto half = [&](int shift) {
    const uint32_t a = x >> shift & 0xffff, b = y >> shift & 0xffff;
    return a == b || (nan16(a) && nan16(b));
  };
  return kind.group == 2 && info(kind.type).is_float && half(0) && half(16);
}

// That `packer` writes what the plain one does to the lanes that live.
void expect_plain_panel(PackPanel packer, const PanelSource& from, const PanelShape& shape,
                        const GuardedBuffer& panel) {
  const size_t words = panel_bytes(shape, from.group) / 4;
  std::vector<uint32_t> plain(words);
  pack_panel_plain(from, shape, plain.data());
  packer(from, shape, panel.data());
  const auto* got = static_cast<const uint32_t*>(panel.data());
  for (size_t i = 0; i < words; ++i) {
    if (static_cast<int>(i % static_cast<size_t>(shape.width)) >= shape.live) continue;
    ASSERT_TRUE(same_word(got[i], plain[i], {from.memory, from.group}))
        << to_string(from.memory) << " group " << from.group << " k stride " << from.k_stride << " depth "
        << shape.depth << " width " << shape.width << " live " << shape.live << " word " << i << ": "
        << std::hex << got[i] << " is not " << plain[i];
  }
}

class Packers : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (detect_cpu().vector_bits < GetParam()) GTEST_SKIP() << "no vectors of " << GetParam() << " bits here";
  }
};

TEST_P(Packers, PanelsEqualThePlainOnes) {
  const PackPanel packer = panel_packer(GetParam());
  for (const Kind& kind : kKinds) {
    for (const bool along_k : {true, false}) {
      for (const int64_t depth : {1, 3, 16, 31, 67, 128}) {
        for (const int width : {6, 8, 16, 48, 64, 112}) {
          for (const int live : {1, width / 2 + 1, width}) {
            const int64_t line = along_k ? depth + 5 : live + 3;  // elements from one line to the next
            const int64_t lines = along_k ? live : depth, last = along_k ? depth : live;
            const GuardedBuffer source =
                bytes(static_cast<size_t>(((lines - 1) * line + last) * bytes_of(kind.type)));
            const bool correction = kind.type == DType::i8 && kind.group == 4;
            const PanelSource from{static_cast<const char*>(source.data()),
                                   along_k ? 1 : line,
                                   along_k ? line : 1,
                                   kind.type,
                                   kind.group,
                                   correction && width == 6};
            const PanelShape shape{depth, live, width, correction && width != 6};
            const size_t words = panel_bytes(shape, kind.group) / 4;
            GuardedBuffer panel(words * 4);
            expect_plain_panel(packer, from, shape, panel);
            EXPECT_EQ(panel.damage(), "");
          }
        }
      }
    }
  }
}

// More lines than caches keep, whole pages apart and not, and longer than what is packed of a line at a time,
// to panels in the caches and past them.
TEST_P(Packers, PanelsOfLinesFarApartEqualThePlainOnes) {
  constexpr int kWidth = 48;
  for (const Kind& kind : kKinds) {
    const int64_t pages = 8192 / bytes_of(kind.type), depth = 1100 * kind.group + 3;
    for (const int64_t line : {pages, pages + 7}) {
      const GuardedBuffer source =
          bytes(static_cast<size_t>(((kWidth - 1) * line + depth) * bytes_of(kind.type)));
      for (const bool stream : {false, true}) {
        for (const int live : {kWidth, kWidth - 9}) {
          for (const bool far : {false, true}) {
            const PanelShape shape{
                depth, live, kWidth, kind.type == DType::i8 && kind.group == 4 && far != stream, stream, far};
            GuardedBuffer panel(panel_bytes(shape, kind.group), 64);
            expect_plain_panel(
                panel_packer(GetParam()),
                {static_cast<const char*>(source.data()), 1, line, kind.type, kind.group, false}, shape,
                panel);
            EXPECT_EQ(panel.damage(), "");
          }
        }
      }
    }
  }
}

// Rows in no order, the last of a word without elements; what is neither read nor cleared stays.
TEST_P(Packers, ScatteredRowsEqualAPanel) {
  const PackScattered packer = scattered_packer(GetParam());
  if (!packer) GTEST_SKIP() << "none of " << GetParam() << " bits";
  for (const Kind& kind : {Kind{DType::f32, 1}, Kind{DType::bf16, 2}}) {
    for (const int live : {1, 12, 16, 24, 31, 48, 50}) {
      const int64_t depth = 7, line = live + 5, steps = ceil_div(depth, kind.group), width = live + 17;
      const GuardedBuffer source =
          bytes(static_cast<size_t>(((depth - 1) * line + live) * bytes_of(kind.type)));
      const GuardedBuffer none(static_cast<size_t>(live * bytes_of(kind.type)), 4);
      std::memset(none.data(), 0, static_cast<size_t>(live * bytes_of(kind.type)));
      const char* rows[8];
      std::vector<uint32_t> plain(static_cast<size_t>(steps * width)), got(plain.size());
      for (int64_t i = 0; i < steps * kind.group; ++i) {
        const char* line_start =
            static_cast<const char*>(source.data()) + i * 3 % depth * line * bytes_of(kind.type);
        rows[i] = i < depth ? line_start : static_cast<const char*>(none.data());
      }
      for (int64_t step = 0; step < steps; ++step) {
        for (int lane = 0; lane < live; ++lane) {
          uint32_t& word = plain[static_cast<size_t>(step * width + lane)];
          for (int j = 0; j < kind.group; ++j)
            std::memcpy(reinterpret_cast<char*>(&word) + j * bytes_of(kind.type),
                        rows[step * kind.group + j] + lane * bytes_of(kind.type),
                        static_cast<size_t>(bytes_of(kind.type)));
        }
      }
      for (const int written : {live, live + 15}) {
        std::fill(got.begin(), got.end(), 0xabababab);
        packer(rows, steps, kind.group, live, written, width, got.data());
        for (size_t i = 0; i < got.size(); ++i) {
          const uint32_t want = static_cast<int64_t>(i) % width < written ? plain[i] : 0xabababab;
          ASSERT_EQ(got[i], want) << to_string(kind.type) << " live " << live << " written " << written << ' '
                                  << i;
        }
      }
    }
  }
}

TEST_P(Packers, RowsEqualThePlainOnes) {
  const PackRows packer = row_packer(GetParam());
  for (const Kind& kind : kKinds) {
    for (const int64_t depth : {1, 2, 15, 64, 131}) {
      const int64_t rows = 5, line = depth + 3, row_bytes = ceil_div(depth, kind.group) * 4 + 64;
      const GuardedBuffer source =
          bytes(static_cast<size_t>(((rows - 1) * line + depth) * bytes_of(kind.type)));
      const PanelSource from{static_cast<const char*>(source.data()),  1, line, kind.type, kind.group,
                             kind.type == DType::i8 && kind.group == 4};
      std::vector<uint32_t> plain(static_cast<size_t>(rows * row_bytes / 4)), got(plain.size());
      pack_rows_plain(from, depth, rows, row_bytes, plain.data());
      packer(from, depth, rows, row_bytes, got.data());
      for (size_t i = 0; i < plain.size(); ++i) {
        const bool padding = static_cast<int64_t>(i) % (row_bytes / 4) >= ceil_div(depth, kind.group);
        ASSERT_TRUE(padding || same_word(got[i], plain[i], kind))
            << to_string(kind.type) << ' ' << kind.group << ' ' << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(VectorBits, Packers, testing::Values(256, 512));

}  // namespace
}  // namespace tessera
