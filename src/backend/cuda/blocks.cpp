#include "backend/cuda/blocks.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "core/tile_math.h"
#include "cuda/abi.h"
#include "tessera/error.h"

namespace tessera::cuda {
namespace {

constexpr int kBand = 8;  // rows of tiles that blocks walk together

// What a family's blocks are.
struct Blocks {
  int64_t tile_m = 1, tile_n = 1;  // of C as the kernel sees it
  int64_t depth = 1;               // of which a part of k is a multiple
  int threads = 1, shared_bytes = 0;
  int64_t sums = 0;  // that a block hands over where k is split
};

Blocks blocks_of(const GemmView& v, const KernelConfig& c) {
  const int element = bytes_of(v.a.type);
  const bool integer = v.acc == DType::i32;
  switch (c.family_id()) {
    case Family::gemv: {
      const tsr::GemvShape s = {c.tile_m, c.tile_n, c.wave_n, c.wave_k};
      const bool along = c.swap_ab ? v.a.col_stride == 1 : v.b.row_stride == 1;
      return {s.tile_m,    s.columns(),      tsr::gemv_depth(element, along),
              s.threads(), s.shared_bytes(), s.sums()};
    }
    case Family::simt: {
      const tsr::SimtShape s = {c.block_m, c.block_n, c.block_k, c.tile_m, c.tile_n, c.stages, integer};
      return {c.block_m, c.block_n, c.block_k, s.threads(), s.shared_bytes(), int64_t{c.block_m} * c.block_n};
    }
    default: {
      const tsr::CpAsyncShape s = {c.block_m, c.block_n, c.block_k,      c.wave_m,
                                   c.wave_n,  c.stages,  integer ? 1 : 2};
      return {c.block_m, c.block_n, c.block_k, s.threads(), s.shared_bytes(), int64_t{c.block_m} * c.block_n};
    }
  }
}

class BlockKernel : public GpuKernel {
 public:
  BlockKernel(std::shared_ptr<CudaDriver> driver, std::shared_ptr<GpuModule> module, const Problem& problem,
              const Choice& choice)
      : GpuKernel(std::move(driver), std::move(module), problem, choice), blocks_(blocks_of(view_, config_)) {
    const GemmView& v = view_;
    const int64_t tiles_m = ceil_div(rows_of(v, config_), blocks_.tile_m),
                  tiles_n = ceil_div(cols_of(v, config_), blocks_.tile_n);
    const int64_t depths = std::max<int64_t>(ceil_div(v.k, blocks_.depth), 1);
    const int64_t part = ceil_div(depths, std::max(config_.split_k, 1)), parts = ceil_div(depths, part);
    const int64_t tiles = saturated_product({tiles_m, tiles_n, v.groups}),
                  grid = saturated_product({tiles, parts});
    // Blocks count a little beyond k: warps side by side, a load each.
    constexpr int64_t kBeyond = 32 * 256;
    if (std::max({v.m, v.n, v.k, v.groups, grid}) > std::numeric_limits<int>::max() - kBeyond) {
      throw Error(ErrorCode::unsupported, "the kernel counts rows, columns, depth and blocks in 31 bits");
    }
    args_ = {};
    args_.a_leading = v.a.leading();
    args_.a_batch_stride = v.a.group_stride;
    args_.b_leading = v.b.leading();
    args_.b_batch_stride = v.b.group_stride;
    args_.c_leading = v.c.row_stride;
    args_.c_batch_stride = v.c.group_stride;
    args_.m = static_cast<int>(v.m);
    args_.n = static_cast<int>(v.n);
    args_.k = static_cast<int>(v.k);
    args_.batches = static_cast<int>(v.groups);
    args_.tiles_m = static_cast<int>(tiles_m);
    args_.tiles_n = static_cast<int>(tiles_n);
    args_.parts = static_cast<int>(parts);
    args_.part_k = static_cast<int>(part * blocks_.depth);
    args_.band = kBand;
    if (parts > 1) reserve_parts(tiles, saturated_product({grid, blocks_.sums}));
    args_.first_blocks = static_cast<int>(resident_blocks(blocks_.threads, blocks_.shared_bytes, 1));
    grid_ = static_cast<unsigned>(grid);
  }

  void run_unchecked(const Buffers& buffers) const override {
    tsr::BlockParams p;
    p.args = args_;
    p.args.a = buffers.a;
    p.args.b = buffers.b;
    p.args.c = buffers.c;
    p.args.wide = wide(buffers);
    p.args.epilogue = epilogue_args(buffers);
    const Parts kept = parts(workspace(buffers));
    p.args.arrivals = kept.arrivals;
    p.args.partials = kept.sums;
    driver_->launch({module_->function(), grid_, static_cast<unsigned>(blocks_.threads),
                     static_cast<unsigned>(blocks_.shared_bytes), buffers.stream, true},
                    &p);
  }

 private:
  void check(const Buffers& buffers) const override {
    const std::tuple<const void*, int, const char*> loaded[] = {
        {buffers.a, config_.vec_a * bytes_of(view_.a.type), "a"},
        {buffers.b, config_.vec_b * bytes_of(view_.b.type), "b"}};
    for (const auto& [p, bytes, name] : loaded) {
      if (reinterpret_cast<uintptr_t>(p) % static_cast<uintptr_t>(bytes)) {
        throw Error(ErrorCode::bad_input, std::string("buffer ") + name + " is not aligned to the " +
                                              std::to_string(bytes) + " bytes that kernel '" +
                                              to_string(config_) + "' loads at a time");
      }
    }
  }

  Blocks blocks_;
  tsr::BlockArgs args_;
  unsigned grid_ = 1;
};

}  // namespace

std::unique_ptr<GpuKernel> make_block_kernel(std::shared_ptr<CudaDriver> driver,
                                             std::shared_ptr<GpuModule> module, const Problem& problem,
                                             const Choice& choice) {
  return std::make_unique<BlockKernel>(std::move(driver), std::move(module), problem, choice);
}

}  // namespace tessera::cuda
