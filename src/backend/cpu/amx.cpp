#include "backend/cpu/amx.h"

#include <omp.h>

#include <algorithm>
#include <vector>

#include "backend/cpu/arena.h"
#include "backend/cpu/pack.h"
#include "backend/cpu/pack_tiles.h"
#include "core/tile_math.h"
#include "tessera/error.h"

namespace tessera {
namespace {

// An operand as the kernel sees it: the left one's lanes are rows of the product, the right one's are
// columns.
struct Side {
  DType type;
  int64_t k_stride, lane_stride, group_stride;  // elements
};

struct Piece {
  int64_t row0, row1, col0, col1;
};

class AmxKernel : public CpuKernel {
 public:
  AmxKernel(std::shared_ptr<CpuModule> module, const ArchSpec& arch, const Problem& problem,
            const Choice& choice)
      : CpuKernel(std::move(module), arch, problem, choice) {
    const Side a{view_.a.type, view_.a.col_stride, view_.a.row_stride, view_.a.group_stride};
    const Side b{view_.b.type, view_.b.row_stride, view_.b.col_stride, view_.b.group_stride};
    swap_ = config_.swap_ab;
    left_ = swap_ ? b : a;
    right_ = swap_ ? a : b;
    rows_ = swap_ ? view_.n : view_.m;
    cols_ = swap_ ? view_.m : view_.n;
    group_ = bytes_of(view_.a.type) == 1 && !info(view_.a.type).is_float ? 4 : 2;
    step_ = inst_.k;
    tile_n_ = config_.tile_n;
    const int64_t k = std::max<int64_t>(view_.k, 1);
    // Depth: a row block of the left operand is read once per panel of the right one, so it stays in half of
    // L2.
    const int64_t l2 = arch.l2.bytes / 2, row_bytes = 64;
    const int64_t deepest = std::max<int64_t>(l2 / (kLeastRows * row_bytes), 1) * step_;
    depth_ = config_.block_k > 0 ? config_.block_k : deepest;
    depth_ = std::min(round_up(depth_, step_), round_up(k, step_));
    const int64_t steps = depth_ / step_;
    block_rows_ =
        config_.block_m > 0 ? config_.block_m : std::max<int64_t>(l2 / (steps * row_bytes), kLeastRows);
    block_rows_ = std::min(round_up(block_rows_, config_.tile_m), round_up(rows_, 16));
    const int64_t panel = steps * 64 * tile_n_;
    block_cols_ = config_.block_n > 0 ? config_.block_n : std::max<int64_t>(kBlockBytes / panel, 1) * tile_n_;
    block_cols_ = std::min(round_up(block_cols_, tile_n_), round_up(cols_, tile_n_));
    // Along k the right panel's share of a chunk stays in L1 while the row tiles pass: 8 steps were best for
    // 48 KiB.
    chunk_ = std::max<int64_t>(arch.l1.bytes / kChunkBytes, 4);
    // Rows read in place from beyond L2 and far apart outrun the hardware's prefetching.
    const int64_t row = left_.lane_stride * bytes_of(left_.type);
    prefetch_ = !config_.pack_a && row >= 1024 && rows_ * row > arch.l2.bytes ? kPrefetchBytes : 0;
    pieces_ = pieces();
  }

  void run_unchecked(const Buffers& buffers) const override {
    tsr::EpilogueArgs epilogue = epilogue_args(buffers);
    if (pieces_.size() == 1 && view_.groups == 1) return run_piece(buffers, 0, pieces_[0], epilogue);
    const int64_t tasks = view_.groups * static_cast<int64_t>(pieces_.size());
    if (threads_ == 1) {
      for (int64_t t = 0; t < tasks; ++t) run_task(buffers, t, epilogue);
      return;
    }
#pragma omp parallel for num_threads(threads_) schedule(static)
    for (int64_t t = 0; t < tasks; ++t) run_task(buffers, t, epilogue);
  }

