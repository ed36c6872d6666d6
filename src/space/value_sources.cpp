// Where the values of a knob come from: a list, the architecture or the problem.
#include <algorithm>

#include "core/planes_shape.h"
#include "core/scatter_shape.h"
#include "core/tile_math.h"
#include "core/tma_ws_shape.h"
#include "space/family_space.h"
#include "space/rule_row.h"

namespace tessera {
namespace {

using Out = std::vector<KnobValue>;

#define TESSERA_SOURCE(name)                                                            \
  void name([[maybe_unused]] const GemmView& v, [[maybe_unused]] const ArchSpec& a,     \
            [[maybe_unused]] const FamilySpace& f, [[maybe_unused]] const KnobSpace& k, \
            [[maybe_unused]] const KernelConfig& c, Out& out)

TESSERA_SOURCE(list) { out = k.listed; }

// Instructions of so few rows or columns that one of square shape does more with the same operands only where
// C has few.
TESSERA_SOURCE(instructions) {
  constexpr int kThin = 4, kFew = 64;
  const auto wasteful = [](int size, int64_t extent) { return size <= kThin && size > 1 && extent > kFew; };
  for (const Instruction& i : a.instructions) {
    if (!f.issues(i, v.a.type, v.b.type, v.b_prepacked)) continue;
    if (a.backend != BackendKind::cpu && (wasteful(i.m, v.m) || wasteful(i.n, v.n))) continue;
    out.push_back({i.m, i.n, i.k});
  }
}

TESSERA_SOURCE(wave_grids) {
  for (const auto& grid : a.wave_grids) out.push_back(grid);
}

// Of listed register tiles that cover all rows only the least is worth a candidate; so with columns.
void tiles_of(int64_t rows, int64_t cols, const KnobSpace& k, const KernelConfig& c, Out& out) {
  for (const KnobValue& t : k.listed) {
    const bool wasteful = std::any_of(k.listed.begin(), k.listed.end(), [&](const KnobValue& o) {
      if (o[1] == t[1]) return rows <= o[0] && o[0] < t[0];
      return o[1] % std::max(c.inst_n, 1) == 0 && cols <= o[1] && o[1] < t[1];
    });
    if (!wasteful) out.push_back(t);
  }
}

TESSERA_SOURCE(tiles) { tiles_of(rows_of(v, c), cols_of(v, c), k, c, out); }

TESSERA_SOURCE(product_tiles) {
  if (!scatter_window(v)) return list(v, a, f, k, c, out);
  const ScatterShape s = scatter_shape(v);
  tiles_of(s.images * s.coordinates, s.columns, k, c, out);
}

// Outputs x places between the first and the last of an image; of a gradient, outputs x a vector for each
// term.
TESSERA_SOURCE(plane_tiles) {
  if (!planes_window(v)) return list(v, a, f, k, c, out);
  int64_t places = c.inst_n;
  for (const WindowAxis& x : v.window->axes) {
    const PlanesAxis axis(x);
    places = saturated_product({places, v.b.patches ? x.taps : axis.count + axis.span()});
  }
  places = v.b.patches ? saturated_product({places, v.window->channels}) : places / std::max(c.inst_n, 1);
  tiles_of(plane_outputs(v), places, k, c, out);
}

// Blocks of a workgroup. One that a smaller listed block makes wasteful is left out; blocks up to `limit`
// always stay, for below it instructions and wave grids, not the problem, say which block is possible.
TESSERA_SOURCE(gpu_blocks) {
  const int64_t extents[] = {v.m, v.n, v.k};
  for (const KnobValue& t : k.listed) {
    bool wasteful = false;
    for (const KnobValue& o : k.listed) {
      for (size_t i = 0; i < 3; ++i) {
        const size_t j = (i + 1) % 3, l = (i + 2) % 3;
        wasteful |= extents[i] <= o[i] && k.limit <= o[i] && o[i] < t[i] && o[j] == t[j] && o[l] == t[l];
      }
    }
    if (!wasteful) out.push_back(t);
  }
}

// The same, of those that are neither so small that every compute unit gets very many of them nor so large
// that most get none, where others are listed that lie between.
TESSERA_SOURCE(filling_blocks) {
  constexpr int64_t kMost = 32, kIdle = 4;
  gpu_blocks(v, a, f, k, c, out);
  const auto fills = [&](const KnobValue& t) {
    const int64_t blocks = saturated_product({v.groups, ceil_div(v.m, t[0]), ceil_div(v.n, t[1])});
    return blocks <= kMost * a.compute_units && blocks * kIdle >= a.compute_units;
  };
  if (std::any_of(out.begin(), out.end(), fills)) {
    std::vector<KnobValue> kept;
    for (const KnobValue& t : out) {
      const bool usual = std::min(t[0], t[1]) >= 64 && std::max(t[0], t[1]) <= 128;
      if (usual || fills(t)) kept.push_back(t);
    }
    out = std::move(kept);
  }
}

// 0, and 1 where blocks of C outnumber the compute units.
TESSERA_SOURCE(many_blocks) {
  out.push_back({0});
  if (c.block_m < 1 || c.block_n < 1) return;
  const int64_t c_blocks = ceil_div(v.m, c.block_m) * ceil_div(v.n, c.block_n);
  if (saturated_product({v.groups, c_blocks, c.split_k}) > a.compute_units) out.push_back({1});
}

// Of listed values those whose `part` is no larger than the least one, alike in the other parts, that covers
// `extent`.
void cover(const KnobSpace& k, size_t part, int64_t extent, Out& out) {
  for (const KnobValue& t : k.listed) {
    const bool wasteful = std::any_of(k.listed.begin(), k.listed.end(), [&](const KnobValue& o) {
      if (extent > o[part] || o[part] >= t[part]) return false;
      KnobValue same = o;
      same[part] = t[part];
      return same == t;
    });
    if (!wasteful) out.push_back(t);
  }
}

TESSERA_SOURCE(cover_rows) { cover(k, 0, rows_of(v, c), out); }

// The same; widths whose C leaves in slices of 16 columns only where C is so flat or narrow that a whole
// number of rounds is worth more.
TESSERA_SOURCE(wgmma_cols) {
  constexpr int64_t kFlat = 256;
  constexpr int kSlice = 32;
  cover(k, 1, cols_of(v, c), out);
  if (std::min(v.m, v.n) > kFlat)
    std::erase_if(out, [](const KnobValue& t) { return t[1] > kSlice && t[1] % kSlice != 0; });
}

// Whether B is copied into panels, and where it is patches whether taps read copies of its lines.
TESSERA_SOURCE(patches_in_place) {
  out.push_back({1});
  if (v.b.patches) out.push_back({0});
}

// The way that keeps the longer side of C's grid of blocks in the outer loop.
TESSERA_SOURCE(short_side) {
  const bool wide = c.block_m >= 1 && c.block_n >= 1 &&
                    ceil_div(cols_of(v, c), c.block_n) > ceil_div(rows_of(v, c), c.block_m);
  out.push_back({static_cast<int>(wide ? Raster::along_m : Raster::along_n)});
}

// The most listed stages that shared memory holds (the least of them when none fits).
TESSERA_SOURCE(deepest) {
  KernelConfig trial = c;
  out.push_back(k.listed.front());
  for (const KnobValue& stages : k.listed) {
    trial.stages = stages[0];
    if (stages[0] > out.back()[0] && tma_ws_smem(v, trial) <= a.smem_bytes) out.back() = stages;
  }
}

// cshuffle where C can leave through TMA, which is as fast as any other store or faster; else direct.
TESSERA_SOURCE(tma_or_direct) {
  out.push_back({static_cast<int>(tma_stores(v, c) ? Store::cshuffle : Store::direct)});
}

// Cache blocks. One that covers its extent is 0, the whole extent.
TESSERA_SOURCE(blocks) {
  const int64_t extents[] = {rows_of(v, c), cols_of(v, c), v.k};
  for (KnobValue b : k.listed) {
    for (size_t i = 0; i < 3; ++i) {
      if (b[i] >= extents[i]) b[i] = 0;
    }
    if (std::find(out.begin(), out.end(), b) == out.end()) out.push_back(b);
  }
}

// (scheduler, double_buffer) that go with the pipeline.
TESSERA_SOURCE(pipeline_modes) {
  const PipelineTraits* traits = a.find_pipeline(static_cast<Pipeline>(c.pipeline));
  if (!traits) return;
  for (Scheduler s : traits->schedulers) out.push_back({static_cast<int>(s), traits->double_buffer.front()});
}

// Of the architecture's pipelines those listed; where one is listed that takes a prepacked B, that one for it
// and the others for no other.
TESSERA_SOURCE(pipelines) {
  const auto preshuffles = [](const KnobValue& p) {
    return p[0] == static_cast<int>(Pipeline::preshufflev2);
  };
  const bool apart = std::any_of(k.listed.begin(), k.listed.end(), preshuffles);
  for (const KnobValue& p : k.listed) {
    const bool serves = !apart || preshuffles(p) == v.b_prepacked;
    if (serves && a.find_pipeline(static_cast<Pipeline>(p[0]))) out.push_back(p);
  }
}

// The most elements of at most 16 bytes that divide the operand's contiguous extent, leading dimension and
// stride.
void widest(const Operand& o, int64_t groups, Out& out) {
  int vec = 16 / bytes_of(o.type);
  while (vec > 1 && !vector_fits(o, groups, vec)) vec /= 2;
  out.push_back({vec});
}

TESSERA_SOURCE(widest_a) { widest(v.a, v.groups, out); }
TESSERA_SOURCE(widest_b) {
  v.b_prepacked ? out.push_back({16 / bytes_of(v.b.type)}) : widest(v.b, v.groups, out);
}
TESSERA_SOURCE(widest_c) { widest(v.c, v.groups, out); }

// (pad_m, pad_n, pad_k): 0 where blocks divide the extent.
TESSERA_SOURCE(needed) {
  const int64_t step_k = saturated_product({c.block_k, c.split_k});
  out.push_back({!divides(c.block_m, v.m), !divides(c.block_n, v.n), !divides(step_k, v.k)});
}

// A block as wide as the instruction.
TESSERA_SOURCE(same_as_inst_n) { out.push_back({c.inst_n}); }

// Two teams of warps take turns in pingpong, one works otherwise.
TESSERA_SOURCE(teams) { out.push_back({c.pipeline == static_cast<int>(Pipeline::pingpong) ? 2 : 1}); }

// The problem has so few rows or columns that reading the other operand is most of the work.
bool streams_one(const GemmView& v) { return std::min(v.m, v.n) <= 64; }

// Elements of A in `limit` bytes; where one operand is streamed, in twice as many, too.
TESSERA_SOURCE(row_bytes) {
  const auto elements = static_cast<int>(k.limit / bytes_of(v.a.type));
  // The longer stage first: it is the better one where the model sees no difference.
  if (streams_one(v)) out.push_back({2 * elements});
  out.push_back({elements});
}

TESSERA_SOURCE(prepacked) { out.push_back({v.b_prepacked}); }

// 1 where C has fewer rows than `limit` and than columns: the instruction's rows are many, its columns any
// number.
TESSERA_SOURCE(flat) {
  out.push_back({0});
  if (v.m < k.limit && v.m < v.n) out.push_back({1});
}

// Clusters of the list; those of more than two blocks only where one operand is streamed and they share the
// other.
TESSERA_SOURCE(clusters) {
  for (const KnobValue& cluster : k.listed) {
    if (cluster[0] * cluster[1] <= 2 || (streams_one(v) && c.swap_ab)) out.push_back(cluster);
  }
}

// 1 is worth a candidate where C is narrower than `limit` and than its height.
TESSERA_SOURCE(narrow) {
  out.push_back({0});
  if (v.n < k.limit && v.n < v.m) out.push_back({1});
}

// 0, and 1 where a few columns of a C of at most `limit` lie past whole vectors.
TESSERA_SOURCE(edge_widths) {
  out.push_back({0});
  if (v.n <= k.limit && edge_columns(v, c) > 0) out.push_back({1});
}

// Parts of k where C alone cannot occupy the compute units: powers of two up to `limit`, each part long
// enough to be worth adding up, and on a CPU the cycles of a thread. Fewer parts than give one compute unit
// in 32, or one core in four, a tile are left out where more are possible.
TESSERA_SOURCE(idle_units) {
  const bool cpu = a.backend == BackendKind::cpu;
  const bool unpacked = c.family_id() == Family::cpu_dot || c.family_id() == Family::cpu_direct;
  if (unpacked && !v.worth_threads_unpacked()) return out.push_back({1});
  constexpr double kThreadCycles = 4000;
  const int64_t least = cpu ? 64 : 256, idle = cpu ? 4 : 32;
  const double cycles = v.work / 32 + v.bytes() / 16;
  const double c_tiles = static_cast<double>(v.groups) * ceil_div(v.m, 64) * ceil_div(v.n, 64);
  const auto fits = [&](int64_t parts) {
    return parts <= k.limit && v.k >= least * parts &&
           (!cpu || cycles >= kThreadCycles * static_cast<double>(parts));
  };
  for (int64_t parts = 1; parts == 1 || fits(parts); parts *= 2) {
    if (parts > 1 && c_tiles * parts / 2 >= a.compute_units) break;
    if (fits(parts * 4) && c_tiles * parts * idle < a.compute_units) continue;
    out.push_back({static_cast<int>(parts)});
  }
}

// The same for kernels whose waves each keep tile_n columns.
TESSERA_SOURCE(idle_tiles) {
  const double tiles =
      static_cast<double>(v.groups) * ceil_div(cols_of(v, c), std::max(c.tile_n * c.wave_n, 1));
  for (int64_t parts = 1; parts <= std::max<int64_t>(k.limit, 1); parts *= 2) {
    if (parts > 1 && (tiles * parts / 2 >= a.compute_units || v.k < 256 * parts)) break;
    out.push_back({static_cast<int>(parts)});
  }
}

// Blocks of C, in whole clusters.
int64_t blocks_of_c(const GemmView& v, const KernelConfig& c) {
  const int64_t rows = std::max(c.block_m * c.cluster_m, 1), cols = std::max(c.block_n * c.cluster_n, 1);
  return saturated_product(
      {ceil_div(rows_of(v, c), rows), ceil_div(cols_of(v, c), cols), v.groups, c.cluster_m * c.cluster_n});
}

// The same, and as many parts as leave no compute unit idle that another part would occupy.
TESSERA_SOURCE(fill_units) {
  idle_units(v, a, f, k, c, out);
  const int64_t parts = a.compute_units / std::max<int64_t>(blocks_of_c(v, c), 1);
  const KnobValue filling = {static_cast<int>(std::min<int64_t>(parts, k.limit))};
  const bool deep = parts > 1 && v.k >= 256 * parts;
  if (deep && std::find(out.begin(), out.end(), filling) == out.end()) out.push_back(filling);
}

// Of the listed parts of k, for a cluster to add up, those that leave compute units to all clusters at once
// and each part a few steps; 1 always. Beside split_k only those that then occupy most of the units.
TESSERA_SOURCE(idle_clusters) {
  constexpr int64_t kLeastSteps = 4;
  const bool alone = !c.stream_k && c.pipeline == static_cast<int>(Pipeline::cooperative);
  const int64_t split = std::max(c.split_k, 1), blocks = alone ? blocks_of_c(v, c) : 0;
  const auto fills = [&](int parts) {
    const int64_t all = saturated_product({blocks, parts, split});
    const bool idle = all <= a.compute_units && (split == 1 || 4 * all > 3 * a.compute_units);
    return idle && saturated_product({parts, split, c.block_k, kLeastSteps}) <= v.k;
  };
  for (const KnobValue& parts : k.listed) {
    if (parts[0] == 1 || (alone && fills(parts[0]))) out.push_back(parts);
  }
}

constexpr ValueSource kSources[] = {
    {"list", 0, list, "the values of the file"},
    {"instructions", 0, instructions, "the architecture's instructions for these operand types"},
    {"wave_grids", 0, wave_grids, "the architecture's wave grids"},
    {"tiles", reads("swap_ab inst_n"), tiles,
     "listed register tiles, without those a smaller one makes wasteful"},
    {"plane_tiles", reads("inst_n"), plane_tiles,
     "register tiles of channels x neighbouring pixels of a convolution"},
    {"product_tiles", reads("inst_n"), product_tiles,
     "the same for products of all taps, where they are added to what they meet"},
    {"gpu_blocks", 0, gpu_blocks, "listed blocks, without those a smaller one makes wasteful"},
    {"filling_blocks", 0, filling_blocks,
     "the same, of which compute units get neither very many nor most of them none"},
    {"many_blocks", reads("block_m block_n split_k"), many_blocks,
     "0, and 1 where blocks of C outnumber the compute units"},
    {"cover_rows", reads("swap_ab"), cover_rows,
     "listed values, the first number no larger than covers the rows"},
    {"wgmma_cols", reads("swap_ab"), wgmma_cols,
     "listed values, the second number no larger than covers the columns, some only where C is flat or "
     "narrow"},
    {"short_side", reads("block_m block_n swap_ab"), short_side,
     "the walk along the shorter side of C's grid of blocks", true},
    {"deepest", reads("block wave_m wave_groups cluster_k swap_ab"), deepest,
     "the most listed stages that shared memory holds", true},
    {"tma_or_direct", reads("block_n swap_ab"), tma_or_direct,
     "cshuffle where C can leave through TMA, else direct", true},
    {"blocks", reads("swap_ab"), blocks, "listed cache blocks, 0 where they cover the whole extent"},
    {"patches_in_place", 0, patches_in_place, "1, and 0 where B is patches of images"},
    {"prepacked", 0, prepacked, "1 exactly when the problem's B is prepacked", true},
    {"pipelines", 0, pipelines, "of the listed pipelines those the architecture has"},
    {"pipeline_modes", reads("pipeline"), pipeline_modes,
     "schedulers that go with the pipeline, and the fewest buffers it works with: more only take room"},
    {"widest_a", 0, widest_a, "the widest load of A", true},
    {"widest_b", 0, widest_b, "the widest load of B", true},
    {"widest_c", 0, widest_c, "the widest store of C", true},
    {"needed", reads("block split_k"), needed, "pad flags, 0 where the blocks divide the problem", true},
    {"inst_n", reads("inst_n"), same_as_inst_n, "the width of the instruction", true},
    {"teams", reads("pipeline"), teams, "2 for pingpong, else 1", true},
    {"row_bytes", 0, row_bytes, "the elements of A in `limit` bytes, or twice as many"},
    {"flat", 0, flat, "0, and 1 where C has fewer rows than the limit"},
    {"clusters", reads("swap_ab"), clusters,
     "listed clusters, more than two blocks only where one operand is streamed"},
    {"narrow", 0, narrow, "0, and 1 where C has fewer columns than the limit"},
    {"edge_widths", reads("inst_n"), edge_widths,
     "0, and 1 where few columns of a C no wider than the limit lie past vectors"},
    {"idle_tiles", reads("tile_n wave_n swap_ab"), idle_tiles,
     "powers of two where waves of tile_n columns are too few for the compute units"},
    {"idle_clusters", reads("block cluster split_k stream_k pipeline swap_ab"), idle_clusters,
     "1, and listed numbers of blocks for each tile where the compute units hold all of them"},
    {"idle_units", 0, idle_units, "powers of two where C is too small to occupy the compute units"},
    {"fill_units", reads("block_m block_n cluster swap_ab"), fill_units,
     "the same, and the number that gives every compute unit a block"},
};

}  // namespace

std::span<const ValueSource> value_sources() { return kSources; }

}  // namespace tessera
