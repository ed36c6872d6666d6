// Rules of the AMD families.
#include <algorithm>

#include "space/rule_row.h"

namespace tessera {
namespace {

bool is(C c, Pipeline p) { return c.pipeline == static_cast<int>(p); }

bool tile_at_least(C c, const std::array<int, 3>& least) {
  return c.block_m >= least[0] && c.block_n >= least[1] && c.block_k >= least[2];
}

bool tile_aligned(C c, const std::array<int, 3>& align) {
  return divides(align[0], c.block_m) && divides(align[1], c.block_n) && divides(align[2], c.block_k);
}

// Whether all lanes of a workgroup can share an x (contiguous) by y tile evenly in loads of up to `vec`
// elements: lanes of a wave fill whole rows of x, and the waves fill y.
bool workgroup_covers(int64_t x, int64_t y, int64_t vec, int64_t threads, int64_t wave) {
  if (x < 1 || y < 1 || vec < 1 || wave < 1 || !divides(threads, saturated_product({x, y}))) return false;
  const int64_t each = saturated_product({x, y}) / threads;
  while (vec > 1 && (x % vec || each % vec)) vec /= 2;
  const int64_t along_x = x / vec;
  return x % vec == 0 && along_x <= wave && wave % along_x == 0 && y % (threads / along_x) == 0;
}

// An operand whose tile is `extent` (m or n) by block_k. One that is not contiguous along k is turned around
// on its way into shared memory, so there the other view counts too, at 16 bytes a store.
bool operand_covered(const Operand& o, bool k_contiguous, int extent, int vec, C c, A a) {
  const int64_t threads = lanes(c, a);
  if (threads < 1) return false;
  if (k_contiguous) return workgroup_covers(c.block_k, extent, vec, threads, a.wave_size);
  return workgroup_covers(extent, c.block_k, vec, threads, a.wave_size) &&
         workgroup_covers(c.block_k, extent, 16 / bytes_of(o.type), threads, a.wave_size);
}

// An odd number of repeats of a 32-wide instruction per wave is stored in the wrong order by the C shuffle.
bool repeat_is_safe(int block, int wave, int inst) {
  const int64_t step = saturated_product({wave, inst});
  if (inst != 32 || step < 1) return true;
  const int64_t repeat = block / step;
  return repeat <= 1 || repeat % 2 == 0;
}

bool preshuffle_k(V v, C c, A a) {
  const int64_t run = 16 / bytes_of(v.b.type);
  if (!divides(run, c.block_k)) return false;
  const int64_t runs = c.block_k / run;
  if (!divides(runs, a.wave_size)) return false;
  return divides(saturated_product({a.wave_size / runs, waves(c)}), c.block_m);
}

bool preshuffle_m(V v, C c, A a) {
  const int64_t step = saturated_product({c.wave_m, c.inst_m});
  if (step < 1 || a.wave_size < 1) return false;
  const int64_t repeats = c.block_m / step;
  return saturated_product({c.inst_m, c.inst_k, bytes_of(v.b.type), repeats}) / a.wave_size % 16 == 0;
}

bool loads_a_vector(int extent, int vec, C c, A a) {
  const int64_t step = saturated_product({lanes(c, a), vec});
  return step >= 1 && saturated_product({extent, c.block_k}) / step >= 1;
}

constexpr Rule kAmdRules[] = {
    {"min_tile", kAmdFamilies, reads("block preshuffle"),
     [](V, C c, A a) { return tile_at_least(c, c.preshuffle ? a.min_tile_preshuffle : a.min_tile); },
     "block is below the least tile of the architecture (16x16x8, with preshuffle 64x64x32)"},
    {"tile_align", kAmdFamilies, reads("block preshuffle"),
     [](V, C c, A a) { return tile_aligned(c, c.preshuffle ? a.tile_align_preshuffle : a.tile_align); },
     "block is not aligned as the architecture needs (16x16x8, with preshuffle 32x32x16)"},
    {"share_a", kAmdFamilies, reads("block_m block_k wave vec_a"),
     [](V v, C c, A a) { return operand_covered(v.a, v.a.col_stride == 1, c.block_m, c.vec_a, c, a); },
     "the workgroup cannot share the tile of A evenly: block_m x block_k, the waves and vec_a do not divide"},
    {"share_b", kAmdFamilies, reads("block_n block_k wave vec_b preshuffle"),
     [](V v, C c, A a) {
       return c.preshuffle || operand_covered(v.b, v.b.row_stride == 1, c.block_n, c.vec_b, c, a);
     },
     "the workgroup cannot share the tile of B evenly: block_n x block_k, the waves and vec_b do not divide"},
    {"share_c", kAmdFamilies, reads("block_m block_n wave vec_c store"),
     [](V, C c, A a) {
       const int64_t threads = lanes(c, a);
       return !shuffles_c(c) ||
              (threads >= 1 && divides(c.wave_m, c.block_m) &&
               workgroup_covers(c.block_n, c.block_m / c.wave_m, c.vec_c, threads, a.wave_size));
     },
     "the workgroup cannot share the shuffled tile of C evenly: block_n x block_m / wave_m, the waves and "
     "vec_c do not "
     "divide"},
    {"odd_repeat", kAmdFamilies, reads("block_m block_n wave_m wave_n inst_m inst_n store"),
     [](V, C c, A) {
       return !shuffles_c(c) || (repeat_is_safe(c.block_m, c.wave_m, c.inst_m) &&
                                 repeat_is_safe(c.block_n, c.wave_n, c.inst_n));
     },
     "cshuffle gives wrong results when a wave repeats a 32-wide instruction an odd number of times (such as "
     "192/2/32)"},
    {"split_k_d", kAmdFamilies, reads("split_k"),
     [](V v, C c, A) { return c.split_k <= 1 || v.epilogue.d_count() == 0; },
     "parts of k are added up by atomics after the epilogue, so split_k cannot go with D tensors"},
    {"compv6_loads", kAmdFamilies, reads("pipeline block wave vec_a vec_b"),
     [](V, C c, A a) {
       return !is(c, Pipeline::compv6) ||
              (loads_a_vector(c.block_m, c.vec_a, c, a) && loads_a_vector(c.block_n, c.vec_b, c, a));
     },
     "compv6 needs at least one load of A and of B per lane"},
    {"basic_async_waves", kAmdFamilies, reads("pipeline wave_n inst_n"),
     [](V, C c, A) { return !is(c, Pipeline::basic_async_v1) || (c.wave_n == 2 && c.inst_n == 16); },
     "basic_async_v1 needs wave_n 2 and inst_n 16"},
    {"preshuffle_pipeline", kAmdFamilies, reads("pipeline preshuffle"),
     [](V, C c, A) { return is(c, Pipeline::preshufflev2) == (c.preshuffle != 0); },
     "preshuffle and the pipeline preshufflev2 go together"},
    {"preshuffle_layout", kAmdFamilies, reads("preshuffle"),
     [](V v, C c, A) { return !c.preshuffle || v.layout == Layout::rcr; }, "preshuffle is for layout rcr"},
    {"preshuffle_k", kAmdFamilies, reads("preshuffle block_m block_k wave"),
     [](V v, C c, A a) { return !c.preshuffle || preshuffle_k(v, c, a); },
     "preshuffle: block_k is not 16-byte runs that divide a wave, or block_m not whole rows of all waves"},
    {"preshuffle_m", kAmdFamilies, reads("preshuffle block_m wave_m inst_m inst_k"),
     [](V v, C c, A a) { return !c.preshuffle || preshuffle_m(v, c, a); },
     "preshuffle: what a lane holds of a wave's rows (inst_m * inst_k * repeats) is not whole 16-byte "
     "vectors"},
};

}  // namespace

std::span<const Rule> amd_rules() { return kAmdRules; }

}  // namespace tessera