  size_t workspace_bytes() const override {
    return static_cast<size_t>(partial_bytes() + left_bytes() + right_bytes());
  }

  size_t packed_b_bytes() const override {
    return view_.b_prepacked ? static_cast<size_t>(view_.groups * packed_group_bytes()) : 0;
  }

  void pack_b(const void* b, void* packed, int64_t ldb) const override {
    if (!view_.b_prepacked) return CpuKernel::pack_b(b, packed, ldb);
    const int64_t leading = ldb == Problem::kPacked ? view_.b.contiguous() : ldb;
    Side side = right_;
    (view_.b.row_major() ? side.k_stride : side.lane_stride) = leading;
    // One B for all batches is packed once for each.
    const int64_t stride =
        view_.b.group_stride == 0 ? 0 : leading * (view_.b.row_major() ? view_.k : view_.n) * bytes_of(side.type);
    for (int64_t g = 0; g < view_.groups; ++g) {
      char* out = static_cast<char*>(packed) + g * packed_group_bytes();
      for (int64_t k0 = 0; k0 < view_.k; k0 += depth_) {
        const int64_t depth = std::min(depth_, view_.k - k0);
        for (int64_t n0 = 0; n0 < cols_; n0 += tile_n_, out += panel_bytes_of(depth)) {
          pack_right(static_cast<const char*>(b) + g * stride, side, k0, depth, n0, out);
        }
      }
    }
  }

 private:
  static constexpr int64_t kLeastRows = 64;
  static constexpr int64_t kBlockBytes = int64_t{4} << 20;
  static constexpr int64_t kPrefetchBytes = 512;
  static constexpr int64_t kChunkBytes = 6144;

  int64_t steps_of(int64_t depth) const { return ceil_div(depth, step_); }
  int64_t panel_bytes_of(int64_t depth) const { return steps_of(depth) * 64 * tile_n_; }
  int64_t packed_group_bytes() const {
    int64_t bytes = 0;
    for (int64_t k0 = 0; k0 < view_.k; k0 += depth_) {
      bytes += panel_bytes_of(std::min(depth_, view_.k - k0)) * ceil_div(cols_, tile_n_);
    }
    return bytes;
  }
  bool deep() const { return depth_ < view_.k; }  // several blocks along k: sums of the whole block are kept
  int64_t partial_stride() const {
    return round_up(block_rows_, 16) * tile_n_ * 4;
  }  // bytes of a panel's sums
  int64_t partial_bytes() const {
    if (!deep()) return partial_stride();
    return ceil_div(rows_, block_rows_) * partial_stride() * (block_cols_ / tile_n_);
  }
  // Packed: all of a row block. In place: the last row tile, and the tails of k.
  int64_t left_bytes() const {
    const int64_t tiles = ceil_div(block_rows_, 16);
    return config_.pack_a ? tiles * steps_of(depth_) * 1024 : (steps_of(depth_) + tiles) * 1024;
  }
  int64_t right_bytes() const {
    if (view_.b_prepacked) return 0;
    return panel_bytes_of(depth_) * (rows_ <= block_rows_ ? 1 : block_cols_ / tile_n_);
  }

  void pack_right(const char* data, const Side& s, int64_t k0, int64_t depth, int64_t n0, char* out) const {
    const int live = static_cast<int>(std::min<int64_t>(tile_n_, cols_ - n0));
    const PanelShape shape{depth, live, tile_n_, false};
    pack_panel_avx512({data + (k0 * s.k_stride + n0 * s.lane_stride) * bytes_of(s.type), s.k_stride,
                       s.lane_stride, s.type, group_, false},
                      shape, out);
    const size_t written = panel_bytes(shape, group_);
    std::fill(out + written, out + panel_bytes_of(depth), char{0});
  }

