// Rules that AMD and NVIDIA families share.
#include <algorithm>

#include "space/rule_row.h"

namespace tessera {
namespace {

constexpr uint32_t kMatrix = kAmdFamilies | family_set(Family::cp_async);
constexpr uint32_t kStaged = kMatrix | family_set(Family::simt);
constexpr uint32_t kVector = kStaged | family_set(Family::gemv);
constexpr uint32_t kPiped = kAmdFamilies | family_set(Family::tma_ws);
constexpr uint32_t kBlocks = kStaged | family_set(Family::tma_ws);

// A block is whole instructions of every wave.
bool covers(int block, int wave, int inst) {
  const int64_t step = saturated_product({wave, inst});
  return step <= block && divides(step, block);
}

bool block_fits(int64_t extent, int block, int pad) { return pad || divides(block, extent); }

const PipelineTraits* traits(C c, A a) { return a.find_pipeline(static_cast<Pipeline>(c.pipeline)); }

template <class T>
bool lists(const std::vector<T>& list, int value) {
  return std::find(list.begin(), list.end(), static_cast<T>(value)) != list.end();
}

constexpr Rule kGpuRules[] = {
    {"block_empty", kBlocks, reads("block"),
     [](V, C c, A) { return c.block_m >= 1 && c.block_n >= 1 && c.block_k >= 1; },
     "block_m, block_n and block_k are at least 1"},
    {"output", kAmdFamilies, 0,
     [](V v, C, A) { return v.c.type == info(v.a.type).default_out || v.c.type == v.acc; },
     "the AMD families store C as the operand type (f16 for 8-bit floats) or as the accumulator type"},
    {"cover_m", kMatrix, reads("block_m wave_m inst_m"),
     [](V, C c, A) { return covers(c.block_m, c.wave_m, c.inst_m); },
     "block_m is not a whole number of wave_m * inst_m rows"},
    {"cover_n", kMatrix, reads("block_n wave_n inst_n"),
     [](V, C c, A) { return covers(c.block_n, c.wave_n, c.inst_n); },
     "block_n is not a whole number of wave_n * inst_n columns"},
    {"cover_k", kMatrix, reads("block_k wave_k inst_k"),
     [](V, C c, A) { return covers(c.block_k, c.wave_k, c.inst_k); },
     "block_k is not a whole number of wave_k * inst_k"},
    {"wave_grid", kMatrix, reads("wave"),
     [](V, C c, A a) {
       const std::array<int, 3> grid{c.wave_m, c.wave_n, c.wave_k};
       return a.wave_grids.empty() ||
              std::find(a.wave_grids.begin(), a.wave_grids.end(), grid) != a.wave_grids.end();
     },
     "the architecture does not list this arrangement of waves (wave_m x wave_n x wave_k)"},
    {"wave_count", kMatrix | family_set(Family::gemv), reads("wave"),
     [](V, C c, A a) { return lanes(c, a) <= a.max_threads_per_block; },
     "the waves have more lanes than a workgroup may"},
    {"pipeline", kPiped, reads("pipeline"), [](V, C c, A a) { return traits(c, a) != nullptr; },
     "the architecture does not have this pipeline"},
    {"pipeline_scheduler", kPiped, reads("pipeline scheduler"),
     [](V, C c, A a) { return !traits(c, a) || lists(traits(c, a)->schedulers, c.scheduler); },
     "the pipeline does not work with this scheduler (interwave: only mem and basic_v1)"},
    {"pipeline_store", kPiped, reads("pipeline store"),
     [](V, C c, A a) { return !traits(c, a) || lists(traits(c, a)->stores, c.store); },
     "the pipeline does not work with this store"},
    {"pipeline_buffers", kPiped, reads("pipeline double_buffer"),
     [](V, C c, A a) { return !traits(c, a) || lists(traits(c, a)->double_buffer, c.double_buffer); },
     "the pipeline does not work with this double_buffer (compv4 and comp_async need 1)"},
    {"smem", kStaged, reads("block stages pipeline double_buffer"),
     [](V v, C c, A a) {
       return staged_bytes(v, c) <= a.smem_limit(static_cast<Pipeline>(c.pipeline), c.double_buffer);
     },
     "the staged tiles of A and B exceed the shared memory that this pipeline (and its double buffer) "
     "leaves"},
    {"vec_a", kVector, reads("vec_a"), [](V v, C c, A) { return vector_fits(v.a, v.groups, c.vec_a); },
     "vec_a is not a power of two of at most 16 bytes that divides A's contiguous extent, leading dimension "
     "and stride"},
    {"vec_b", kVector, reads("vec_b"),
     [](V v, C c, A) { return v.b_prepacked ? power_of_two(c.vec_b) : vector_fits(v.b, v.groups, c.vec_b); },
     "vec_b is not a power of two of at most 16 bytes that divides B's contiguous extent, leading dimension "
     "and stride"},
    {"vec_c", kStaged, reads("vec_c"), [](V v, C c, A) { return vector_fits(v.c, v.groups, c.vec_c); },
     "vec_c is not a power of two of at most 16 bytes that divides C's columns, leading dimension and "
     "stride"},
    {"pad_m", kStaged, reads("pad_m block_m"),
     [](V v, C c, A) { return block_fits(v.m, c.block_m, c.pad_m); },
     "without pad_m, m is a whole number of block_m"},
    {"pad_n", kStaged, reads("pad_n block_n"),
     [](V v, C c, A) { return block_fits(v.n, c.block_n, c.pad_n); },
     "without pad_n, n is a whole number of block_n"},
    {"pad_k", kStaged, reads("pad_k block_k split_k"),
     [](V v, C c, A) {
       return c.pad_k || divides(saturated_product({c.block_k, c.split_k}), v.k);
     },
     "without pad_k, k is a whole number of block_k * split_k"},
    {"split_blocks", kBlocks, reads("split_k block_k"),
     [](V v, C c, A) { return c.split_k <= 1 || (c.block_k >= 1 && c.split_k <= ceil_div(v.k, c.block_k)); },
     "split_k exceeds the number of block_k in k: some part would be empty"},
    {"registers", kMatrix, reads("block_m block_n wave_m wave_n"),
     [](V, C c, A a) {
       const int64_t threads = saturated_product({c.wave_m, c.wave_n, a.wave_size});
       return threads >= 1 &&
              saturated_product({c.block_m, c.block_n}) / threads <= (a.registers_per_thread + 1) / 2;
     },
     "the accumulators of block_m x block_n exceed half of a lane's registers"},
};

}  // namespace

bool vector_fits(const Operand& o, int64_t groups, int vec) {
  if (!power_of_two(vec) || int64_t{vec} * bytes_of(o.type) > 16) return false;
  if (vec == 1) return true;
  return divides(vec, o.contiguous()) && divides(vec, o.leading()) &&
         (groups == 1 || divides(vec, o.group_stride));
}

std::span<const Rule> gpu_rules() { return kGpuRules; }

}  // namespace tessera
