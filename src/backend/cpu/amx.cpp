#include "backend/cpu/amx.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "backend/cpu/amx_gradient.h"
#include "backend/cpu/amx_lines.h"
#include "backend/cpu/amx_plan.h"
#include "backend/cpu/arena.h"
#include "backend/cpu/deal_out.h"
#include "backend/cpu/gather.h"
#include "backend/cpu/pack.h"
#include "backend/cpu/pack_tiles.h"
#include "backend/cpu/parts.h"
#include "backend/cpu/tile_configuration.h"
#include "core/lines_shape.h"
#include "core/tile_math.h"
#include "tessera/error.h"

namespace tessera {
namespace {

class AmxKernel : public PartKernel {
 public:
  AmxKernel(std::shared_ptr<CpuModule> module, const ArchSpec& arch, StridedPart part, const Problem& problem,
            const Choice& choice)
      : PartKernel(std::move(module), arch, std::move(part.view), problem, choice),
        taps_(std::move(part.taps)),
        plan_(view_, config_, inst_, arch, threads_),
        streams_(streams_c(view_, config_, arch)) {}

  void run_unchecked(const Buffers& buffers) const override {
    const tsr::EpilogueArgs epilogue = epilogue_args(buffers);
    const int64_t tasks = view_.groups * static_cast<int64_t>(plan_.pieces.size());
    char* space = static_cast<char*>(buffers.workspace ? buffers.workspace : thread_arena(workspace_bytes()));
    deal_out(tasks, busy_threads(), [&](int64_t t, int thread) {
      run_task(buffers, t, epilogue, space + thread * plan_.thread_bytes());
    });
  }

  size_t workspace_bytes() const override {
    return static_cast<size_t>(busy_threads() * plan_.thread_bytes());
  }

  size_t panels_bytes() const override {
    return view_.b_prepacked ? static_cast<size_t>(view_.groups * plan_.packed_group_bytes()) : 0;
  }

  void pack_b_unchecked(const void* b, void* packed, int64_t ldb) const override {
    const Operand o = b_to_pack(ldb);
    AmxSide side = plan_.right;
    side.k_stride = o.row_stride;
    side.lane_stride = o.col_stride;
    const int64_t stride = o.group_stride * bytes_of(o.type), panel = plan_.panel_bytes_of(view_.k);
    for (int64_t g = 0; g < view_.groups; ++g) {
      char* const to = static_cast<char*>(packed) + g * plan_.packed_group_bytes();
      // Lanes that no column fills: equal matrices are packed to equal bytes.
      if (plan_.cols % plan_.tile_n != 0)
        std::memset(to + plan_.packed_group_bytes() - panel, 0, static_cast<size_t>(panel));
      pack_right(static_cast<const char*>(b) + g * stride, side, 0, view_.k, 0, plan_.cols, to);
    }
    prefer_large_pages(packed, panels_bytes());
  }

 private:
  // Rows of a row-major right operand, whole words of them, that are packed for all panels before the next
  // ones. Of pages from beyond L2 the processor follows so many along; others fit the TLB.
  static constexpr int64_t kPackFarRows = 16, kPackRows = 64;
  static constexpr int64_t kPackSteps = 4;
  // With fewer passes the sums that go to memory between chunks cost more than those save.
  static constexpr int64_t kLeastPasses = 4;

  int busy_threads() const {
    return static_cast<int>(
        std::min<int64_t>(threads_, view_.groups * static_cast<int64_t>(plan_.pieces.size())));
  }

  void run_task(const Buffers& buffers, int64_t task, tsr::EpilogueArgs epilogue, char* space) const {
    const int64_t count = static_cast<int64_t>(plan_.pieces.size()), group = task / count;
    set_group(epilogue, buffers, group);
    run_piece(buffers, group, plan_.pieces[static_cast<size_t>(task % count)], epilogue, space);
  }

