#include "backend/cpu/packed.h"

#include <omp.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "backend/cpu/arena.h"
#include "backend/cpu/edge_columns.h"
#include "backend/cpu/gather.h"
#include "backend/cpu/pack.h"
#include "backend/cpu/parts.h"
#include "backend/cpu/prepacked_b.h"
#include "core/tile_math.h"
#include "tessera/error.h"

namespace tessera {
namespace {

// A rectangle of one group's C and a range of k.
struct Task {
  int64_t group, m0, m1, n0, n1, k0, k1;
  int part;  // of split-k
};

constexpr int64_t kCacheLine = 64;
constexpr int64_t kPageBytes = 4096;
// Bounds of what a thread keeps: packed B of a block, sums between blocks of k.
constexpr int64_t kMostPackedB = int64_t{8} << 20, kMostSums = int64_t{8} << 20;
// Bytes of a table of where patches lie: it is read beside A and B.
constexpr int64_t kMostTable = 65536;

class PackedKernel : public CpuKernel {
 public:
  PackedKernel(std::shared_ptr<CpuModule> module, const ArchSpec& arch, StridedPart part,
               const Problem& problem, const Choice& choice)
      : CpuKernel(std::move(module), arch, std::move(part.view), problem, choice),
        taps_(std::move(part.taps)),
        packer_(panel_packer(vector_bits_)),
        row_packer_(row_packer(vector_bits_)),
        edge_dot_(edge_dot(vector_bits_)),
        group_(inst_.k),
        tile_m_(config_.tile_m),
        tile_n_(config_.tile_n),
        edge_(config_.edge_dot ? edge_columns(view_, config_) : 0),
        n_(view_.n - edge_),
        flip_a_(flips_a()),
        prepacked_(view_, tile_n_, group_, flip_a_) {
    taps_in_place_ = view_.a.patches && !config_.pack_a;
    pack_a_ = !taps_in_place_ && (config_.pack_a || flip_a_ || !a_fits_in_place());
    if (taps_in_place_) zeros_.resize(static_cast<size_t>(view_.window->channels * bytes_of(view_.a.type)));
    tasks_ = tasks();
    most_ = {};
    for (const Task& t : tasks_) {
      most_.m = std::max(most_.m, t.m1 - t.m0);
      most_.n = std::max(most_.n, t.n1 - t.n0);
      most_.k = std::max(most_.k, t.k1 - t.k0);
    }
    // The correction of flipped A needs whole columns at once.
    by_blocks_ = view_.b.row_major() && view_.b.row_stride != 1 && !view_.b_prepacked && !flip_a_;
    b_in_place_ = !config_.pack_b;
    fetch_c_ = c_is_far(arch);
    choose_blocks(arch);
    a_bytes_ = pack_a_ ? round_up(a_block_bytes(), kCacheLine) : 0;
    table_bytes_ =
        view_.c_rows ? round_up(most_rows() * static_cast<int64_t>(sizeof(long long)), kCacheLine) : 0;
    if (taps_in_place_) a_table_bytes_ = round_up(most_rows() * table_row_bytes(), kCacheLine);
    const bool keeps_b = by_blocks_ || blocks(most_.m, rows_) > 1;
    const bool copies_b = !view_.b_prepacked && (!b_in_place_ || n_ % tile_n_ != 0);
    b_bytes_ = copies_b ? round_up(panel_b(depth_) * (keeps_b ? cols_ / tile_n_ : 1), kCacheLine) : 0;
    sums_bytes_ = most_.k > depth_ && config_.split_k == 1 ? round_up(most_.m * cols_ * 4, kCacheLine) : 0;
    part_bytes_ = config_.split_k > 1 ? round_up(view_.m * round_up(view_.n, tile_n_) * 4, kCacheLine) : 0;
    edge_bytes_ = edge_ > 0 && view_.b.row_stride != 1 ? round_up(edge_ * view_.k * 4, kCacheLine) : 0;
    one_block_ = tasks_.size() == 1 && !pack_a_ && !copies_b && most_.k <= depth_ && !view_.c_rows &&
                 edge_bytes_ + a_table_bytes_ == 0;
  }

