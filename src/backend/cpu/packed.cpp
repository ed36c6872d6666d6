#include "backend/cpu/packed.h"

#include <omp.h>

#include <algorithm>
#include <vector>

#include "backend/cpu/arena.h"
#include "backend/cpu/pack.h"
#include "core/tile_math.h"

namespace tessera {
namespace {

// A rectangle of C and a range of k.
struct Piece {
  int64_t m0, m1, n0, n1, k0, k1;
};

class PackedKernel : public CpuKernel {
 public:
  PackedKernel(std::shared_ptr<CpuModule> module, const ArchSpec& arch, const Problem& problem,
               const Choice& choice)
      : CpuKernel(std::move(module), arch, problem, choice), packer_(panel_packer(vector_bits_)) {
    const KernelConfig& c = config_;
    group_ = inst_.k;
    tile_m_ = c.tile_m;
    tile_n_ = c.tile_n;
    const int64_t k = std::max<int64_t>(view_.k, 1);
    depth_ = c.block_k > 0 ? std::min<int64_t>(round_up(c.block_k, group_), k) : k;
    // A block of A, or its rows in place, stays in half of L2 while the panels of B pass over it.
    const int64_t l2_rows = arch.l2.bytes / 2 / (ceil_div(depth_, group_) * 4);
    rows_ = c.block_m > 0 ? c.block_m : std::max<int64_t>(l2_rows, tile_m_);
    rows_ = std::min(round_up(rows_, tile_m_), round_up(view_.m, tile_m_));
    // Packed B of one block is bounded: workspace stays small, and the block in the shared cache.
    const int64_t most_panels =
        kBlockBytes / std::max<int64_t>(static_cast<int64_t>(panel(depth_, tile_n_)), 1);
    cols_ = c.block_n > 0 ? round_up(c.block_n, tile_n_) : std::max<int64_t>(most_panels, 1) * tile_n_;
    cols_ = std::min(cols_, round_up(view_.n, tile_n_));
    correction_ = inst_.name == "vnni" && view_.a.type == DType::i8;
    pieces_ = pieces();
  }

  void run_unchecked(const Buffers& buffers) const override {
    tsr::EpilogueArgs epilogue = epilogue_args(buffers);
    if (pieces_.size() == 1 && view_.groups == 1) return run_piece(buffers, 0, pieces_[0], epilogue, nullptr);
    if (config_.split_k > 1 && threads_ > 1) return run_split_k(buffers, epilogue);
    const int64_t tasks = view_.groups * static_cast<int64_t>(pieces_.size());
    if (threads_ == 1) {
      for (int64_t t = 0; t < tasks; ++t) run_task(buffers, t, epilogue);
      return;
    }
#pragma omp parallel for num_threads(threads_) schedule(static)
    for (int64_t t = 0; t < tasks; ++t) run_task(buffers, t, epilogue);
  }

  size_t workspace_bytes() const override { return a_bytes() + b_bytes() + partial_bytes(); }

  size_t packed_b_bytes() const override {
    return view_.b_prepacked ? static_cast<size_t>(view_.groups) * packed_group_bytes() : 0;
  }

  void pack_b(const void* b, void* packed, int64_t ldb) const override {
    if (!view_.b_prepacked) return CpuKernel::pack_b(b, packed, ldb);
    Operand o = view_.b;
    const int64_t leading = ldb == Problem::kPacked ? o.contiguous() : ldb;
    (o.row_major() ? o.row_stride : o.col_stride) = leading;
    const int64_t stride = leading * (o.row_major() ? o.rows : o.cols) * bytes_of(o.type);
    for (int64_t g = 0; g < view_.groups; ++g) {
      char* out = static_cast<char*>(packed) + static_cast<size_t>(g) * packed_group_bytes();
      for (int64_t k0 = 0; k0 < view_.k; k0 += depth_) {
        const int64_t depth = std::min(depth_, view_.k - k0);
        for (int64_t n0 = 0; n0 < view_.n; n0 += tile_n_) {
          pack_b_panel(static_cast<const char*>(b) + g * stride, o, k0, depth, n0, out);
          out += panel(depth, tile_n_);
        }
      }
    }
  }

 private:
  static constexpr int64_t kBlockBytes = int64_t{8} << 20;

  size_t panel(int64_t depth, int width) const {
    return panel_bytes({depth, width, width, correction_}, group_);
  }
  size_t packed_group_bytes() const {
    size_t bytes = 0;
    for (int64_t k0 = 0; k0 < view_.k; k0 += depth_) {
      bytes +=
          panel(std::min(depth_, view_.k - k0), tile_n_) * static_cast<size_t>(ceil_div(view_.n, tile_n_));
    }
    return bytes;
  }
  size_t a_bytes() const {
    return config_.pack_a
               ? panel_bytes({depth_, tile_m_, tile_m_, false}, group_) * static_cast<size_t>(rows_ / tile_m_)
               : 0;
  }
  // One panel at a time where a single block of A meets all of them, else a whole block.
  size_t b_bytes() const {
    if (view_.b_prepacked) return 0;
    return panel(depth_, tile_n_) * static_cast<size_t>(view_.m <= rows_ ? 1 : cols_ / tile_n_);
  }
  size_t partial_bytes() const {
    if (depth_ >= view_.k) return 0;
    return static_cast<size_t>(round_up(view_.m, tile_m_) * cols_ * 4);
  }