  std::vector<Piece> pieces() const {
    const Piece whole{0, rows_, 0, cols_};
    if (threads_ == 1 || view_.groups >= threads_) return {whole};
    const bool by_rows = rows_ >= cols_;
    const int64_t unit = by_rows ? config_.tile_m : tile_n_, extent = by_rows ? rows_ : cols_;
    const int64_t tiles = ceil_div(extent, unit), parts = std::min<int64_t>(threads_, tiles);
    std::vector<Piece> out;
    for (int64_t p = 0; p < parts; ++p) {
      const int64_t from = tiles * p / parts * unit, to = std::min(tiles * (p + 1) / parts * unit, extent);
      Piece piece = whole;
      (by_rows ? piece.row0 : piece.col0) = from;
      (by_rows ? piece.row1 : piece.col1) = to;
      out.push_back(piece);
    }
    return out;
  }

  void run_task(const Buffers& buffers, int64_t task, tsr::EpilogueArgs epilogue) const {
    const int64_t count = static_cast<int64_t>(pieces_.size()), group = task / count;
    set_group(epilogue, buffers, group);
    run_piece(buffers, group, pieces_[static_cast<size_t>(task % count)], epilogue);
  }

  // Points args at rows [row0, row1) of the left operand over [k0, k0 + depth), copying what cannot be read
  // in place.
  void set_left(tsr::AmxArgs& args, const char* left, int64_t row0, int64_t row1, int64_t k0, int64_t depth,
                char* space) const {
    const int64_t element = bytes_of(left_.type), row_bytes = left_.lane_stride * element;
    const char* data = left + (row0 * left_.lane_stride + k0 * left_.k_stride) * element;
    auto source = [&](int64_t row, int64_t k) {
      return PanelSource{data + (row * left_.lane_stride + k * left_.k_stride) * element,
                         left_.k_stride,
                         left_.lane_stride,
                         left_.type,
                         group_,
                         false};
    };
    const int64_t rows = row1 - row0, steps = steps_of(depth);
    args.last_row = -1;
    args.last_tile = nullptr;
    args.tail = 0;
    if (config_.pack_a) {
      for (int64_t row = 0; row < rows; row += 16) {
        pack_tile_rows(source(row, 0), depth, static_cast<int>(std::min<int64_t>(16, rows - row)),
                       space + row / 16 * steps * 1024);
      }
      args.left = space;
      args.left_stride = 64;
      args.left_step_bytes = 1024;
      args.left_tile_bytes = steps * 1024;
      return;
    }
    args.left = data;
    args.left_stride = row_bytes;
    args.left_step_bytes = 64;
    args.left_tile_bytes = 16 * row_bytes;
    const int64_t whole_rows = rows / 16 * 16, whole_depth = depth / step_ * step_;
    char* tails = space + steps_of(depth_) * 1024;
    if (whole_depth < depth) {
      args.tail = 1;
      args.left_tail = tails;
      for (int64_t row = 0; row < whole_rows; row += 16) {
        pack_tile_rows(source(row, whole_depth), depth - whole_depth, 16, tails + row / 16 * 1024);
      }
    }
    if (whole_rows < rows) {
      args.last_row = whole_rows;
      args.last_tile = space;
      pack_tile_rows(source(whole_rows, 0), depth, static_cast<int>(rows - whole_rows), space);
    }
  }