  void run_unchecked(const Buffers& buffers) const override {
    tsr::EpilogueArgs epilogue = epilogue_args(buffers);
    if (view_.k == 0 || epilogue.alpha == 0.0f)
      return without_product(buffers, epilogue);  // A and B are not looked at
    const int threads = busy_threads();
    if (one_block_) return run_task(buffers, tasks_[0], epilogue, nullptr, nullptr);
    char* space = static_cast<char*>(buffers.workspace ? buffers.workspace : thread_arena(workspace_bytes()));
    if (threads == 1) {
      for (const Task& t : tasks_) run_task(buffers, t, epilogue, space, space + thread_bytes());
    } else {
#pragma omp parallel for num_threads(threads) schedule(static)
      for (size_t i = 0; i < tasks_.size(); ++i) {
        run_task(buffers, tasks_[i], epilogue, space + omp_get_thread_num() * thread_bytes(),
                 space + threads * thread_bytes());
      }
    }
    if (config_.split_k > 1) finish_parts(buffers, epilogue, space + threads * thread_bytes());
  }

  size_t workspace_bytes() const override {
    return static_cast<size_t>(busy_threads() * thread_bytes() +
                               view_.groups * config_.split_k * part_bytes_);
  }

  size_t packed_b_bytes() const override {
    return view_.b_prepacked ? static_cast<size_t>(prepacked_.bytes()) : 0;
  }

  void pack_b(const void* b, void* packed, int64_t ldb) const override {
    prepacked_.pack(b_to_pack(ldb), b, packed,
                    [this](const char* from, const Operand& o, int64_t n, void* to) {
                      pack_b_panel(from, o, 0, view_.k, n, view_.n, to);
                    });
  }

 private:
  static constexpr int kZeros[512] = {};  // as many as the widest tile has columns
  // Of k, read before the next panel in place: its rows lie on pages of their own, and these many pages are
  // at hand.
  static constexpr int64_t kInPlaceDepth = 128;

  // Rows of C, each on its own page, that the TLB holds beside A and B; bytes of C that stay in L1.
  static constexpr int64_t kRowsAtHand = 32, kRowBytesAtHand = 32768;

  struct Extent {
    int64_t m = 0, n = 0, k = 0;
  };

  static int64_t blocks(int64_t extent, int64_t block) {
    return ceil_div(std::max<int64_t>(extent, 1), block);
  }

  // Whether the kernel can take its words of A from where they lie: 32-bit words of whole k groups, a whole
  // tile of rows.
  bool a_fits_in_place() const {
    if (view_.m < tile_m_ || !view_.a.plain()) return false;
    if (group_ == 1) return view_.a.type == DType::f32;
    return compute_type(view_.a.type, inst_) == view_.a.type && bytes_of(view_.a.type) * group_ == 4 &&
           view_.a.row_major() && view_.k % group_ == 0;
  }

