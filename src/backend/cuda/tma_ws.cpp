#include "backend/cuda/tma_ws.h"

#include <algorithm>
#include <limits>

#include "backend/check_buffers.h"
#include "core/tile_math.h"
#include "core/tma_ws_shape.h"
#include "cuda/abi.h"
#include "tessera/error.h"

namespace tessera::cuda {
namespace {

constexpr uintptr_t kTmaAlign = 16;

MapType map_type(DType t) {
  switch (t) {
    case DType::f32: return MapType::f32;
    case DType::f16: return MapType::f16;
    case DType::bf16: return MapType::bf16;
    case DType::i32: return MapType::i32;
    default: return MapType::u8;
  }
}

// A matrix as TMA walks it: the contiguous axis first, which for a single row or column may be either.
BoxedTensor tensor(const Operand& o, bool rows_first, int64_t groups, int box_inner, int box_outer) {
  BoxedTensor t;
  t.type = map_type(o.type);
  t.element = bytes_of(o.type);
  t.inner = static_cast<uint64_t>(rows_first ? o.rows : o.cols);
  t.outer = static_cast<uint64_t>(rows_first ? o.cols : o.rows);
  t.groups = static_cast<uint64_t>(groups);
  t.outer_stride = static_cast<uint64_t>(rows_first ? o.col_stride : o.row_stride);
  t.group_stride = groups > 1 ? static_cast<uint64_t>(o.group_stride) : t.outer_stride * t.outer;
  t.box_inner = static_cast<uint32_t>(box_inner);
  t.box_outer = static_cast<uint32_t>(box_outer);
  return t;
}

class TmaWsKernel : public GpuKernel {
 public:
  TmaWsKernel(std::shared_ptr<CudaDriver> driver, std::shared_ptr<GpuModule> module, const Problem& problem,
              const Choice& choice)
      : GpuKernel(driver, std::move(module), problem, choice), cuda_(std::move(driver)) {
    shape_ = tma_ws_shape(view_, config_);
    plan_boxes();
    plan_grid();
  }

  void run_unchecked(const Buffers& buffers) const override {
    const void *a = buffers.a, *b = buffers.b;
    char* memory = workspace(buffers);
    if (copied_segments_) {
      tsr::RealignParams r = copies_;
      if (r.jobs[0].rows) a = r.jobs[0].to = memory + copy_a_, r.jobs[0].from = buffers.a;
      if (r.jobs[1].rows) b = r.jobs[1].to = memory + copy_b_, r.jobs[1].from = buffers.b;
      copy(r, copied_segments_, buffers.stream);
    }
    if (config_.swap_ab) std::swap(a, b);
    tsr::TmaWsParams p;
    p.a = cuda_->encode(a_, a, config_.swap_ab ? "b" : "a");
    p.b = cuda_->encode(b_, b, config_.swap_ab ? "a" : "b");
    if (args_.edge_a) p.edge_a = cuda_->encode(edge_a_, a, config_.swap_ab ? "b" : "a");
    if (args_.edge_b) p.edge_b = cuda_->encode(edge_b_, b, config_.swap_ab ? "a" : "b");
    if (stores_tma()) p.c = cuda_->encode(c_, buffers.c, "c");
    p.args = args_;
    p.args.c = buffers.c;
    p.args.wide = wide(buffers);
    p.args.epilogue = epilogue_args(buffers);
    const Parts kept = parts(memory);
    p.args.arrivals = kept.arrivals;
    p.args.partials = kept.sums;
    driver_->launch({module_->function(), grid_, static_cast<unsigned>(shape_.threads()),
                     static_cast<unsigned>(shape_.shared_bytes()), buffers.stream, true},
                    &p);
  }

  size_t panels_bytes() const override {
    const Operand packed = tma_b(view_);
    return view_.b_prepacked ? static_cast<size_t>(saturated_product({packed.extent, bytes_of(packed.type)}))
                             : 0;
  }

  // Whatever is enqueued on the device may write B: it is waited for before, and the copy after.
  void pack_b_unchecked(const void* b, void* packed, int64_t ldb) const override {
    const Operand from = b_to_pack(view_, ldb);
    const bool along_rows = view_.b.row_stride == 1;
    if (along_rows != (from.row_stride == 1)) {
      throw Error(ErrorCode::bad_input, "a single column of B with gaps between its elements",
                  "pack it from where its elements are neighbours");
    }
    driver_->require_own(b, "b");
    driver_->require_own(packed, "packed");
    require_walkable(packed, "packed");
    tsr::RealignParams r{};
    r.jobs[0] = copying(from, tma_b(view_), along_rows);
    r.jobs[0].from = b;
    r.jobs[0].to = packed;
    driver_->wait();
    copy(r, segments(r.jobs[0]), nullptr);
    driver_->wait();
  }

