// Rules of the NVIDIA families.
#include "core/tma_ws_shape.h"
#include "space/rule_row.h"

namespace tessera {
namespace {

constexpr uint32_t kTma = family_set(Family::tma_ws);
constexpr uint32_t kCpAsync = family_set(Family::cp_async);
constexpr uint32_t kSimt = family_set(Family::simt);
constexpr uint32_t kGemv = family_set(Family::gemv);

constexpr int kWarpGroup = 4;  // warps that issue a wgmma together
constexpr int64_t kRow = 128;  // bytes of k in a swizzled row of shared memory

bool pingpong(C c) { return c.pipeline == static_cast<int>(Pipeline::pingpong); }
bool shuffles_c(C c) { return c.store == static_cast<int>(Store::cshuffle); }

// f32 registers of a consumer lane: 8-bit floats keep a second set, to which partial sums are promoted.
int64_t tma_accumulators(V v, C c, A a) {
  const int64_t consumers = saturated_product({c.wave_m, a.wave_size});
  if (consumers < 1) return int64_t{1} << 40;
  const bool promoted = info(v.a.type).is_float && bytes_of(v.a.type) == 1;
  return saturated_product({c.block_m, c.block_n, promoted ? 2 : 1}) / consumers;
}

int64_t simt_threads(C c) {
  if (!divides(c.tile_m, c.block_m) || !divides(c.tile_n, c.block_n)) return 0;
  return saturated_product({c.block_m / c.tile_m, c.block_n / c.tile_n});
}

bool cp_async_width(const Operand& o, int vec) {
  const int64_t bytes = int64_t{vec} * bytes_of(o.type);
  return bytes == 4 || bytes == 8 || bytes == 16;
}

constexpr Rule kRules[] = {
    {"wgmma_n", kTma, reads("block_n inst_n"), [](V, C c, A) { return c.block_n == c.inst_n; },
     "one wgmma spans the block: block_n is inst_n"},
    {"wgmma_m", kTma, reads("block_m wave"),
     [](V, C c, A) {
       return c.wave_n == 1 && c.wave_k == 1 && divides(kWarpGroup, c.wave_m) && c.wave_m > 0 &&
              divides(saturated_product({c.wave_m / kWarpGroup, 64}), c.block_m);
     },
     "consumers are whole warp groups along m (wave_m 4, 8, 12) of 64 rows each, which block_m is a multiple "
     "of"},
    {"wgmma_k", kTma, reads("block_k inst_k"),
     [](V, C c, A) { return divides(c.inst_k, c.block_k) && c.block_k > 0; },
     "block_k is not a whole number of inst_k"},
    {"wgmma_threads", kTma, reads("wave wave_groups"),
     [](V, C c, A a) {
       const int64_t consumers = saturated_product({c.wave_m, a.wave_size, c.wave_groups});
       return consumers <= a.max_threads_per_block - kWarpGroup * a.wave_size;
     },
     "consumers and the producer warp group exceed the threads of a block"},
    {"tma_box", kTma, reads("block_m block_n"),
     [](V, C c, A) { return c.block_m <= 256 && c.block_n <= 256; }, "a TMA box has at most 256 rows"},
    {"tma_row", kTma, reads("block_k"),
     [](V v, C c, A) {
       return saturated_product({c.block_k, bytes_of(v.a.type)}) == kRow;
     },
     "block_k is one swizzled row of 128 bytes"},
    {"tma_store", kTma, reads("store"),
     [](V v, C c, A) { return !shuffles_c(c) || tma_walks(v.c, v.groups); },
     "cshuffle stores through TMA: C's leading dimension and batch stride are multiples of 16 bytes"},
    {"wgmma_k_major", kTma, 0, [](V v, C, A) { return bytes_of(v.a.type) == 2 || v.layout == Layout::rcr; },
     "wgmma reads 8-bit operands along k only (layout rcr)"},
    {"tma_smem", kTma, reads("block stages wave_m wave_groups swap_ab"),
     [](V v, C c, A a) { return tma_ws_smem(v, c) <= a.smem_bytes; },
     "the stages of A and B, the buffer of C and the barriers exceed the shared memory of a block"},
    {"tma_stages", kTma | kCpAsync, reads("stages"),
     [](V, C c, A) { return c.stages >= 2 && c.stages <= 16; }, "the staging ring has 2 to 16 stages"},
    {"wgmma_registers", kTma, reads("block_m block_n wave_m"),
     [](V v, C c, A a) { return tma_accumulators(v, c, a) <= (c.wave_m > 2 * kWarpGroup ? 104 : 208); },
     "the accumulators exceed the 208 registers that a consumer lane can spare, 104 of three warp groups' "
     "(8-bit "
     "floats need two sets)"},
    {"pingpong_teams", kTma, reads("pipeline wave_m wave_groups"),
     [](V, C c, A) {
       return pingpong(c) ? c.wave_groups == 2 && c.wave_m == kWarpGroup : c.wave_groups == 1;
     },
     "pingpong has two groups of one warp group each (wave_m 4, wave_groups 2), cooperative one of any size"},
    {"pingpong_persistent", kTma, reads("pipeline persistent"),
     [](V, C c, A) { return !pingpong(c) || c.persistent; },
     "pingpong alternates between blocks of C, so it is persistent"},
    {"cluster", kTma, reads("cluster"),
     [](V, C c, A a) {
       return saturated_product({c.cluster_m, c.cluster_n}) <= a.max_cluster;
     },
     "the cluster has more workgroups than the architecture allows"},
    {"cluster_blocks", kTma, reads("cluster block_m block_n swap_ab"),
     [](V v, C c, A) {
       return c.block_m >= 1 && c.block_n >= 1 && c.cluster_m <= ceil_div(rows_of(v, c), c.block_m) &&
              c.cluster_n <= ceil_div(cols_of(v, c), c.block_n);
     },
     "the cluster is larger than the grid of blocks"},
    {"cp_async_width", kCpAsync, reads("vec_a vec_b"),
     [](V v, C c, A) { return cp_async_width(v.a, c.vec_a) && cp_async_width(v.b, c.vec_b); },
     "cp.async copies 4, 8 or 16 bytes: vec_a or vec_b is of another width"},
    {"cp_async_waves", kCpAsync, reads("wave_k"), [](V, C c, A) { return c.wave_k == 1; },
     "the cp_async kernel does not split a block's depth over warps (wave_k 1)"},
    {"simt_threads", kSimt, reads("block_m block_n tile"),
     [](V, C c, A a) {
       const int64_t threads = simt_threads(c);
       return threads >= a.wave_size && threads <= a.max_threads_per_block && divides(a.wave_size, threads);
     },
     "block / tile is the threads of a block: whole warps, at least one, within the architecture's bound"},
    {"simt_registers", kSimt, reads("tile"),
     [](V, C c, A a) {
       return c.tile_m >= 1 && c.tile_n >= 1 &&
              saturated_product({c.tile_m, c.tile_n}) <= a.registers_per_thread / 2;
     },
     "the accumulators of tile_m x tile_n exceed half of a thread's registers"},
    {"simt_stages", kSimt, reads("stages"), [](V, C c, A) { return c.stages <= 2; },
     "the simt kernel has one or two stages"},
    {"simt_depth", kSimt, reads("block_k inst_k"), [](V, C c, A) { return divides(c.inst_k, c.block_k); },
     "block_k is not a whole number of dot products (inst_k)"},
    {"gemv_rows", kGemv, reads("tile_m swap_ab"),
     [](V v, C c, A) { return c.tile_m >= 1 && c.tile_m <= 16 && rows_of(v, c) <= c.tile_m; },
     "gemv keeps every row of C in registers: tile_m covers m (with swap_ab: n) and is at most 16"},
    {"gemv_waves", kGemv, reads("wave"), [](V, C c, A) { return c.wave_m == 1; },
     "gemv spreads its waves over n and k (wave_m 1)"},
    {"gemv_columns", kGemv, reads("tile_n"), [](V, C c, A) { return c.tile_n >= 1 && c.tile_n <= 16; },
     "tile_n, the columns of one wave, is 1 to 16"},
    {"gemv_registers", kGemv, reads("tile"),
     [](V, C c, A a) {
       return saturated_product({c.tile_m, c.tile_n}) <= a.registers_per_thread / 4;
     },
     "tile_m * tile_n accumulators exceed a quarter of a thread's registers"},
};

}  // namespace

std::span<const Rule> cuda_rules() { return kRules; }

}  // namespace tessera
