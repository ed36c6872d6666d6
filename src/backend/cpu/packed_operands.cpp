#include "backend/cpu/packed_operands.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "core/tile_math.h"

namespace tessera {
namespace {

void fetch(const char* p, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(p + i, 0, 2);
}

// Words of the first bytes of rows, put together in a register: a load of one would wait for several stores.
template <int kBytes>
void copy_rests(const char* from, int64_t row_bytes, int64_t rows, char* to) {
  for (int64_t i = 0; i < rows; ++i, from += row_bytes, to += 4) {
    uint16_t low = 0;
    std::memcpy(&low, from, std::min(kBytes, 2));
    const uint32_t word = low | (kBytes > 2 ? uint32_t{static_cast<uint8_t>(from[2])} << 16 : 0);
    std::memcpy(to, &word, 4);
  }
}

// Words of so many rows are made at a time where a word holds elements of several steps of k, which a few
// rows would keep too few lanes busy with, and then dealt out to the panels of row tiles.
constexpr int kRowsAtOnce = 64, kMostDealt = 32;

// To each of `steps` steps of a panel of `height` rows the first kRows words of a step of `from`; zeros
// behind.
template <int kRows>
void deal_rows(const uint32_t* from, int64_t steps, int height, uint32_t* to) {
  for (int64_t i = 0; i < steps; ++i, from += kRowsAtOnce, to += height) {
    std::memcpy(to, from, kRows * 4);
    for (int row = kRows; row < height; ++row) to[row] = 0;
  }
}
using DealRows = void (*)(const uint32_t*, int64_t, int, uint32_t*);
template <size_t... i>
constexpr std::array<DealRows, sizeof...(i)> dealers(std::index_sequence<i...>) {
  return {deal_rows<static_cast<int>(i)>...};
}
constexpr auto kDealRows = dealers(std::make_index_sequence<kMostDealt + 1>());

}  // namespace

PackedOperands::PackedOperands(const GemmView& view, const PackedPlan& plan, std::vector<int64_t> taps,
                               int vector_bits)
    : view_(view),
      plan_(plan),
      taps_(std::move(taps)),
      pack_panel_(panel_packer(vector_bits)),
      pack_rows_(row_packer(vector_bits)),
      pack_scattered_(scattered_packer(vector_bits)) {
  if (plan.taps_in_place) zeros_.resize(static_cast<size_t>(view.window->channels * bytes_of(view.a.type)));
}

void PackedOperands::pack_b_panel(const char* b, const Operand& o, int64_t k0, int64_t depth, int64_t n0,
                                  int64_t n1, void* out, bool stream, bool more) const {
  const int tile_n = plan_.tile_n, live = static_cast<int>(std::min<int64_t>(tile_n, n1 - n0));
  const PanelShape shape{depth, live, tile_n, plan_.flip_a, stream, plan_.far_b, more};
  PanelSource words{b, o.row_stride, o.col_stride, o.type, plan_.group, false};
  if (o.patches) {
    return pack_patch_panel(pack_panel_, pack_scattered_, *view_.window, words, {k0, depth, n0, live}, tile_n,
                            static_cast<char*>(out));
  }
  words.data += n0 * o.col_stride * bytes_of(o.type);
  if (!o.plain()) {
    return pack_block_panel(pack_panel_, o, taps_, words, k0, shape, static_cast<char*>(out));
  }
  words.data += k0 * o.row_stride * bytes_of(o.type);
  pack_panel_(words, shape, out);
}

void PackedOperands::pack_b_block(const char* b, int64_t k0, int64_t depth, int64_t n0, int64_t n1,
                                  char* out) const {
  // Patches lie close to one another, and what is worked out for a line of them serves many.
  constexpr int64_t kPatches = 64;
  const int64_t panel = plan_.panel_b(depth), chunk = view_.b.patches ? kPatches : plan_.chunk(),
                tile_n = plan_.tile_n;
  for (int64_t k = 0; k < depth; k += chunk) {
    for (int64_t n = n0; n < n1; n += tile_n) {
      pack_b_panel(b, view_.b, k0 + k, std::min(chunk, depth - k), n, n1,
                   out + (n - n0) / tile_n * panel + k / plan_.group * tile_n * 4, false,
                   k + 2 * chunk <= depth);
    }
  }
}

void PackedOperands::gather_edge(const char* b, const Operand& o, char* edge) const {
  const auto as = [&](auto element) {
    using T = decltype(element);
    const T* from = reinterpret_cast<const T*>(b) + plan_.n * o.col_stride;
    T* to = reinterpret_cast<T*>(edge);
    for (int64_t k = 0; k < view_.k; ++k, from += o.row_stride) {
      for (int64_t j = 0; j < plan_.edge; ++j) to[j * view_.k + k] = from[j * o.col_stride];
    }
  };
  switch (bytes_of(o.type)) {
    case 1: return as(uint8_t{});
    case 2: return as(uint16_t{});
    default: return as(uint32_t{});
  }
}

void PackedOperands::take_a(const char* a, const PackedBlock& block, char* rest,
                            tsr::PackedArgs& args) const {
  const int64_t bytes = bytes_of(view_.a.type);
  args.a = a + (block.m0 * view_.a.row_stride + block.k0 * view_.a.col_stride) * bytes;
  args.a_row_bytes = view_.a.row_stride * bytes;
  args.a_step_bytes = view_.a.col_stride * bytes * plan_.group;
  if (!plan_.odd_words) return;
  if (plan_.flip_a) args.a_flip = 0x80808080u;
  args.steps = block.depth / plan_.group;
  const int64_t left = block.depth % plan_.group * bytes;
  args.a_rest = left > 0 ? rest : nullptr;
  const char* from = static_cast<const char*>(args.a) + args.steps * 4;
  if (left == 1) copy_rests<1>(from, args.a_row_bytes, block.rows(), rest);
  if (left == 2) copy_rests<2>(from, args.a_row_bytes, block.rows(), rest);
  if (left == 3) copy_rests<3>(from, args.a_row_bytes, block.rows(), rest);
}

PanelSource PackedOperands::rows_of_a(const char* a, int64_t row, int64_t k0) const {
  const Operand& o = view_.a;
  return {a + (row * o.row_stride + k0 * o.col_stride) * bytes_of(o.type),
          o.col_stride,
          o.row_stride,
          o.type,
          plan_.group,
          plan_.flip_a};
}

// K-contiguous rows stay rows; of other A the words of a step come together, of all rows or of a row tile.
void PackedOperands::pack_a(const char* a, const PackedBlock& block, char* out, tsr::PackedArgs& args) const {
  args.a = out;
  if (view_.a.row_major()) {
    pack_a_rows(a, block, out, args);
  } else if (plan_.all_rows) {
    args.a_row_bytes = 4;
    args.a_step_bytes = plan_.a_step_bytes();
    args.a_tile_bytes = 0;
    const PanelShape shape{block.depth, static_cast<int>(block.rows()),
                           static_cast<int>(plan_.a_step_bytes() / 4), false};
    pack_panel_(rows_of_a(a, block.m0, block.k0), shape, out);
  } else {
    pack_a_panels(a, block, out, args);
  }
}

void PackedOperands::pack_a_rows(const char* a, const PackedBlock& block, char* out,
                                 tsr::PackedArgs& args) const {
  const int64_t rows = block.rows(), missing = plan_.tile_m - rows;
  args.a_row_bytes = plan_.a_row_bytes(block.depth);
  args.a_step_bytes = 4;
  args.a_tile_bytes = 0;
  if (view_.a.patches) {
    PanelSource words = rows_of_a(a, 0, 0);
    pack_patch_rows(pack_rows_, *view_.window, words, {block.m0, rows, block.k0, block.depth},
                    args.a_row_bytes, out);
  } else {
    pack_rows_(rows_of_a(a, block.m0, block.k0), block.depth, rows, args.a_row_bytes, out);
  }
  if (missing > 0)
    std::memset(out + rows * args.a_row_bytes, 0, static_cast<size_t>(missing * args.a_row_bytes));
}

void PackedOperands::pack_a_panels(const char* a, const PackedBlock& block, char* out,
                                   tsr::PackedArgs& args) const {
  const int tile_m = plan_.tile_m;
  const int64_t rows = block.rows(), chunk = plan_.chunk();
  args.a_row_bytes = 4;
  args.a_step_bytes = tile_m * 4;
  args.a_tile_bytes = plan_.a_panel_bytes(block.depth);
  const tsr::RowTiles tiles = rows < tile_m ? tsr::RowTiles{1, 0} : tsr::row_tiles(rows, tile_m);
  const int64_t count = tiles.tall + tiles.low;
  const bool deals = plan_.group > 1 && tile_m <= kMostDealt;
  alignas(64) uint32_t words[PackedPlan::kChunkSteps * kRowsAtOnce];
  for (int64_t k = 0; k < block.depth; k += chunk) {
    char* to = out + k / plan_.group * tile_m * 4;
    const int64_t depth = std::min(chunk, block.depth - k);
    int64_t first = 0, end = 0;  // rows that are made to words
    // Panels take a few elements of each line of A in turn, which the hardware does not see coming: a share
    // of the next lines is asked for with each.
    const int64_t next = std::min(chunk, block.depth - k - chunk);
    for (int64_t t = 0, row = 0; t < count; ++t) {
      for (int64_t i = next * t / count; i < next * (t + 1) / count; ++i)
        fetch(rows_of_a(a, block.m0, block.k0 + k + chunk + i).data, rows * bytes_of(view_.a.type));
      const int64_t height = t < tiles.tall ? std::min<int64_t>(tile_m, rows) : tile_m - (tile_m > 1);
      const int64_t at = std::min(row, rows - height);
      char* const panel = to + t * args.a_tile_bytes;
      row += height;
      if (!deals) {
        pack_panel_(rows_of_a(a, block.m0 + at, block.k0 + k),
                    {depth, static_cast<int>(height), tile_m, false}, panel);
        continue;
      }
      if (at + height > end) {
        first = at;
        end = std::min<int64_t>(at + kRowsAtOnce, rows);
        pack_panel_(rows_of_a(a, block.m0 + at, block.k0 + k),
                    {depth, static_cast<int>(end - at), kRowsAtOnce, false}, words);
      }
      kDealRows[static_cast<size_t>(height)](words + (at - first), ceil_div(depth, plan_.group), tile_m,
                                             reinterpret_cast<uint32_t*>(panel));
    }
  }
}

// Behind the rows of the block zeros, up to a whole tile of rows.
void PackedOperands::point_at_taps(const char* a, const PackedBlock& block, const char** table,
                                   tsr::PackedArgs& args) const {
  const int64_t channels = view_.window->channels, taps = block.depth / channels;
  const int64_t stride = plan_.most_rows();
  point_at_patches(*view_.window, a, bytes_of(view_.a.type),
                   {block.m0, block.rows(), block.k0 / channels, taps}, zeros_.data(), table, stride);
  for (int64_t t = 0; t < taps; ++t) {
    for (int64_t row = block.rows(); row < plan_.tile_m; ++row) table[t * stride + row] = zeros_.data();
  }
  args.a_table = table;
  args.zeros = zeros_.data();
  args.table_rows = stride;
  args.taps = taps;
  args.tap_steps = channels / plan_.group;
}

}  // namespace tessera