 private:
  bool stores_tma() const { return config_.store == static_cast<int>(Store::cshuffle); }

  void check(const Buffers& buffers) const override {
    const std::pair<const void*, const char*> walked[] = {{copies_.jobs[0].rows ? nullptr : buffers.a, "a"},
                                                          {copies_.jobs[1].rows ? nullptr : buffers.b, "b"},
                                                          {stores_tma() ? buffers.c : nullptr, "c"}};
    for (const auto& [p, name] : walked) require_walkable(p, name);
  }

  void require_walkable(const void* p, const char* name) const {
    if (reinterpret_cast<uintptr_t>(p) % kTmaAlign) {
      throw Error(ErrorCode::bad_input, std::string("buffer ") + name +
                                            " is not aligned to the 16 bytes that kernel '" +
                                            to_string(config_) + "' needs");
    }
  }

  // Copying `o` to where `to` lies.
  tsr::RealignJob copying(const Operand& o, const Operand& to, bool rows_first) const {
    const int64_t size = bytes_of(o.type);
    return {.from = nullptr,
            .to = nullptr,
            .rows = rows_first ? o.cols : o.rows,
            .groups = view_.groups,
            .row_bytes = (rows_first ? o.rows : o.cols) * size,
            .stride_bytes = (rows_first ? o.col_stride : o.row_stride) * size,
            .group_bytes = o.group_stride * size,
            .to_stride_bytes = (rows_first ? to.col_stride : to.row_stride) * size};
  }

  // An operand that TMA cannot walk, as it lies in the workspace; its copying in *job.
  Operand walkable(const Operand& o, bool rows_first, tsr::RealignJob* job) const {
    if (tma_walks(o, view_.groups)) return o;
    const Operand out = tma_copy(o, rows_first, view_.groups);
    *job = copying(o, out, rows_first);
    return out;
  }

  static int64_t segments(const tsr::RealignJob& job) {
    return saturated_product({job.rows, job.groups, ceil_div(job.row_bytes, tsr::kRealignSegment)});
  }

  // Enqueues what `jobs` says, of so many segments.
  void copy(tsr::RealignParams jobs, int64_t segments, void* stream) const {
    constexpr int64_t kWarps = tsr::kRealignThreads / 32, kMostBlocks = 2048;
    const auto grid = static_cast<unsigned>(std::min(ceil_div(segments, kWarps), kMostBlocks));
    driver_->launch({realign_, grid, tsr::kRealignThreads, 0, stream, true}, &jobs);
  }

  void plan_boxes() {
    const bool swap = config_.swap_ab != 0;
    const bool left_rows = view_.a.col_stride != 1, right_rows = view_.b.row_stride == 1;
    const Operand left = walkable(view_.a, left_rows, &copies_.jobs[0]);
    const Operand right = walkable(tma_b(view_), right_rows, &copies_.jobs[1]);
    const Operand &a = swap ? right : left, &b = swap ? left : right;
    a_ = tensor(a, swap ? right_rows : left_rows, view_.groups, shape_.box_a_inner(), shape_.box_a_outer());
    b_ = tensor(b, swap ? left_rows : right_rows, view_.groups, shape_.box_b_inner(), shape_.box_b_outer());
    if (stores_tma()) c_ = tensor(view_.c, false, view_.groups, shape_.inner(), shape_.box_c_outer());
  }

  // The box of an operand's last tile where it reaches beyond the matrix; rows of the box, 0 where there is
  // none.
  static int plan_edge(int64_t extent, int block, int cluster, int parts, bool along_k,
                       const BoxedTensor& whole, BoxedTensor* edge) {
    constexpr int64_t kSwizzleRows = 8;
    // A cluster may have a block that lies beyond altogether.
    if (!along_k || extent % (int64_t{block} * cluster) == 0) return 0;
    *edge = whole;
    const int64_t rows = round_up(ceil_div(extent % block, parts), kSwizzleRows);
    edge->box_outer = static_cast<uint32_t>(std::max(rows, kSwizzleRows));
    return static_cast<int>(edge->box_outer);
  }