  // Block extents in whole tiles and k groups; where the config leaves one open, so that a block of A stays
  // in three quarters of L2 while the panels of B pass over it, or that the bounds above hold.
  void choose_blocks(const ArchSpec& arch) {
    const KernelConfig& c = config_;
    const int64_t k = std::max<int64_t>(most_.k, 1);
    depth_ = c.block_k > 0 ? std::min<int64_t>(round_up(c.block_k, group_), round_up(k, group_))
                           : round_up(k, group_);
    const int64_t b_row_bytes = view_.b.row_stride * 4;
    if (b_in_place_ && c.block_k == 0 && b_row_bytes >= kPageBytes / 4)
      depth_ = std::min(depth_, kInPlaceDepth);
    if (c.block_k == 0 && !b_in_place_ && !view_.b_prepacked) {  // a panel of a very deep B
      const int64_t most = kMostPackedB / (tile_n_ * 4) * group_;
      depth_ = std::min(depth_, round_up(ceil_div(k, ceil_div(k, most)), group_));
    }
    if (taps_in_place_)
      depth_ = std::max<int64_t>(depth_ / view_.window->channels, 1) * view_.window->channels;
    rows_ = c.block_m > 0 ? round_up(c.block_m, tile_m_) : round_up(most_.m, tile_m_);
    if (taps_in_place_) {
      rows_ = std::min(rows_, std::max<int64_t>(kMostTable / table_row_bytes() / tile_m_, 1) * tile_m_);
    }
    if (c.block_m == 0 && (pack_a_ || most_.n > tile_n_)) {
      const int64_t fit = arch.l2.bytes * 3 / 4 / (ceil_div(depth_, group_) * 4) / tile_m_ * tile_m_;
      rows_ = std::min(rows_, std::max<int64_t>(fit, tile_m_));
    }
    // Where all of packed B stays in L2, few rows at a time: a row of C that is not in L2, or lies on pages
    // of its own, is then written while its lines and pages are at hand.
    const int64_t c_row = view_.c.row_stride * bytes_of(view_.c.type);
    const bool far_rows = c_row >= kPageBytes || fetch_c_;
    if (c.block_m == 0 && far_rows && !b_in_place_ &&
        panel_b(depth_) * ceil_div(most_.n, tile_n_) <= arch.l2.bytes * 3 / 4 && depth_ >= k) {
      const int64_t at_hand = std::max(kRowsAtHand, kRowBytesAtHand / std::max<int64_t>(c_row, 1));
      rows_ = std::min(rows_, std::max(at_hand / tile_m_, int64_t{1}) * tile_m_);
    }
    rows_ = round_up(ceil_div(most_.m, blocks(most_.m, rows_)), tile_m_);  // blocks of equal size
    const int64_t k_blocks = blocks(most_.k, depth_), m_blocks = blocks(most_.m, rows_);
    cols_ = c.block_n > 0 ? round_up(c.block_n, tile_n_) : round_up(most_.n, tile_n_);
    if (c.block_n == 0) {
      // A panel is used as soon as it is packed; where lines of memory run across panels, as many as stay in
      // L2.
      if (m_blocks == 1 && !pack_a_) {
        const int64_t panels = by_blocks_ ? arch.l2.bytes / 2 / panel_b(depth_) : 1;
        cols_ = std::min(cols_, std::max<int64_t>(panels, 1) * tile_n_);
      }
      if (m_blocks > 1 && !view_.b_prepacked) {
        cols_ = std::min(cols_, std::max<int64_t>(kMostPackedB / panel_b(depth_), 1) * tile_n_);
      }
      if (k_blocks > 1) {
        cols_ = std::min(cols_, std::max<int64_t>(kMostSums / (most_.m * 4) / tile_n_ * tile_n_, tile_n_));
      }
    }
    cols_ = std::min(cols_, round_up(most_.n, tile_n_));
  }

  // Whether C is beyond L2 and a row tile's lines of it are no run that the processor sees coming.
  bool c_is_far(const ArchSpec& arch) const {
    const int64_t row = view_.c.row_stride * bytes_of(view_.c.type);
    return !view_.c_rows && row * most_.m > arch.l2.bytes && n_ > tile_n_;
  }

  int64_t panel_b(int64_t depth) const {
    return static_cast<int64_t>(panel_bytes({depth, tile_n_, tile_n_, flip_a_}, group_));
  }

  // Of k, packed at a time where lines of memory run across panels: all panels take theirs while the pages
  // are at hand.
  int64_t chunk() const { return 16 * group_; }

  // Packed A: K-contiguous rows stay rows; other A becomes panels of tile_m.
  bool a_as_rows() const { return view_.a.row_major(); }
  int64_t a_row_bytes(int64_t depth) const {
    const int64_t bytes = ceil_div(depth, group_) * 4;
    return bytes % kPageBytes == 0 ? bytes + kCacheLine
                                   : bytes;  // rows a page apart would share few cache sets
  }
  int64_t a_panel_bytes(int64_t depth) const {
    return static_cast<int64_t>(panel_bytes({depth, tile_m_, tile_m_, false}, group_));
  }
  int64_t a_block_bytes() const {
    return a_as_rows() ? most_rows() * a_row_bytes(depth_)
                       : ceil_div(most_rows(), tile_m_) * a_panel_bytes(depth_);
  }

