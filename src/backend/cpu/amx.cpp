#include "backend/cpu/amx.h"

#include <omp.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "backend/cpu/amx_lines.h"
#include "backend/cpu/arena.h"
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

// An operand as the kernel sees it: the left one's lanes are rows of the product, the right one's are
// columns.
struct Side {
  DType type;
  int64_t k_stride, lane_stride, group_stride;  // elements
};

struct Piece {
  int64_t row0, row1, col0, col1;
};

class AmxKernel : public PartKernel {
 public:
  AmxKernel(std::shared_ptr<CpuModule> module, const ArchSpec& arch, StridedPart part, const Problem& problem,
            const Choice& choice)
      : PartKernel(std::move(module), arch, std::move(part.view), problem, choice),
        taps_(std::move(part.taps)) {
    const Side a{view_.a.type, view_.a.col_stride, view_.a.row_stride, view_.a.group_stride};
    const Side b{view_.b.type, view_.b.row_stride, view_.b.col_stride, view_.b.group_stride};
    swap_ = config_.swap_ab;
    left_ = swap_ ? b : a;
    right_ = swap_ ? a : b;
    rows_ = swap_ ? view_.n : view_.m;
    cols_ = swap_ ? view_.m : view_.n;
    group_ = bytes_of(view_.a.type) == 1 && !info(view_.a.type).is_float ? 4 : 2;
    step_ = inst_.k;
    tile_m_ = config_.tile_m;
    tile_n_ = config_.tile_n;
    choose_blocks(arch);
    pieces_ = pieces();
  }