  // Panels of columns [n0, n1), each [steps][16][tile_n] words, one behind the other.
  void pack_right(const char* data, const AmxSide& s, int64_t k0, int64_t depth, int64_t n0, int64_t n1,
                  char* out) const {
    const int64_t panel = plan_.panel_bytes_of(depth);
    const bool far = plan_.far_right && view_.b.plain();
    const int64_t rows = far ? kPackFarRows : kPackRows;
    const int64_t part = s.k_stride == 1 ? std::max<int64_t>(depth, 1) : rows;
    for (int64_t k = 0; k < depth; k += part) {
      const int64_t here = std::min(part, depth - k), before = k / plan_.group * 4 * plan_.tile_n;
      for (int64_t n = n0; n < n1; n += plan_.tile_n) {
        char* const begin = out + (n - n0) / plan_.tile_n * panel;
        char* const to = begin + before;
        const PanelShape shape{here, static_cast<int>(std::min<int64_t>(plan_.tile_n, n1 - n)), plan_.tile_n,
                               false};
        if (!view_.b.plain()) {
          const PanelSource words{data, s.k_stride, s.lane_stride, s.type, plan_.group, false};
          pack_gathered(words, k0 + k, n, shape, to);
        } else {
          pack_panel_avx512({data + ((k0 + k) * s.k_stride + n * s.lane_stride) * bytes_of(s.type),
                             s.k_stride, s.lane_stride, s.type, plan_.group, false},
                            shape, to);
        }
        if (k + here == depth) std::fill(to + panel_bytes(shape, plan_.group), begin + panel, char{0});
      }
    }
  }

  // The right operand from row k and column n on, which is patches or comes in blocks.
  void pack_gathered(PanelSource words, int64_t k, int64_t n, const PanelShape& shape, char* out) const {
    if (view_.b.patches) {
      pack_patch_panel(pack_panel_avx512, pack_scattered_avx512, *view_.window, words,
                       {k, shape.depth, n, shape.live}, plan_.tile_n, out);
    } else {
      words.data += n * words.lane_stride * bytes_of(words.memory);
      pack_block_panel(pack_panel_avx512, view_.b, taps_, words, k, shape, out);
    }
  }

  // Points args at rows [row0, row1) of the left operand over [k0, k0 + depth), copying what cannot be read
  // in place.
  void set_left(tsr::AmxArgs& args, const char* left, int64_t row0, int64_t row1, int64_t k0, int64_t depth,
                char* space) const {
    const int64_t element = bytes_of(plan_.left.type), row_bytes = plan_.left.lane_stride * element;
    const char* data = left + (row0 * plan_.left.lane_stride + k0 * plan_.left.k_stride) * element;
    auto source = [&](int64_t row, int64_t k) {
      return PanelSource{data + (row * plan_.left.lane_stride + k * plan_.left.k_stride) * element,
                         plan_.left.k_stride,
                         plan_.left.lane_stride,
                         plan_.left.type,
                         plan_.group,
                         false};
    };
    const int64_t rows = row1 - row0, steps = plan_.steps_of(depth);
    args.rows = rows;
    args.row0 = row0;
    args.last_row = -1;
    args.last_tile = nullptr;
    args.overlap = 0;
    args.tail = 0;
    if (view_.a.patches) {
      const int64_t stride = plan_.patch_stride(depth), bytes = depth * element;
      gather_patches(*view_.window, left, static_cast<int>(element), {row0, rows, k0, depth}, space, stride);
      for (int64_t row = 0; bytes < steps * 64 && row < rows; ++row) {
        std::memset(space + row * stride + bytes, 0, static_cast<size_t>(steps * 64 - bytes));
      }
      args.left = space;
      args.left_stride = stride;
      args.left_step_bytes = 64;
      args.left_tile_bytes = 16 * stride;
      return;
    }
    if (config_.pack_a) {
      // Rows that are neighbours in memory share its lines: of some steps, which stay in L1, all tiles are
      // packed before the next ones.
      const int64_t part =
          plan_.left.lane_stride == 1 ? kPackSteps * plan_.step : std::max<int64_t>(depth, 1);
      const int64_t tile_bytes = steps * kTileBytes, at_once = neighbour_rows(source(0, 0));
      for (int64_t k = 0; k < depth; k += part) {
        const int64_t here = std::min(part, depth - k);
        char* const tiles = space + k / plan_.step * kTileBytes;
        int64_t row = 0;
        for (; at_once > 0 && row + at_once <= rows; row += at_once)
          pack_neighbour_rows(source(row, k), here, tiles + row / 16 * tile_bytes, tile_bytes);
        for (; row < rows; row += 16) {
          pack_tile_rows(source(row, k), here, static_cast<int>(std::min<int64_t>(16, rows - row)),
                         tiles + row / 16 * tile_bytes);
        }
      }
      args.left = space;
      args.left_stride = 64;
      args.left_step_bytes = kTileBytes;
      args.left_tile_bytes = steps * kTileBytes;
      return;
    }
    args.left = data;
    args.left_stride = row_bytes;
    args.left_step_bytes = 64;
    args.left_tile_bytes = 16 * row_bytes;
    const int64_t whole_rows = rows / 16 * 16, whole_depth = depth / plan_.step * plan_.step;
    char* tails = space + plan_.steps_of(plan_.depth) * kTileBytes;
    const bool overlaps = plan_.overlaps(rows);
    if (overlaps) args.overlap = whole_rows + 16 - rows;
    if (whole_depth < depth) {
      args.tail = 1;
      args.left_tail = tails;
      for (int64_t row = 0; row < (overlaps ? rows : whole_rows); row += 16) {
        pack_tile_rows(source(std::min(row, rows - 16), whole_depth), depth - whole_depth, 16,
                       tails + row / 16 * kTileBytes);
      }
    }
    if (whole_rows < rows && !overlaps) {
      args.last_row = whole_rows;
      args.last_tile = space;
      pack_tile_rows(source(whole_rows, 0), depth, static_cast<int>(rows - whole_rows), space);
    }
  }