  void pack_b_panel(const char* b, const Operand& o, int64_t k0, int64_t depth, int64_t n0, void* out) const {
    const int live = static_cast<int>(std::min<int64_t>(tile_n_, view_.n - n0));
    packer_({b + (k0 * o.row_stride + n0 * o.col_stride) * bytes_of(o.type), o.row_stride, o.col_stride,
             o.type, group_, false},
            {depth, live, tile_n_, correction_}, out);
  }

  // Threads take rectangles of whole tiles, cut along the side with more of them.
  std::vector<Piece> pieces() const {
    const Piece whole{0, view_.m, 0, view_.n, 0, view_.k};
    if (threads_ == 1 || view_.groups >= threads_ || config_.split_k > 1) return {whole};
    const int64_t row_tiles = ceil_div(view_.m, tile_m_), col_tiles = ceil_div(view_.n, tile_n_);
    const bool by_rows = view_.m > view_.n && row_tiles >= threads_;
    const int64_t tiles = by_rows ? row_tiles : col_tiles;
    const int64_t parts = std::min<int64_t>(threads_, tiles);
    std::vector<Piece> out;
    for (int64_t p = 0; p < parts; ++p) {
      const int64_t from = tiles * p / parts, to = tiles * (p + 1) / parts;
      Piece piece = whole;
      if (by_rows) {
        piece.m0 = from * tile_m_;
        piece.m1 = std::min<int64_t>(to * tile_m_, view_.m);
        // Rows read in place are moved up, never past the piece: the last tile must have company.
        if (!config_.pack_a && piece.m1 - piece.m0 < tile_m_ && !out.empty()) {
          out.back().m1 = piece.m1;
          continue;
        }
      } else {
        piece.n0 = from * tile_n_;
        piece.n1 = std::min<int64_t>(to * tile_n_, view_.n);
      }
      out.push_back(piece);
    }
    return out;
  }

  void run_task(const Buffers& buffers, int64_t task, tsr::EpilogueArgs epilogue) const {
    const int64_t count = static_cast<int64_t>(pieces_.size()), group = task / count;
    set_group(epilogue, buffers, group);
    run_piece(buffers, group, pieces_[static_cast<size_t>(task % count)], epilogue, nullptr);
  }

  // Every thread sums its range of k into its own buffer; the buffers are added in order of k.
  void run_split_k(const Buffers& buffers, tsr::EpilogueArgs epilogue) const {
    const int64_t parts = std::min<int64_t>(config_.split_k, ceil_div(std::max<int64_t>(view_.k, 1), group_));
    const int64_t stride = round_up(view_.n, tile_n_), elements = round_up(view_.m, tile_m_) * stride;
    std::unique_ptr<float[]> sums(new float[static_cast<size_t>(parts * elements)]);
    for (int64_t g = 0; g < view_.groups; ++g) {
      set_group(epilogue, buffers, g);
#pragma omp parallel for num_threads(threads_) schedule(static)
      for (int64_t p = 0; p < parts; ++p) {
        const int64_t steps = ceil_div(view_.k, group_);
        const Piece piece{0,
                          view_.m,
                          0,
                          view_.n,
                          steps * p / parts * group_,
                          std::min<int64_t>(steps * (p + 1) / parts * group_, view_.k)};
        run_piece(buffers, g, piece, epilogue, sums.get() + p * elements);
      }
      add_parts(sums.get(), parts, elements);
      finish(sums.get(), stride, epilogue);
    }
  }

  void add_parts(float* sums, int64_t parts, int64_t elements) const {
    const bool integers = view_.acc == DType::i32;
    for (int64_t p = 1; p < parts; ++p) {
      const float* part = sums + p * elements;
      if (integers) {
        auto* total = reinterpret_cast<int32_t*>(sums);
        const auto* other = reinterpret_cast<const int32_t*>(part);
        for (int64_t i = 0; i < elements; ++i) total[i] += other[i];
      } else {
        for (int64_t i = 0; i < elements; ++i) sums[i] += part[i];
      }
    }
  }

  // The epilogue over finished sums: a pass over no k at all.
  void finish(float* sums, int64_t stride, const tsr::EpilogueArgs& epilogue) const {
    alignas(64) const float zeros[256] = {};
    alignas(64) char no_a[64] = {};
    for (int64_t n0 = 0; n0 < view_.n; n0 += tile_n_) {
      tsr::PackedArgs args{};
      args.a = no_a;
      args.b = zeros;
      args.rows = view_.m;
      args.cols = std::min<int64_t>(tile_n_, view_.n - n0);
      args.a_padded = 1;
      args.last = 1;
      args.partial = sums + n0;
      args.partial_stride = stride;
      args.col0 = n0;
      args.epilogue = &epilogue;
      entry_(&args);
    }
  }