  // Of a block: a short last one joins the one before.
  int64_t most_rows() const { return rows_ + tile_m_; }
  // What the taps of a row of patches take in the table of where they lie.
  int64_t table_row_bytes() const {
    return depth_ / view_.window->channels * static_cast<int64_t>(sizeof(char*));
  }

  int64_t thread_bytes() const {
    return a_bytes_ + b_bytes_ + sums_bytes_ + table_bytes_ + edge_bytes_ + a_table_bytes_;
  }
  int busy_threads() const {
    return static_cast<int>(std::min<int64_t>(threads_, static_cast<int64_t>(tasks_.size())));
  }

  // The grid of pieces that costs the slowest thread least. Packing an element costs about as much as
  // kPackCost multiply-adds; every piece packs what it needs for itself.
  void choose_grid(int64_t workers, int64_t* grid_m, int64_t* grid_n) const {
    constexpr double kPackCost = 8;
    const int64_t most_m = std::max<int64_t>(view_.m / tile_m_, 1), panels = ceil_div(n_, tile_n_);
    double best = 0;
    for (int64_t gm = 1; gm <= std::min(workers, most_m); ++gm) {
      const int64_t gn = std::min(workers / gm, panels);
      const double rows = static_cast<double>(round_up(ceil_div(view_.m, gm), tile_m_));
      const double cols = static_cast<double>(ceil_div(panels, gn) * tile_n_);
      const double cost =
          rows * cols + (view_.b_prepacked ? 0 : kPackCost * cols) + (pack_a_ ? kPackCost * rows : 0);
      if (best == 0 || cost < best) {
        best = cost;
        *grid_m = gm;
        *grid_n = gn;
      }
    }
  }

  std::vector<Task> tasks() const {
    int64_t grid_m = 1, grid_n = 1;
    const int64_t parts = std::max<int64_t>(std::min<int64_t>(config_.split_k, ceil_div(view_.k, group_)), 1);
    const int64_t workers = ceil_div(threads_, view_.groups * parts);
    if (workers > 1) choose_grid(workers, &grid_m, &grid_n);
    const int64_t panels = ceil_div(n_, tile_n_), steps = ceil_div(view_.k, group_);
    std::vector<Task> out;
    for (int64_t g = 0; g < view_.groups; ++g) {
      for (int64_t p = 0; p < parts; ++p) {
        for (int64_t i = 0; i < grid_m; ++i) {
          for (int64_t j = 0; j < grid_n; ++j) {
            out.push_back({g, view_.m * i / grid_m, view_.m * (i + 1) / grid_m, panels * j / grid_n * tile_n_,
                           std::min(panels * (j + 1) / grid_n * tile_n_, n_), steps * p / parts * group_,
                           std::min(steps * (p + 1) / parts * group_, view_.k), static_cast<int>(p)});
          }
        }
      }
    }
    return out;
  }

  void pack_b_panel(const char* b, const Operand& o, int64_t k0, int64_t depth, int64_t n0, int64_t n1,
                    void* out) const {
    const int live = static_cast<int>(std::min<int64_t>(tile_n_, n1 - n0));
    if (!o.plain()) {
      PanelSource words{b, o.row_stride, o.col_stride, o.type, group_, false};
      if (o.patches)
        return pack_patch_panel(packer_, *view_.window, words, {k0, depth, n0, live}, tile_n_,
                                static_cast<char*>(out));
      words.data += n0 * o.col_stride * bytes_of(o.type);
      return pack_block_panel(packer_, o, taps_, words, k0, {depth, live, tile_n_, flip_a_},
                              static_cast<char*>(out));
    }
    packer_({b + (k0 * o.row_stride + n0 * o.col_stride) * bytes_of(o.type), o.row_stride, o.col_stride,
             o.type, group_, false},
            {depth, live, tile_n_, flip_a_}, out);
  }