  void run_unchecked(const Buffers& buffers) const override {
    const tsr::EpilogueArgs epilogue = epilogue_args(buffers);
    const int64_t tasks = view_.groups * static_cast<int64_t>(pieces_.size());
    char* space = static_cast<char*>(buffers.workspace ? buffers.workspace : thread_arena(workspace_bytes()));
    const int threads = busy_threads();
    if (threads == 1) {
      for (int64_t t = 0; t < tasks; ++t) run_task(buffers, t, epilogue, space);
      return;
    }
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t t = 0; t < tasks; ++t) {
      run_task(buffers, t, epilogue, space + omp_get_thread_num() * thread_bytes());
    }
  }

  size_t workspace_bytes() const override { return static_cast<size_t>(busy_threads() * thread_bytes()); }

  size_t packed_b_bytes() const override {
    return view_.b_prepacked ? static_cast<size_t>(view_.groups * packed_group_bytes()) : 0;
  }

  void pack_b(const void* b, void* packed, int64_t ldb) const override {
    const Operand o = b_to_pack(ldb);
    Side side = right_;
    side.k_stride = o.row_stride;
    side.lane_stride = o.col_stride;
    const int64_t stride = o.group_stride * bytes_of(o.type);
    for (int64_t g = 0; g < view_.groups; ++g) {
      pack_right(static_cast<const char*>(b) + g * stride, side, 0, view_.k, 0, cols_,
                 static_cast<char*>(packed) + g * packed_group_bytes());
    }
    prefer_large_pages(packed, packed_b_bytes());
  }

 private:
  // The resident operand has at least this many lanes, so that the other one, streaming from beyond L2, meets
  // enough multiplications per byte.
  static constexpr int64_t kLeastLanes = 256;
  static constexpr int64_t kMostSums = int64_t{16} << 20;
  // Packed right operand that several row blocks read, and a group of panels packed together for one row
  // block.
  static constexpr int64_t kBlockBytes = int64_t{4} << 20, kGroupBytes = int64_t{256} << 10;
  // Rows of a row-major right operand that are packed for all panels before the next ones: their pages fit
  // the TLB.
  static constexpr int64_t kPackRows = 64;
  static constexpr int64_t kShallowRows = 128;
  // A panel's chunk of this many steps, and the row tiles that pass it, share L1; with fewer passes the sums
  // that go to memory between chunks cost more than that saves.
  static constexpr int64_t kChunkSteps = 16, kLeastPasses = 4;
  // A row block that all panels pass stays in a third of L1.
  static constexpr int64_t kRowBlockBytes = int64_t{16} << 10;

  int64_t steps_of(int64_t depth) const { return ceil_div(depth, step_); }
  int64_t panel_bytes_of(int64_t depth) const { return steps_of(depth) * 64 * tile_n_; }
  int64_t packed_group_bytes() const { return panel_bytes_of(view_.k) * ceil_div(cols_, tile_n_); }

  // A block of one operand is resident: it stays in a quarter of L2 (half may belong to another hyper-thread)
  // while the other operand streams past in blocks that stay in L1. That is the right one, since C is then
  // written along its rows; but a left operand that has to be packed would be packed again for every block of
  // it. block_n and block_m of the config set the extent of a resident right and left block.
  void choose_blocks(const ArchSpec& arch) {
    const int64_t k = std::max<int64_t>(view_.k, 1), cache = arch.l2.bytes / 4;
    // A row-major right operand that few rows use is packed in shallow blocks: long runs of its rows, and
    // with those the packing goes at the speed of memory.
    const bool shallow = !view_.b_prepacked && right_.k_stride != 1 && rows_ <= kShallowRows &&
                         config_.block_m == 0 && config_.block_n == 0;
    const bool one_block = cols_ * round_up(k, step_) * 64 <= cache * step_;
    right_resident_ =
        config_.block_n > 0 || (config_.block_m == 0 && (shallow || one_block || !config_.pack_a));
    const int64_t lanes = right_resident_ ? cols_ : rows_, unit = right_resident_ ? tile_n_ : tile_m_;
    const int64_t least = std::clamp<int64_t>(round_up(lanes, 16), 16, kLeastLanes);
    const int64_t deepest = std::max<int64_t>(cache / (least * 64), 1) * step_;
    depth_ = config_.block_k > 0 ? round_up(config_.block_k, step_) : deepest;
    if (shallow && config_.block_k == 0) depth_ = step_ * (rows_ <= kShallowRows / 4 ? 4 : 8);
    depth_ = ceil_div(k, ceil_div(k, depth_));
    depth_ = std::min(round_up(depth_, step_), round_up(k, step_));
    const int64_t steps = depth_ / step_;
    int64_t block = right_resident_ ? config_.block_n : config_.block_m;
    if (block == 0) block = std::max<int64_t>(cache / (steps * 64), unit);
    block = round_up(ceil_div(lanes, ceil_div(lanes, round_up(block, unit))), unit);  // blocks of equal size

    const int64_t panel = panel_bytes_of(depth_), row_bytes = left_.lane_stride * bytes_of(left_.type);
    if (right_resident_) {
      block_cols_ = block;
      block_rows_ = std::max<int64_t>(kRowBlockBytes / (steps * 64) / tile_m_, 1) * tile_m_;
      const bool far = rows_ * row_bytes > cache;
      prefetch_ = !config_.pack_a && far && block_rows_ == tile_m_;
    } else {
      block_rows_ = block;
      const int64_t bytes = rows_ <= block_rows_ ? kGroupBytes : kBlockBytes;
      block_cols_ = std::max<int64_t>(bytes / panel, 1) * tile_n_;
    }
    block_rows_ = std::min(block_rows_, round_up(rows_, 16));
    block_cols_ = std::min(block_cols_, round_up(cols_, tile_n_));
  }

  bool deep() const { return depth_ < view_.k; }  // several blocks along k: sums of the whole block are kept
  int64_t panels() const { return block_cols_ / tile_n_; }
  int64_t sums_stride() const {
    return round_up(block_rows_, 16) * tile_n_ * 4;
  }  // of one panel and row block
  int64_t sums_bytes() const {
    return sums_stride() * panels() * (deep() ? ceil_div(std::min(rows_, most_rows()), block_rows_) : 1);
  }
  // Rows of a piece, so that the sums it keeps between blocks of k are bounded.
  int64_t most_rows() const {
    return deep() ? std::max<int64_t>(kMostSums / (sums_stride() * panels()), 1) * block_rows_ : rows_;
  }
  // Packed: all of a row block. In place: the last row tile, and the tails of k.
  int64_t left_bytes() const {
    if (view_.a.patches) return round_up(block_rows_, 16) * patch_stride(depth_);
    const int64_t tiles = ceil_div(block_rows_, 16);
    return (config_.pack_a ? tiles * steps_of(depth_) : steps_of(depth_) + tiles) * kTileBytes;
  }
  // Of rows of patches: an odd number of cache lines, so that those of a tile lie in sets of their own.
  int64_t patch_stride(int64_t depth) const { return (steps_of(depth) | 1) * 64; }
  int64_t table_bytes() const {
    return view_.c_rows ? round_up(block_rows_ * static_cast<int64_t>(sizeof(long long)), 64) : 0;
  }
  int64_t right_bytes() const { return view_.b_prepacked ? 0 : panel_bytes_of(depth_) * panels(); }
  int64_t thread_bytes() const { return sums_bytes() + left_bytes() + right_bytes() + table_bytes(); }
  int busy_threads() const {
    return static_cast<int>(std::min<int64_t>(threads_, view_.groups * static_cast<int64_t>(pieces_.size())));
  }

  // The streaming operand is cut among the threads, or the resident one where that has too few tiles.
  std::vector<Piece> thread_pieces() const {
    const Piece whole{0, rows_, 0, cols_};
    if (threads_ == 1 || view_.groups >= threads_) return {whole};
    const int64_t row_tiles = ceil_div(rows_, tile_m_), col_tiles = ceil_div(cols_, tile_n_);
    const bool by_rows = right_resident_ ? row_tiles >= threads_ || row_tiles >= col_tiles
                                         : col_tiles < threads_ && row_tiles > col_tiles;
    const int64_t unit = by_rows ? tile_m_ : tile_n_, extent = by_rows ? rows_ : cols_;
    const int64_t tiles = by_rows ? row_tiles : col_tiles, parts = std::min<int64_t>(threads_, tiles);
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

  std::vector<Piece> pieces() const {
    std::vector<Piece> out;
    for (const Piece& p : thread_pieces()) {
      for (int64_t row = p.row0; row < p.row1; row += most_rows()) {
        out.push_back({row, std::min(row + most_rows(), p.row1), p.col0, p.col1});
      }
    }
    return out;
  }

  void run_task(const Buffers& buffers, int64_t task, tsr::EpilogueArgs epilogue, char* space) const {
    const int64_t count = static_cast<int64_t>(pieces_.size()), group = task / count;
    set_group(epilogue, buffers, group);
    run_piece(buffers, group, pieces_[static_cast<size_t>(task % count)], epilogue, space);
  }

  // Panels of columns [n0, n1), each [steps][16][tile_n] words, one behind the other.
  void pack_right(const char* data, const Side& s, int64_t k0, int64_t depth, int64_t n0, int64_t n1,
                  char* out) const {
    const int64_t panel = panel_bytes_of(depth);
    const int64_t part = s.k_stride == 1 ? std::max<int64_t>(depth, 1) : round_up(kPackRows, step_);
    for (int64_t k = 0; k < depth; k += part) {
      const int64_t here = std::min(part, depth - k), step_bytes = panel_bytes_of(here);
      for (int64_t n = n0; n < n1; n += tile_n_) {
        char* to = out + (n - n0) / tile_n_ * panel + k / step_ * 64 * tile_n_;
        const PanelShape shape{here, static_cast<int>(std::min<int64_t>(tile_n_, n1 - n)), tile_n_, false};
        if (!view_.b.plain()) {
          const PanelSource words{data, s.k_stride, s.lane_stride, s.type, group_, false};
          pack_gathered(words, k0 + k, n, shape, to);
        } else {
          pack_panel_avx512({data + ((k0 + k) * s.k_stride + n * s.lane_stride) * bytes_of(s.type),
                             s.k_stride, s.lane_stride, s.type, group_, false},
                            shape, to);
        }
        const size_t written = panel_bytes(shape, group_);
        std::fill(to + written, to + step_bytes, char{0});
      }
    }
  }

  // The right operand from row k and column n on, which is patches or comes in blocks.
  void pack_gathered(PanelSource words, int64_t k, int64_t n, const PanelShape& shape, char* out) const {
    if (view_.b.patches) {
      pack_patch_panel(pack_panel_avx512, pack_scattered_avx512, *view_.window, words,
                       {k, shape.depth, n, shape.live}, tile_n_, out);
    } else {
      words.data += n * words.lane_stride * bytes_of(words.memory);
      pack_block_panel(pack_panel_avx512, view_.b, taps_, words, k, shape, out);
    }
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
    args.rows = rows;
    args.row0 = row0;
    args.last_row = -1;
    args.last_tile = nullptr;
    args.tail = 0;
    if (view_.a.patches) {
      const int64_t stride = patch_stride(depth), bytes = depth * element;
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
      for (int64_t row = 0; row < rows; row += 16) {
        pack_tile_rows(source(row, 0), depth, static_cast<int>(std::min<int64_t>(16, rows - row)),
                       space + row / 16 * steps * kTileBytes);
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
    const int64_t whole_rows = rows / 16 * 16, whole_depth = depth / step_ * step_;
    char* tails = space + steps_of(depth_) * kTileBytes;
    if (whole_depth < depth) {
      args.tail = 1;
      args.left_tail = tails;
      for (int64_t row = 0; row < whole_rows; row += 16) {
        pack_tile_rows(source(row, whole_depth), depth - whole_depth, 16, tails + row / 16 * kTileBytes);
      }
    }
    if (whole_rows < rows) {
      args.last_row = whole_rows;
      args.last_tile = space;
      pack_tile_rows(source(whole_rows, 0), depth, static_cast<int>(rows - whole_rows), space);
    }
  }

  void run_piece(const Buffers& buffers, int64_t group, const Piece& piece, tsr::EpilogueArgs epilogue,
                 char* space) const {
    char* sums = space;
    char* left_space = sums + sums_bytes();
    char* own_panels = left_space + left_bytes();
    auto* table = reinterpret_cast<long long*>(own_panels + right_bytes());
    const char* left = swap_ ? group_b(buffers, group) : group_a(buffers, group);
    const char* right = swap_ ? group_a(buffers, group) : group_b(buffers, group);
    const char* prepacked = static_cast<const char*>(buffers.b) + group * packed_group_bytes();
    const int64_t k_end = epilogue.alpha == 0.0f ? 0 : view_.k;  // BLAS: alpha 0 reads neither operand

    const TileConfiguration tiles;
    tsr::AmxArgs args{};
    args.epilogue = &epilogue;
    for (int64_t n0 = piece.col0; n0 < piece.col1; n0 += block_cols_) {
      const int64_t n1 = std::min(n0 + block_cols_, piece.col1);
      for (int64_t k0 = 0; k0 < std::max<int64_t>(k_end, 1); k0 += depth_) {
        const int64_t depth = std::min(depth_, k_end - k0);
        int64_t panel = panel_bytes_of(depth);
        const char* block = own_panels;
        if (view_.b_prepacked) {
          panel = panel_bytes_of(view_.k);
          block = prepacked + n0 / tile_n_ * panel + k0 / step_ * 64 * tile_n_;
        } else {
          pack_right(right, right_, k0, depth, n0, n1, own_panels);
        }
        const bool first = k0 == 0, last = k0 + depth_ >= k_end;
        for (int64_t m0 = piece.row0; m0 < piece.row1; m0 += block_rows_) {
          const int64_t m1 = std::min(m0 + block_rows_, piece.row1);
          set_left(args, left, m0, m1, k0, depth, left_space);
          if (view_.c_rows) {
            for (int64_t i = 0; i < m1 - m0; ++i) table[i] = view_.c_rows->row(m0 + i);
            epilogue.rows = table;
            args.row0 = 0;
          }
          char* block_sums = sums + (deep() ? (m0 - piece.row0) / block_rows_ * panels() * sums_stride() : 0);
          args.prefetch = prefetch_ && m1 < piece.row1 ? (m1 - m0) * args.left_stride : 0;
          multiply_block(args, block, panel, n0, n1, block_sums, depth, first, last);
        }
      }
    }
  }

  // A row block times the panels of columns [n0, n1). With right_resident_ all panels pass a chunk of the
  // rows, else all chunks of a panel pass the rows.
  void multiply_block(tsr::AmxArgs args, const char* block, int64_t panel, int64_t n0, int64_t n1, char* sums,
                      int64_t depth, bool first, bool last) const {
    const int64_t whole = config_.pack_a ? steps_of(depth) : depth / step_;
    const int64_t count = ceil_div(n1 - n0, tile_n_);
    const int64_t passes = right_resident_ ? count : ceil_div(args.rows, tile_m_);
    const int64_t chunks =
        passes < kLeastPasses ? 1 : std::max<int64_t>((whole + kChunkSteps / 2) / kChunkSteps, 1);
    const tsr::AmxArgs start = args;
    for (int64_t i = 0; i < count * chunks; ++i) {
      const int64_t p = right_resident_ ? i % count : i / chunks,
                    c = right_resident_ ? i / count : i % chunks;
      const int64_t s = whole * c / chunks, end = whole * (c + 1) / chunks;
      args.steps = end - s;
      args.left = static_cast<const char*>(start.left) + s * start.left_step_bytes;
      if (start.last_tile) args.last_tile = static_cast<const char*>(start.last_tile) + s * kTileBytes;
      args.right = block + p * panel + s * 64 * tile_n_;
      args.first = first && c == 0;
      args.last = last && c == chunks - 1;
      args.tail = c == chunks - 1 ? start.tail : 0;
      args.col0 = n0 + p * tile_n_;
      args.cols = std::min<int64_t>(tile_n_, n1 - args.col0);
      args.partial = reinterpret_cast<float*>(sums + p * sums_stride());
      if (start.prefetch) {  // each panel its share of the next row block
        const int64_t from = tile_m_ * p / count;
        args.prefetch = start.prefetch + from * start.left_stride;
        args.prefetch_rows = tile_m_ * (p + 1) / count - from;
      }
      entry_(&args);
    }
  }

  std::vector<int64_t> taps_;  // of B's blocks, those in use; empty: all
  bool swap_ = false, right_resident_ = false, prefetch_ = false;
  Side left_{}, right_{};
  int64_t rows_ = 0, cols_ = 0;  // of the product as the kernel sees it
  int group_ = 2, tile_m_ = 16, tile_n_ = 16;
  int64_t step_ = 32;  // k elements of one tile
  int64_t depth_ = 0, block_rows_ = 0, block_cols_ = 0;
  std::vector<Piece> pieces_;
};

std::unique_ptr<PartKernel> make_part(std::shared_ptr<CpuModule> module, const ArchSpec& arch,
                                      StridedPart part, const Problem& problem, const Choice& choice) {
  if (reads_lines(part.view, choice.config))
    return make_amx_lines(std::move(module), arch, std::move(part), problem, choice);
  return std::make_unique<AmxKernel>(std::move(module), arch, std::move(part), problem, choice);
}

}  // namespace

std::unique_ptr<Kernel> make_amx_kernel(std::shared_ptr<CpuModule> module, const ArchSpec& arch,
                                        const Problem& problem, const Choice& choice) {
  return make_in_parts(std::move(module), arch, problem, choice, make_part);
}

}  // namespace tessera