  void run_piece(const Buffers& buffers, int64_t group, const AmxPiece& piece, tsr::EpilogueArgs epilogue,
                 char* space) const {
    char* sums = space;
    char* left_space = sums + plan_.sums_bytes;
    char* own_panels = left_space + plan_.left_bytes;
    auto* table = reinterpret_cast<long long*>(own_panels + plan_.right_bytes);
    const char* left = plan_.swap ? group_b(buffers, group) : group_a(buffers, group);
    const char* right = plan_.swap ? group_a(buffers, group) : group_b(buffers, group);
    const char* prepacked = static_cast<const char*>(buffers.b) + group * plan_.packed_group_bytes();
    const int64_t k_end = epilogue.alpha == 0.0f ? 0 : view_.k;  // BLAS: alpha 0 reads neither operand

    const TileConfiguration tiles;
    tsr::AmxArgs args{};
    args.epilogue = &epilogue;
    args.far_c = far_c(streams_, epilogue.c);
    if (plan_.copies_left) args.copy = own_panels + plan_.right_bytes + plan_.table_bytes;
    int64_t set_m0 = -1, set_k0 = -1;  // what args has of the left operand
    for (int64_t n0 = piece.col0; n0 < piece.col1; n0 += plan_.block_cols) {
      const int64_t n1 = std::min(n0 + plan_.block_cols, piece.col1);
      for (int64_t k0 = 0; k0 < std::max<int64_t>(k_end, 1); k0 += plan_.depth) {
        const int64_t depth = std::min(plan_.depth, k_end - k0);
        int64_t panel = plan_.panel_bytes_of(depth);
        const char* block = own_panels;
        if (view_.b_prepacked) {
          panel = plan_.panel_bytes_of(view_.k);
          block = prepacked + n0 / plan_.tile_n * panel + k0 / plan_.step * 64 * plan_.tile_n;
        } else {
          pack_right(right, plan_.right, k0, depth, n0, n1, own_panels);
        }
        const bool first = k0 == 0, last = k0 + plan_.depth >= k_end;
        for (int64_t m0 = piece.row0; m0 < piece.row1; m0 += plan_.block_rows) {
          const int64_t m1 = std::min(m0 + plan_.block_rows, piece.row1);
          if (m0 != set_m0 || k0 != set_k0) set_left(args, left, m0, m1, k0, depth, left_space);
          set_m0 = m0, set_k0 = k0;
          if (view_.c_rows) {
            for (int64_t i = 0; i < m1 - m0; ++i) table[i] = view_.c_rows->row(m0 + i);
            epilogue.rows = table;
            args.row0 = 0;
          }
          char* block_sums = sums + (plan_.deep() ? (m0 - piece.row0) / plan_.block_rows * plan_.panels() *
                                                        plan_.sums_stride()
                                                  : 0);
          args.ahead_rows =
              plan_.prefetch ? static_cast<int>(std::min(plan_.block_rows, piece.row1 - m1)) : 0;
          if (args.ahead_rows > 0) {
            args.ahead_stride = plan_.left.lane_stride * bytes_of(plan_.left.type);
            args.ahead = left + m1 * args.ahead_stride + k0 * bytes_of(plan_.left.type);
          }
          args.c_ahead = nullptr;
          if (plan_.fetches_c && args.far_c == tsr::kFarIgnored && m1 < piece.row1) {
            const int64_t size = bytes_of(view_.c.type), row = epilogue.c_stride * size,
                          rows = std::min(plan_.block_rows, piece.row1 - m1);
            args.c_ahead = static_cast<const char*>(epilogue.c) + m1 * row + n0 * size;
            args.c_ahead_bytes = (rows - 1) * row + (n1 - n0) * size;
          }
          multiply_block(args, block, panel, n0, n1, block_sums, depth, first, last);
        }
      }
    }
    if (args.far_c == tsr::kFarStreamed) fence_stores();
  }