  // Rows [m0, m1) of A into `out`, and the arguments that say so.
  void pack_a_block(const char* a, int64_t m0, int64_t m1, int64_t k0, int64_t depth, char* out,
                    tsr::PackedArgs& args) const {
    const Operand& o = view_.a;
    auto source = [&](int64_t row) {
      return PanelSource{a + (row * o.row_stride + k0 * o.col_stride) * bytes_of(o.type),
                         o.col_stride,
                         o.row_stride,
                         o.type,
                         group_,
                         flip_a_};
    };
    const int64_t rows = m1 - m0;
    args.a = out;
    if (a_as_rows()) {
      args.a_row_bytes = a_row_bytes(depth);
      args.a_step_bytes = 4;
      args.a_tile_bytes = 0;
      if (o.patches) {
        PanelSource words = source(0);
        words.data = a;
        pack_patch_rows(row_packer_, *view_.window, words, {m0, rows, k0, depth}, args.a_row_bytes, out);
      } else {
        row_packer_(source(m0), depth, rows, args.a_row_bytes, out);
      }
      if (rows < tile_m_) {
        std::memset(out + rows * args.a_row_bytes, 0,
                    static_cast<size_t>((tile_m_ - rows) * args.a_row_bytes));
      }
      return;
    }
    args.a_row_bytes = 4;
    args.a_step_bytes = tile_m_ * 4;
    args.a_tile_bytes = a_panel_bytes(depth);
    const tsr::RowTiles tiles = rows < tile_m_ ? tsr::RowTiles{1, 0} : tsr::row_tiles(rows, tile_m_);
    for (int64_t k = 0; k < depth; k += chunk()) {
      char* to = out + k / group_ * tile_m_ * 4;
      for (int64_t t = 0, row = 0; t < tiles.tall + tiles.low; ++t) {
        const int64_t height = t < tiles.tall ? std::min<int64_t>(tile_m_, rows) : tile_m_ - (tile_m_ > 1);
        PanelSource from = source(m0 + std::min(row, rows - height));
        from.data += k * o.col_stride * bytes_of(o.type);
        packer_(from, {std::min(chunk(), depth - k), static_cast<int>(height), tile_m_, false},
                to + t * args.a_tile_bytes);
        row += height;
      }
    }
  }

  // All panels of columns [n0, n1) of a B whose columns are contiguous.
  void pack_b_block(const char* b, int64_t k0, int64_t depth, int64_t n0, int64_t n1, char* out) const {
    const int64_t panel = panel_b(depth);
    for (int64_t k = 0; k < depth; k += chunk()) {
      for (int64_t n = n0; n < n1; n += tile_n_) {
        pack_b_panel(b, view_.b, k0 + k, std::min(chunk(), depth - k), n, n1,
                     out + (n - n0) / tile_n_ * panel + k / group_ * tile_n_ * 4);
      }
    }
  }

