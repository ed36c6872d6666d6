// Where the values of a knob come from: a list, the architecture or the problem.
#include <algorithm>

#include "core/tile_math.h"
#include "space/family_space.h"

namespace tessera {
namespace {

using Out = std::vector<KnobValue>;

#define TESSERA_SOURCE(name)                                                                        \
  void name([[maybe_unused]] const GemmView& v, [[maybe_unused]] const ArchSpec& a,                 \
            [[maybe_unused]] const FamilySpace& f, [[maybe_unused]] const KnobSpace& k,             \
            [[maybe_unused]] const KernelConfig& c, Out& out)

TESSERA_SOURCE(list) { out = k.listed; }

TESSERA_SOURCE(instructions) {
  for (const Instruction& i : a.instructions) {
    if (f.issues(i, v.a.type, v.b.type, v.b_prepacked)) out.push_back({i.m, i.n, i.k});
  }
}

TESSERA_SOURCE(wave_grids) {
  for (const auto& grid : a.wave_grids) out.push_back(grid);
}

// Register tiles. Of those that cover all rows only the least is worth a candidate; so with columns.
TESSERA_SOURCE(tiles) {
  const int64_t rows = rows_of(v, c), cols = cols_of(v, c);
  for (const KnobValue& t : k.listed) {
    const bool wasteful = std::any_of(k.listed.begin(), k.listed.end(), [&](const KnobValue& o) {
      if (o[1] == t[1]) return rows <= o[0] && o[0] < t[0];
      return o[1] % std::max(c.inst_n, 1) == 0 && cols <= o[1] && o[1] < t[1];
    });
    if (!wasteful) out.push_back(t);
  }
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

TESSERA_SOURCE(prepacked) { out.push_back({v.b_prepacked}); }

// 1 is worth a candidate where C is narrower than `limit` and than its height.
TESSERA_SOURCE(narrow) {
  out.push_back({0});
  if (v.n < k.limit && v.n < v.m && !v.b_prepacked) out.push_back({1});
}

// Parts of k where C alone cannot occupy the compute units: powers of two up to `limit`, each part of 64 or more.
TESSERA_SOURCE(idle_units) {
  const double c_tiles = static_cast<double>(v.groups) * ceil_div(v.m, 64) * ceil_div(v.n, 64);
  for (int64_t parts = 1; parts <= std::max<int64_t>(k.limit, 1); parts *= 2) {
    if (parts > 1 && (c_tiles * parts / 2 >= a.compute_units || v.k < 64 * parts)) break;
    out.push_back({static_cast<int>(parts)});
  }
}

constexpr ValueSource kSources[] = {
    {"list", false, list, "the values of the file"},
    {"instructions", false, instructions, "the architecture's instructions for these operand types"},
    {"wave_grids", false, wave_grids, "the architecture's wave grids"},
    {"tiles", true, tiles, "listed register tiles, without those a smaller one makes wasteful"},
    {"blocks", true, blocks, "listed cache blocks, 0 where they cover the whole extent"},
    {"prepacked", false, prepacked, "1 exactly when the problem's B is prepacked"},
    {"narrow", false, narrow, "0, and 1 where C has fewer columns than the limit"},
    {"idle_units", false, idle_units, "powers of two where C is too small to occupy the compute units"},
};

}  // namespace

std::span<const ValueSource> value_sources() { return kSources; }

}  // namespace tessera