  // `sums` null: C through the epilogue. Otherwise the sums over the piece's k, as partial[row][n].
  void run_piece(const Buffers& buffers, int64_t group, const Piece& piece, const tsr::EpilogueArgs& epilogue,
                 float* sums) const {
    const bool own = buffers.workspace && threads_ == 1;
    char* space = static_cast<char*>(own ? buffers.workspace : thread_arena(workspace_bytes()));
    char* a_panels = space + partial_bytes();
    char* b_panels = a_panels + a_bytes();
    const Operand& a = view_.a;
    const int64_t a_element = bytes_of(a.type),
                  panel_a = static_cast<int64_t>(panel_bytes({depth_, tile_m_, tile_m_, false}, group_));
    const int64_t depth_end = std::max<int64_t>(piece.k1, piece.k0 + 1);  // one pass even over no k
    const char* a0 = group_a(buffers, group);
    const char* packed = static_cast<const char*>(buffers.b);
    if (view_.b_prepacked) packed += static_cast<size_t>(group) * packed_group_bytes();

    tsr::PackedArgs args{};
    args.epilogue = &epilogue;
    args.a_padded = config_.pack_a;
    for (int64_t n0 = piece.n0; n0 < piece.n1; n0 += cols_) {
      const int64_t n1 = std::min(n0 + cols_, piece.n1);
      for (int64_t k0 = piece.k0; k0 < depth_end; k0 += depth_) {
        const int64_t depth = std::min(depth_, piece.k1 - k0);
        const int64_t panel_b = static_cast<int64_t>(panel(depth, tile_n_));
        args.steps = ceil_div(depth, group_);
        args.first = k0 == piece.k0;
        args.last = k0 + depth_ >= depth_end && !sums;
        args.partial_stride = sums ? round_up(view_.n, tile_n_) : cols_;
        const bool one_block = piece.m1 - piece.m0 <= rows_;
        if (!view_.b_prepacked && !one_block) {
          for (int64_t n = n0; n < n1; n += tile_n_) {
            pack_b_panel(group_b(buffers, group), view_.b, k0, depth, n,
                         b_panels + (n - n0) / tile_n_ * panel_b);
          }
        }
        for (int64_t m0 = piece.m0; m0 < piece.m1; m0 = next_block(m0, piece.m1)) {
          const int64_t m1 = next_block(m0, piece.m1);
          const char* a_here = a0 + (m0 * a.row_stride + k0 * a.col_stride) * a_element;
          args.rows = m1 - m0;
          args.row0 = m0;
          if (config_.pack_a) {
            for (int64_t m = m0; m < m1; m += tile_m_) {
              packer_({a_here + (m - m0) * a.row_stride * a_element, a.col_stride, a.row_stride, a.type,
                       group_, correction_},
                      {depth, static_cast<int>(std::min<int64_t>(tile_m_, m1 - m)), tile_m_, false},
                      a_panels + (m - m0) / tile_m_ * panel_a);
            }
            args.a = a_panels;
            args.a_row_bytes = 4;
            args.a_step_bytes = tile_m_ * 4;
            args.a_tile_bytes = panel_a;
          } else {
            args.a = a_here;
            args.a_row_bytes = a.row_stride * a_element;
            args.a_step_bytes = a.col_stride * a_element * group_;
            args.a_tile_bytes = tile_m_ * args.a_row_bytes;
          }
          for (int64_t n = n0; n < n1; n += tile_n_) {
            const int64_t index = (n - n0) / tile_n_;
            if (view_.b_prepacked) {
              args.b = packed + prepacked_offset(k0) + n / tile_n_ * panel_b;
            } else if (one_block) {
              pack_b_panel(group_b(buffers, group), view_.b, k0, depth, n, b_panels);
              args.b = b_panels;
            } else {
              args.b = b_panels + index * panel_b;
            }
            args.cols = std::min<int64_t>(tile_n_, n1 - n);
            args.col0 = n;
            float* partial = sums ? sums + m0 * args.partial_stride + n
                                  : reinterpret_cast<float*>(space) + (m0 - piece.m0) * cols_ + (n - n0);
            args.partial = args.first && args.last ? nullptr : partial;
            entry_(&args);
          }
        }
      }
    }
  }

  // Rows read in place need at least a whole tile in every block: a short rest joins the block before it.
  int64_t next_block(int64_t m0, int64_t end) const {
    const int64_t next = m0 + rows_;
    const bool short_rest = !config_.pack_a && end - next < tile_m_;
    return next >= end || short_rest ? end : next;
  }

  int64_t prepacked_offset(int64_t k0) const {
    return static_cast<int64_t>(panel(depth_, tile_n_)) * ceil_div(view_.n, tile_n_) * (k0 / depth_);
  }

  PackPanel packer_;
  int group_, tile_m_, tile_n_;
  int64_t depth_, rows_, cols_;  // block along k, m, n
  bool correction_ = false;
  std::vector<Piece> pieces_;
};

}  // namespace

std::unique_ptr<Kernel> make_packed_kernel(std::shared_ptr<CpuModule> module, const ArchSpec& arch,
                                           const Problem& problem, const Choice& choice) {
  return std::make_unique<PackedKernel>(std::move(module), arch, problem, choice);
}

}  // namespace tessera