  void run_task(const Buffers& buffers, const Task& t, tsr::EpilogueArgs epilogue, char* space,
                char* parts) const {
    set_group(epilogue, buffers, t.group);
    char* a_block = space;
    char* b_block = a_block + a_bytes_;
    char* sums = b_block + b_bytes_;
    auto* table = reinterpret_cast<long long*>(sums + sums_bytes_);
    const bool has_edge = edge_ > 0 && t.n1 == n_;
    auto* edge = reinterpret_cast<float*>(sums + sums_bytes_ + table_bytes_);
    int64_t sums_stride = cols_;
    const bool split = config_.split_k > 1;
    const char* a = group_a(buffers, t.group);
    const char* b = group_b(buffers, t.group);
    if (view_.b_prepacked) b = static_cast<const char*>(buffers.b) + t.group * prepacked_.group_bytes();
    const bool keeps_b = by_blocks_ || blocks(t.m1 - t.m0, rows_) > 1;

    auto* a_table = reinterpret_cast<const char**>(sums + sums_bytes_ + table_bytes_ + edge_bytes_);
    if (has_edge && edge_bytes_ > 0) gather_edge(b, edge);

    tsr::PackedArgs args{};
    args.epilogue = &epilogue;
    args.fetch_c = fetch_c_;
    if (!pack_a_ && !taps_in_place_) {
      args.a_row_bytes = view_.a.row_stride * bytes_of(view_.a.type);
      args.a_step_bytes = view_.a.col_stride * bytes_of(view_.a.type) * group_;
    }
    for (int64_t n0 = t.n0; n0 < t.n1; n0 += cols_) {
      const int64_t n1 = std::min(n0 + cols_, t.n1);
      if (split) {
        sums_stride = round_up(view_.n, tile_n_);
        sums = parts + (t.group * config_.split_k + t.part) * part_bytes_ + (t.m0 * sums_stride + n0) * 4;
      }
      for (int64_t k0 = t.k0; k0 < t.k1; k0 += depth_) {
        const int64_t depth = std::min(depth_, t.k1 - k0), panel = panel_b(depth);
        args.steps = ceil_div(depth, group_);
        args.first = k0 == t.k0;
        args.last = k0 + depth_ >= t.k1 && !split;
        args.partial_stride = sums_stride;
        for (int64_t m0 = t.m0; m0 < t.m1;) {
          const int64_t m1 = t.m1 - m0 - rows_ < tile_m_ ? t.m1 : m0 + rows_;
          args.rows = m1 - m0;
          args.row0 = m0;
          if (view_.c_rows) set_table(m0, args, epilogue, table);
          if (pack_a_) {
            pack_a_block(a, m0, m1, k0, depth, a_block, args);
          } else if (taps_in_place_) {
            set_taps(a, m0, m1, k0, depth, a_table, args);
          } else {
            args.a = a + (m0 * view_.a.row_stride + k0 * view_.a.col_stride) * bytes_of(view_.a.type);
          }
          if (by_blocks_ && !b_in_place_ && m0 == t.m0) pack_b_block(b, k0, depth, n0, n1, b_block);
          for (int64_t n = n0; n < n1; n += tile_n_) {
            args.cols = std::min<int64_t>(tile_n_, n1 - n);
            args.col0 = n;
            char* own = b_block + (keeps_b ? (n - n0) / tile_n_ * panel : 0);
            set_b(args, b, k0, depth, n, n1, own, !keeps_b || (m0 == t.m0 && (!by_blocks_ || b_in_place_)));
            const bool packed_ahead = keeps_b && !b_in_place_ && (m0 > t.m0 || by_blocks_);
            set_ahead(args, n + tile_n_ < n1 && (view_.b_prepacked || packed_ahead), depth);
            args.partial =
                args.first && args.last ? nullptr : sums + ((m0 - t.m0) * sums_stride + (n - n0)) * 4;
            entry_(&args);
          }
          if (has_edge && n1 == n_ && args.last) edge_rows(a, b, edge, m0, m1, epilogue);
          m0 = m1;
        }
      }
    }
  }

  // Where the rows [m0, m1) of the taps of [k0, k0 + depth) lie; behind them zeros, up to a whole tile of
  // rows.
  void set_taps(const char* a, int64_t m0, int64_t m1, int64_t k0, int64_t depth, const char** table,
                tsr::PackedArgs& args) const {
    const int64_t channels = view_.window->channels, taps = depth / channels, stride = most_rows();
    point_at_patches(*view_.window, a, bytes_of(view_.a.type), {m0, m1 - m0, k0 / channels, taps},
                     zeros_.data(), table, stride);
    for (int64_t t = 0; t < taps; ++t) {
      for (int64_t row = m1 - m0; row < tile_m_; ++row) table[t * stride + row] = zeros_.data();
    }
    args.a_table = table;
    args.table_rows = stride;
    args.taps = taps;
    args.tap_steps = channels / group_;
  }

