// Copies of an image's lines, of blocks that are not full.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "backend/cpu/line_copies.h"

namespace tessera {
namespace {

// Whatever a block's room held before, its rows read zeros from images of zeros: a thread's only block may be
// the last one, of fewer lines or planes.
TEST(LineCopies, RowsReadNothingOfWhatWasThere) {
  ArchSpec arch = find_arch("x86_amx");
  for (const char* problem : {"conv_fwd n=2 c=32 k=16 in=29x31 filter=3x3 pad=1x1",
                              "conv_fwd n=1 c=4 k=16 in=29x31 filter=5x7 pad=2x3",
                              "conv_fwd n=5 c=8 k=16 in=7x7 filter=3x3 pad=1x1",
                              "conv_fwd n=2 c=6 k=16 in=31x29 filter=3x3 stride=2x2 pad=1x1",
                              "conv_fwd n=3 c=16 k=16 in=5x9x11 filter=3x3x3 pad=1x1x1",
                              "conv_bwd_data n=1 c=32 k=4 in=79x65 filter=5x10 stride=2x2",
                              "conv_bwd_data n=3 c=32 k=24 in=23x25 filter=3x3 pad=1x1"}) {
    for (const int64_t cache : {int64_t{1} << 15, int64_t{1} << 16, int64_t{1} << 21}) {
      SCOPED_TRACE(std::string(problem) + " | " + std::to_string(cache));
      arch.l2.bytes = cache;
      for (const StridedPart& part :
           strided_parts(lower(Problem::parse(std::string(problem) + " dtype=bf16")))) {
        const GemmView& view = part.view;
        if (!view.window || view.k == 0) continue;
        const LineCopies lines(view, 2, 32, arch, 3);
        const LineBlock block = lines.blocks().block(lines.blocks().count() - 1);
        std::vector<char> images(static_cast<size_t>(view.a.extent) * 2),
            copy(static_cast<size_t>(lines.bytes()), 1);
        lines.copy(images.data(), block, copy.data());
        std::vector<long long> rows(lines.tile_at().size() * kLinesTileRows, -1);
        const int64_t tiles = lines.place_rows(block, rows.data());
        const auto whole = static_cast<size_t>(lines.shape().runs * lines.shape().whole);
        for (int64_t row = 0; row < tiles * kLinesTileRows; ++row) {
          if (rows[static_cast<size_t>(row)] < 0) continue;
          for (size_t s = 0; s < lines.step_at().size(); ++s) {
            const int64_t bytes = s < whole ? 64 : lines.shape().tail * 2;
            const auto from = copy.begin() + lines.tile_at()[static_cast<size_t>(row / kLinesTileRows)] +
                              row % kLinesTileRows * lines.row_bytes() + lines.step_at()[s];
            ASSERT_TRUE(std::all_of(from, from + bytes, [](char c) { return c == 0; }))
                << row << " step " << s;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace tessera