  void run_piece(const Buffers& buffers, int64_t group, const Piece& piece,
                 const tsr::EpilogueArgs& epilogue) const {
    const bool own = buffers.workspace && threads_ == 1;
    char* partial = static_cast<char*>(own ? buffers.workspace : thread_arena(workspace_bytes()));
    char* left_space = partial + partial_bytes();
    char* panels = left_space + left_bytes();
    const char* left = swap_ ? group_b(buffers, group) : group_a(buffers, group);
    const char* right = swap_ ? group_a(buffers, group) : group_b(buffers, group);
    const char* packed = static_cast<const char*>(buffers.b) + group * packed_group_bytes();
    const bool one_block = piece.row1 - piece.row0 <= block_rows_;
    const int64_t k_end = epilogue.alpha == 0.0f ? 0 : view_.k;  // BLAS: alpha 0 reads neither operand

    tsr::AmxArgs args{};
    args.epilogue = &epilogue;
    args.prefetch = prefetch_;
    for (int64_t n0 = piece.col0; n0 < piece.col1; n0 += block_cols_) {
      const int64_t n1 = std::min(n0 + block_cols_, piece.col1);
      for (int64_t k0 = 0; k0 < std::max<int64_t>(k_end, 1); k0 += depth_) {
        const int64_t depth = std::min(depth_, k_end - k0), panel = panel_bytes_of(depth);
        if (!view_.b_prepacked && !one_block) {
          for (int64_t n = n0; n < n1; n += tile_n_) {
            pack_right(right, right_, k0, depth, n, panels + (n - n0) / tile_n_ * panel);
          }
        }
        for (int64_t m0 = piece.row0; m0 < piece.row1; m0 += block_rows_) {
          const int64_t m1 = std::min(m0 + block_rows_, piece.row1);
          set_left(args, left, m0, m1, k0, depth, left_space);
          args.rows = m1 - m0;
          args.row0 = m0;
          for (int64_t n = n0; n < n1; n += tile_n_) {
            const char* here = panels + (one_block ? 0 : (n - n0) / tile_n_ * panel);
            if (view_.b_prepacked) {
              here = packed + k0 / depth_ * panel_bytes_of(depth_) * ceil_div(cols_, tile_n_) +
                     n / tile_n_ * panel;
            } else if (one_block) {
              pack_right(right, right_, k0, depth, n, panels);
            }
            args.cols = std::min<int64_t>(tile_n_, n1 - n);
            args.col0 = n;
            const int64_t slot =
                deep() ? (m0 - piece.row0) / block_rows_ * (block_cols_ / tile_n_) + (n - n0) / tile_n_ : 0;
            args.partial = reinterpret_cast<float*>(partial + slot * partial_stride());
            run_chunks(args, here, depth, k0 == 0, k0 + depth_ >= k_end);
          }
        }
      }
    }
  }

  // The steps of one panel, in chunks that keep its part in L1 where there are several row tiles to reuse it.
  void run_chunks(tsr::AmxArgs args, const char* panel, int64_t depth, bool first, bool last) const {
    const int64_t whole = config_.pack_a ? steps_of(depth) : depth / step_;
    const int64_t chunk = args.rows <= config_.tile_m ? std::max<int64_t>(whole, 1) : chunk_;
    const int tail = args.tail;
    const char* left = static_cast<const char*>(args.left);
    const char* last_tile = static_cast<const char*>(args.last_tile);
    int64_t s = 0;
    do {
      args.steps = std::min(chunk, whole - s);
      const bool end = s + args.steps >= whole;
      args.left = left + s * args.left_step_bytes;
      if (last_tile) args.last_tile = last_tile + s * 1024;
      args.right = panel + s * 64 * tile_n_;
      args.first = first && s == 0;
      args.last = last && end;
      args.tail = end ? tail : 0;
      entry_(&args);
      s += args.steps;
    } while (s < whole);
  }

  bool swap_ = false;
  Side left_{}, right_{};
  int64_t rows_ = 0, cols_ = 0;  // of the product as the kernel sees it
  int group_ = 2, tile_n_ = 16;
  int64_t step_ = 32;  // k elements of one tile
  int64_t depth_ = 0, block_rows_ = 0, block_cols_ = 0, chunk_ = 0, prefetch_ = 0;
  std::vector<Piece> pieces_;
};

}  // namespace

std::unique_ptr<Kernel> make_amx_kernel(std::shared_ptr<CpuModule> module, const ArchSpec& arch,
                                        const Problem& problem, const Choice& choice) {
  return std::make_unique<AmxKernel>(std::move(module), arch, problem, choice);
}

}  // namespace tessera