  // The panel at (k0, n): of prepacked B, in place, or in `own`, packed first where that is not done yet.
  void set_b(tsr::PackedArgs& args, const char* b, int64_t k0, int64_t depth, int64_t n, int64_t n1,
             char* own, bool pack) const {
    const int64_t step = tile_n_ * 4;
    args.b_step_bytes = step;
    args.start = kZeros;
    if (view_.b_prepacked) {
      const char* whole = b + n / tile_n_ * prepacked_.panel_bytes();
      args.b = whole + k0 / group_ * step;
      if (flip_a_ && k0 == 0)
        args.start = reinterpret_cast<const int*>(whole + ceil_div(view_.k, group_) * step);
      return;
    }
    if (b_in_place_ && n + tile_n_ <= n_) {
      args.b = b + (k0 * view_.b.row_stride + n) * 4;
      args.b_step_bytes = view_.b.row_stride * 4;
      return;
    }
    if (pack) pack_b_panel(b, view_.b, k0, depth, n, n1, own);
    args.b = own;
    if (flip_a_) args.start = reinterpret_cast<const int*>(own + ceil_div(depth, group_) * step);
  }

  // Where the next panel is packed already, the call fetches it while it works on this one.
  void set_ahead(tsr::PackedArgs& args, bool packed, int64_t depth) const {
    args.next_b = packed ? static_cast<const char*>(args.b) +
                               (view_.b_prepacked ? prepacked_.panel_bytes() : panel_b(depth))
                         : nullptr;
    args.next_b_bytes = panel_b(depth);
  }

  // The columns past n_ of a B whose rows are contiguous, each to a line of its own.
  void gather_edge(const char* b, float* edge) const {
    const float* from = reinterpret_cast<const float*>(b) + n_;
    for (int64_t k = 0; k < view_.k; ++k, from += view_.b.row_stride) {
      for (int64_t j = 0; j < edge_; ++j) edge[j * view_.k + k] = from[j];
    }
  }

  // Rows [m0, m1) of the columns past n_, over all of k.
  void edge_rows(const char* a, const char* b, const float* edge, int64_t m0, int64_t m1,
                 const tsr::EpilogueArgs& epilogue) const {
    constexpr int64_t kRowsAtOnce = 48, kStride = 16;
    alignas(kCacheLine) float sums[kRowsAtOnce * kStride] = {};
    EdgeColumns columns{};
    columns.a_stride = view_.a.row_stride;
    columns.b = edge_bytes_ > 0 ? edge : reinterpret_cast<const float*>(b) + n_ * view_.b.col_stride;
    columns.b_stride = edge_bytes_ > 0 ? view_.k : view_.b.col_stride;
    columns.k = view_.k;
    columns.cols = static_cast<int>(edge_);
    columns.sums = sums;
    columns.sums_stride = kStride;
    tsr::PackedArgs args{};
    args.last = 1;
    args.partial = sums;
    args.partial_stride = kStride;
    args.epilogue = &epilogue;
    args.start = kZeros;
    args.cols = edge_;
    args.col0 = n_;
    for (int64_t row = m0; row < m1; row += kRowsAtOnce) {
      columns.a = reinterpret_cast<const float*>(a) + row * view_.a.row_stride;
      columns.rows = std::min(kRowsAtOnce, m1 - row);
      edge_dot_(columns);
      args.rows = columns.rows;
      args.row0 = row;
      entry_(&args);
    }
  }

  // Where the rows of a call from `row` on are in C.
  void set_table(int64_t row, tsr::PackedArgs& args, tsr::EpilogueArgs& epilogue, long long* table) const {
    for (int64_t i = 0; i < args.rows; ++i) table[i] = view_.c_rows->row(row + i);
    epilogue.rows = table;
    args.row0 = 0;
  }