  // A row block times the panels of columns [n0, n1). With plan_.right_resident all panels pass a chunk of
  // the rows, else all chunks of a panel pass the rows.
  void multiply_block(tsr::AmxArgs args, const char* block, int64_t panel, int64_t n0, int64_t n1, char* sums,
                      int64_t depth, bool first, bool last) const {
    const int64_t whole = config_.pack_a ? plan_.steps_of(depth) : depth / plan_.step;
    const int64_t count = ceil_div(n1 - n0, plan_.tile_n);
    const int64_t passes = plan_.right_resident ? count : ceil_div(args.rows, plan_.tile_m);
    const int64_t steps = plan_.chunk_steps;
    const int64_t chunks = passes < kLeastPasses ? 1 : std::max<int64_t>((whole + steps / 2) / steps, 1);
    const tsr::AmxArgs start = args;
    args.right_panel_bytes = panel;
    args.fetches_right = plan_.fetches_right;
    args.passing = plan_.passing;
    args.partial_panel_bytes = first && last && chunks == 1 ? 0 : plan_.sums_stride();
    const int64_t panels = plan_.right_resident ? count : 1;  // of a call
    for (int64_t i = 0; i < count / panels * chunks; ++i) {
      const int64_t p = i / chunks, c = i % chunks, s = whole * c / chunks;
      args.steps = whole * (c + 1) / chunks - s;
      args.left = static_cast<const char*>(start.left) + s * start.left_step_bytes;
      if (start.last_tile) args.last_tile = static_cast<const char*>(start.last_tile) + s * kTileBytes;
      if (start.ahead) args.ahead = static_cast<const char*>(start.ahead) + s * 64;
      args.right = block + p * panel + s * 64 * plan_.tile_n;
      args.first = first && c == 0;
      args.last = last && c == chunks - 1;
      args.c_ahead = args.last ? start.c_ahead : nullptr;
      args.tail = c == chunks - 1 ? start.tail : 0;
      args.col0 = n0 + p * plan_.tile_n;
      args.cols = std::min<int64_t>(panels * plan_.tile_n, n1 - args.col0);
      args.partial = reinterpret_cast<float*>(sums + p * args.partial_panel_bytes);
      entry_(&args);
    }
  }

  std::vector<int64_t> taps_;  // of B's blocks, those in use; empty: all
  AmxPlan plan_;
  bool streams_;
};

std::unique_ptr<PartKernel> make_amx_part(std::shared_ptr<CpuModule> module, const ArchSpec& arch,
                                          StridedPart part, const Problem& problem, const Choice& choice) {
  if (reads_lines(part.view, choice.config))
    return make_amx_lines(std::move(module), arch, std::move(part), problem, choice);
  if (sums_lines(part.view, choice.config))
    return make_amx_gradient(std::move(module), arch, std::move(part), problem, choice);
  return std::make_unique<AmxKernel>(std::move(module), arch, std::move(part), problem, choice);
}

}  // namespace

std::unique_ptr<Kernel> make_amx_kernel(std::shared_ptr<CpuModule> module, const ArchSpec& arch,
                                        const Problem& problem, const Choice& choice) {
  return make_in_parts(std::move(module), arch, problem, choice, make_amx_part);
}

}  // namespace tessera
