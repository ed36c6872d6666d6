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

bool is_f8(V v) { return info(v.a.type).is_float && bytes_of(v.a.type) == 1; }

// f32 registers of a consumer lane: 8-bit floats keep a second set, to which partial sums are promoted.
int64_t tma_accumulators(V v, C c, A a) {
  const int64_t consumers = saturated_product({c.wave_m, a.wave_size});
  if (consumers < 1) return int64_t{1} << 40;
  return saturated_product({c.block_m, c.block_n, is_f8(v) ? 2 : 1}) / consumers;
}

int64_t simt_threads(C c) {
  if (!divides(c.tile_m, c.block_m) || !divides(c.tile_n, c.block_n)) return 0;
  return saturated_product({c.block_m / c.tile_m, c.block_n / c.tile_n});
}

// Whether W, the operand that gemv streams, and the other one lie along k.
bool streamed_along_k(V v, C c) { return c.swap_ab ? v.a.col_stride == 1 : v.b.row_stride == 1; }
bool both_along_k(V v) { return v.a.col_stride == 1 && v.b.row_stride == 1; }

constexpr Rule kCudaRules[] = {
    {"packed_d", kCudaFamilies, 0,
     [](V v, C, A) {
       return v.epilogue.d_count() == 0 ||
              (v.d_strides.row == v.n && v.d_strides.group == v.m * v.n && v.d_strides.row_group == 0);
     },
     "D tensors of groups that lie beside each other"},
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
       const int64_t bytes = saturated_product({c.block_k, bytes_of(v.a.type)});
       return bytes == kRow || bytes == 2 * kRow;
     },
     "block_k is one swizzled row of 128 bytes, or two"},
    {"tma_store", kTma, reads("store block_n swap_ab"),
     [](V v, C c, A) { return !shuffles_c(c) || tma_stores(v, c); },
     "cshuffle stores through TMA: C's leading dimension and batch stride, and a block's rows, are multiples "
     "of 16 bytes"},
    {"wgmma_depth", kTma, 0, [](V v, C, A) { return v.k >= 1; },
     "the tma_ws kernel multiplies at least once: k >= 1"},
    {"wgmma_k_major", kTma, 0, [](V v, C, A) { return bytes_of(v.a.type) == 2 || v.layout == Layout::rcr; },
     "wgmma reads 8-bit operands along k only (layout rcr)"},
    {"tma_smem", kTma, reads("block stages wave_m wave_groups cluster_k swap_ab"),
     [](V v, C c, A a) { return tma_ws_smem(v, c) <= a.smem_bytes; },
     "the stages of A and B, the buffer of C and the barriers exceed the shared memory of a block"},
    {"wgmma_parts", kTma, reads("block_m block_n wave_m pipeline split_k stream_k cluster_k"),
     [](V v, C c, A a) {
       const int64_t most = c.wave_m > 2 * kWarpGroup ? 80 : pingpong(c) ? 112 : 128;
       return (c.split_k == 1 && !c.stream_k && c.cluster_k == 1) ||
              tma_accumulators(v, c, a) / (is_f8(v) ? 2 : 1) <= most;
     },
     "adding up parts of k takes registers: at most 128 accumulators a lane, 112 in pingpong, 80 of three "
     "warp groups"},
    {"stream_k", kTma, reads("stream_k split_k"), [](V, C c, A) { return !c.stream_k || c.split_k == 1; },
     "stream_k deals out all of k: split_k is 1"},
    {"cluster_k", kTma, reads("cluster_k split_k stream_k pipeline block_k"),
     [](V v, C c, A) {
       return c.cluster_k == 1 || (!c.stream_k && !pingpong(c) && c.block_k >= 1 &&
                                   saturated_product({c.cluster_k, c.split_k}) <= ceil_div(v.k, c.block_k));
     },
     "the blocks of a cluster share out the k of one tile, a block_k or more each: cooperative, no stream_k"},
    {"cluster_sums", kTma, reads("cluster_k block stages"),
     [](V v, C c, A) {
       const int64_t stage =
           saturated_product({int64_t{c.block_m} + c.block_n, c.block_k, bytes_of(v.a.type)});
       return c.cluster_k == 1 ||
              saturated_product({c.block_m, c.block_n, 4}) <= saturated_product({stage, c.stages});
     },
     "with cluster_k the sums of a block go through the memory of its stages"},
    {"tma_stages", kTma | kCpAsync, reads("stages"),
     [](V, C c, A) { return c.stages >= 2 && c.stages <= 16; }, "the staging ring has 2 to 16 stages"},
    {"wgmma_registers", kTma, reads("block_m block_n wave_m"),
     [](V v, C c, A a) { return tma_accumulators(v, c, a) <= (c.wave_m > 2 * kWarpGroup ? 96 : 208); },
     "the accumulators exceed the 208 registers that a consumer lane can spare, 96 of three warp groups' "
     "(8-bit floats need two sets)"},
    {"pingpong_teams", kTma, reads("pipeline wave_m wave_groups"),
     [](V, C c, A) {
       return pingpong(c) ? c.wave_groups == 2 && c.wave_m == kWarpGroup : c.wave_groups == 1;
     },
     "pingpong has two groups of one warp group each (wave_m 4, wave_groups 2), cooperative one of any size"},
    {"pingpong_persistent", kTma, reads("pipeline persistent"),
     [](V, C c, A) { return !pingpong(c) || c.persistent; },
     "pingpong alternates between blocks of C, so it is persistent"},
    {"cluster", kTma, reads("cluster cluster_k"),
     [](V, C c, A a) {
       return saturated_product({c.cluster_m, c.cluster_n, c.cluster_k}) <= a.max_cluster;
     },
     "the cluster has more workgroups than the architecture allows"},
    {"cluster_blocks", kTma, reads("cluster block_m block_n swap_ab"),
     [](V v, C c, A) {
       return c.block_m >= 1 && c.block_n >= 1 && c.cluster_m <= ceil_div(rows_of(v, c), c.block_m) &&
              c.cluster_n <= ceil_div(cols_of(v, c), c.block_n);
     },
     "the cluster is larger than the grid of blocks"},
    {"cp_async_tile", kCpAsync, reads("block_m block_n wave_m wave_n"),
     [](V, C c, A) {
       return divides(saturated_product({c.wave_m, 16}), c.block_m) &&
              divides(saturated_product({c.wave_n, 16}), c.block_n);
     },
     "a warp takes whole multiples of 16 rows and 16 columns"},
    {"cp_async_registers", kCpAsync, reads("block wave"),
     [](V v, C c, A a) {
       const int64_t threads = lanes(c, a), sums = saturated_product({c.block_m, c.block_n});
       const int64_t staged =
           saturated_product({int64_t{c.block_m} + c.block_n, c.block_k, bytes_of(v.a.type)});
       return threads >= 1 && sums <= saturated_product({64, threads}) &&
              staged <= saturated_product({128, threads});
     },
     "a lane keeps at most 64 sums and 128 bytes of a stage"},
    {"cp_async_smem", kCpAsync, reads("block stages"),
     [](V v, C c, A a) {
       const int64_t one =
           saturated_product({int64_t{c.block_m} + c.block_n, c.block_k, v.acc == DType::i32 ? 1 : 2});
       return saturated_product({one, c.stages}) <= a.smem_bytes;
     },
     "the stages of A and B (8-bit floats as f16) exceed the shared memory of a block"},
    {"cp_async_along_k", kCpAsync, 0, [](V v, C, A) { return v.acc != DType::i32 || both_along_k(v); },
     "the tensor cores take integers along k only (layout rcr)"},
    {"cp_async_waves", kCpAsync, reads("wave_k"), [](V, C c, A) { return c.wave_k == 1; },
     "the cp_async kernel does not split a block's depth over warps (wave_k 1)"},
    {"simt_threads", kSimt, reads("block_m block_n tile"),
     [](V, C c, A a) {
       const int64_t threads = simt_threads(c);
       return threads >= a.wave_size && threads <= a.max_threads_per_block / 2 &&
              divides(a.wave_size, threads);
     },
     "block / tile is the threads of a block: whole warps, at least one, at most half of the architecture's "
     "bound, which would leave each too few registers"},
    {"simt_registers", kSimt, reads("tile"),
     [](V, C c, A a) {
       return c.tile_m >= 1 && c.tile_n >= 1 &&
              saturated_product({c.tile_m, c.tile_n}) <= a.registers_per_thread / 2;
     },
     "the accumulators of tile_m x tile_n exceed half of a thread's registers"},
    {"simt_loads", kSimt, reads("block tile"),
     [](V, C c, A) {
       return saturated_product({int64_t{c.block_m} + c.block_n, c.block_k}) <=
              saturated_product({32, simt_threads(c)});
     },
     "a thread stages at most 32 elements at a time"},
    {"simt_stages", kSimt, reads("stages"), [](V, C c, A) { return c.stages <= 2; },
     "the simt kernel has one or two stages"},
    {"simt_depth", kSimt, reads("block_k inst_k"), [](V, C c, A) { return divides(c.inst_k, c.block_k); },
     "block_k is not a whole number of dot products (inst_k)"},
    {"simt_smem", kSimt, reads("block stages"),
     [](V v, C c, A a) {
       const int64_t rows = int64_t{c.block_m} + c.block_n;
       const int64_t one = v.acc == DType::i32 ? saturated_product({rows, c.block_k})
                                               : saturated_product({rows + 8, c.block_k, 4});
       return saturated_product({one, c.stages}) <= a.smem_bytes;
     },
     "the stages of A and B, as f32, exceed the shared memory of a block"},
    {"simt_vec", kSimt, reads("block vec_a vec_b"),
     [](V v, C c, A) {
       return divides(c.vec_a, v.a.col_stride == 1 ? c.block_k : c.block_m) &&
              divides(c.vec_b, v.b.row_stride == 1 ? c.block_k : c.block_n);
     },
     "vec_a or vec_b does not divide the block along the operand's lines"},
    {"gemv_rows", kGemv, reads("tile_m swap_ab"),
     [](V v, C c, A) {
       return divides(8, c.tile_m) && c.tile_m >= 8 && c.tile_m <= 32 && rows_of(v, c) <= c.tile_m;
     },
     "gemv keeps every row of C in registers: tile_m covers m (with swap_ab: n) and is 8 to 32, a multiple "
     "of 8"},
    {"gemv_waves", kGemv, reads("wave"), [](V, C c, A) { return c.wave_m == 1; },
     "gemv spreads its waves over n and k (wave_m 1)"},
    {"gemv_columns", kGemv, reads("tile_n swap_ab"),
     [](V v, C c, A) { return streamed_along_k(v, c) ? c.tile_n == 16 || c.tile_n == 32 : c.tile_n == 64; },
     "tile_n, the columns of one wave, is 16 or 32 where the streamed operand lies along k, else 64"},
    {"gemv_along_k", kGemv, 0, [](V v, C, A) { return bytes_of(v.a.type) == 2 || both_along_k(v); },
     "gemv takes 8-bit operands along k only (layout rcr)"},
    {"gemv_registers", kGemv, reads("tile"),
     [](V, C c, A a) {
       return saturated_product({c.tile_m, c.tile_n}) / 32 <= (a.registers_per_thread + 1) / 2;
     },
     "tile_m * tile_n accumulators exceed half of a wave's registers"},
    {"gemv_smem", kGemv, reads("tile wave"),
     [](V, C c, A a) {
       return saturated_product({c.tile_m, c.tile_n, waves(c), 4}) <= a.smem_bytes;
     },
     "the sums of a block's waves exceed its shared memory"},
};

}  // namespace

std::span<const Rule> cuda_rules() { return kCudaRules; }

}  // namespace tessera