  // The epilogue over finished sums of one group, or over zeros: a pass over no k at all.
  void epilogue_only(void* sums, int64_t stride, tsr::EpilogueArgs epilogue) const {
    tsr::PackedArgs args{};
    args.first = !sums;
    args.last = 1;
    args.partial_stride = stride;
    args.epilogue = &epilogue;
    args.start = kZeros;
    constexpr int64_t kTable = 256;
    long long table[kTable];
    const int64_t step = view_.c_rows ? kTable : view_.m;
    for (int64_t m0 = 0; m0 < view_.m; m0 += step) {
      args.rows = std::min(step, view_.m - m0);
      if (view_.c_rows) set_table(m0, args, epilogue, table);
      for (int64_t n0 = 0; n0 < view_.n; n0 += tile_n_) {
        args.cols = std::min<int64_t>(tile_n_, view_.n - n0);
        args.col0 = n0;
        if (sums) args.partial = static_cast<char*>(sums) + n0 * 4;
        entry_(&args);
      }
    }
  }

  void without_product(const Buffers& buffers, tsr::EpilogueArgs& epilogue) const {
    if (epilogue.alpha == 0.0f) {  // what alpha multiplies is zero already
      epilogue.alpha = 1.0f;
      epilogue.plain = epilogue.beta == 0.0f;
    }
    for (int64_t g = 0; g < view_.groups; ++g) {
      set_group(epilogue, buffers, g);
      epilogue_only(nullptr, 0, epilogue);
    }
  }

  // The sums of the parts of k, always added in the order of k.
  void finish_parts(const Buffers& buffers, tsr::EpilogueArgs& epilogue, char* parts) const {
    const int64_t stride = round_up(view_.n, tile_n_), elements = view_.m * stride;
    const int64_t count = tasks_.back().part + 1;
    for (int64_t g = 0; g < view_.groups; ++g) {
      char* total = parts + g * config_.split_k * part_bytes_;
      for (int64_t p = 1; p < count; ++p) {
        const char* part = total + p * part_bytes_;
        if (view_.acc == DType::i32) {
          add(reinterpret_cast<uint32_t*>(total), reinterpret_cast<const uint32_t*>(part), elements);
        } else {
          add(reinterpret_cast<float*>(total), reinterpret_cast<const float*>(part), elements);
        }
      }
      set_group(epilogue, buffers, g);
      epilogue_only(total, stride, epilogue);
    }
  }

  template <class T>
  static void add(T* total, const T* part, int64_t count) {
    for (int64_t i = 0; i < count; ++i) total[i] += part[i];
  }

  std::vector<int64_t> taps_;  // of B's blocks, those in use; empty: all
  PackPanel packer_;
  PackRows row_packer_;
  EdgeDot edge_dot_;
  int group_, tile_m_, tile_n_;
  int64_t edge_, n_;  // columns past whole vectors that are dot products; columns before them
  bool flip_a_;
  PrepackedB prepacked_;
  bool taps_in_place_;       // A is patches, read where they lie
  std::vector<char> zeros_;  // what a tap beyond the image's edge meets
  bool pack_a_, b_in_place_ = false, by_blocks_ = false;
  bool fetch_c_ = false;
  bool one_block_ = false;  // nothing is copied and no sums are kept: a run needs no workspace
  std::vector<Task> tasks_;
  Extent most_;                  // of a task
  int64_t depth_, rows_, cols_;  // block along k, m, n
  int64_t a_bytes_, b_bytes_, sums_bytes_, part_bytes_, table_bytes_, edge_bytes_, a_table_bytes_ = 0;
};

std::unique_ptr<Kernel> make_part(std::shared_ptr<CpuModule> module, const ArchSpec& arch, StridedPart part,
                                  const Problem& problem, const Choice& choice) {
  return std::make_unique<PackedKernel>(std::move(module), arch, std::move(part), problem, choice);
}

}  // namespace

std::unique_ptr<Kernel> make_packed_kernel(std::shared_ptr<CpuModule> module, const ArchSpec& arch,
                                           const Problem& problem, const Choice& choice) {
  return make_in_parts(std::move(module), arch, problem, choice, make_part);
}

}  // namespace tessera