  void plan_grid() {
    const KernelConfig& c = config_;
    const int64_t rows = rows_of(view_, c), cols = cols_of(view_, c);
    const int64_t tiles_m = ceil_div(ceil_div(rows, c.block_m), c.cluster_m);
    const int64_t tiles_n = ceil_div(ceil_div(cols, c.block_n), c.cluster_n);
    const int64_t k_steps = ceil_div(view_.k, c.block_k),
                  split_steps = ceil_div(k_steps, std::max(c.split_k, 1));
    const int64_t parts = std::max<int64_t>(ceil_div(k_steps, std::max<int64_t>(split_steps, 1)), 1);
    const int64_t blocks = saturated_product({tiles_m, tiles_n, view_.groups, shape_.cluster()});
    const int64_t work = saturated_product({blocks, parts});
    if (view_.k < 1 ||
        std::max({rows, cols, view_.k, view_.groups, work}) > std::numeric_limits<int>::max()) {
      throw Error(ErrorCode::unsupported,
                  "the kernel counts rows, columns, depth and blocks in 31 bits and needs k >= 1");
    }
    args_ = {};
    args_.edge_a = plan_edge(rows, c.block_m, c.cluster_m, shape_.parts_a(), shape_.a_along_k, a_, &edge_a_);
    args_.edge_b = plan_edge(cols, c.block_n, c.cluster_n, shape_.parts_b(), shape_.b_along_k, b_, &edge_b_);
    args_.rows = static_cast<int>(rows);
    args_.cols = static_cast<int>(cols);
    args_.batches = static_cast<int>(view_.groups);
    args_.tiles_m = static_cast<int>(tiles_m);
    args_.tiles_n = static_cast<int>(tiles_n);
    args_.k_steps = static_cast<int>(k_steps);
    args_.split_steps = static_cast<int>(split_steps);
    args_.along_m = c.raster == static_cast<int>(Raster::along_m);
    args_.swizzle = std::max(c.swizzle, 1);
    args_.c_leading = view_.c.row_stride;
    args_.c_batch_stride = view_.c.group_stride;
    const int64_t resident = resident_blocks(shape_.threads(), shape_.shared_bytes(), shape_.cluster());
    // Parts that a cluster adds up lie where its next tile would be loaded: a cluster has one tile.
    int64_t grid = c.cluster_k > 1 ? work : std::min(work, resident);
    if (c.stream_k) grid = plan_stream(blocks / shape_.cluster(), resident / shape_.cluster());
    grid_ = static_cast<unsigned>(grid);
    if (c.split_k > 1 || c.stream_k)
      reserve_parts(blocks, saturated_product({c.stream_k ? 2 * grid : work, c.block_m, c.block_n}));
    plan_copies();
  }

  // Of the tiles of clusters those that fill no whole round, and the round before these where there is one,
  // are dealt out in steps, as evenly as can be. The blocks to launch.
  int64_t plan_stream(int64_t tiles, int64_t clusters) {
    const int64_t left = tiles % clusters;
    int64_t streamed = tiles < clusters ? tiles : left ? left + clusters : 0;
    const int64_t steps = saturated_product({streamed, args_.k_steps});
    if (steps > std::numeric_limits<int>::max()) {
      throw Error(ErrorCode::unsupported, "the kernel counts the steps of streamed blocks in 31 bits");
    }
    if (steps > 0) clusters = std::min(clusters, steps);
    args_.stream_tiles = static_cast<int>(streamed);
    args_.stream_each = static_cast<int>(steps / clusters);
    args_.stream_more = static_cast<int>(steps % clusters);
    return std::min(clusters, std::max(tiles, steps)) * shape_.cluster();
  }

  void plan_copies() {
    size_t* places[] = {&copy_a_, &copy_b_};
    for (int i = 0; i < 2; ++i) {
      const tsr::RealignJob& job = copies_.jobs[i];
      if (!job.rows) continue;
      *places[i] = reserve(saturated_product({job.rows, job.groups, job.to_stride_bytes}));
      copied_segments_ += segments(job);
    }
    if (copied_segments_ || view_.b_prepacked) realign_ = module_->function("_realign");
  }

  std::shared_ptr<CudaDriver> cuda_;
  tsr::RealignParams copies_{};
  void* realign_ = nullptr;
  int64_t copied_segments_ = 0;     // by each run
  size_t copy_a_ = 0, copy_b_ = 0;  // in the workspace
  tsr::TmaWsShape shape_;
  BoxedTensor a_, b_, c_, edge_a_, edge_b_;
  tsr::TmaWsArgs args_;
  unsigned grid_ = 1;
};

}  // namespace

std::unique_ptr<GpuKernel> make_tma_ws_kernel(std::shared_ptr<CudaDriver> driver,
                                              std::shared_ptr<GpuModule> module, const Problem& problem,
                                              const Choice& choice) {
  return std::make_unique<TmaWsKernel>(std::move(driver), std::move(module), problem, choice);
}

}  // namespace tessera::cuda
