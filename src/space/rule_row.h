// What a file of rule rows needs: sets of families and knobs, and arithmetic that no knob value can upset.
#pragma once

#include <utility>

#include "core/tile_math.h"
#include "space/rules.h"

namespace tessera {

using V = const GemmView&;
using C = const KernelConfig&;
using A = const ArchSpec&;

template <class... F>
constexpr uint32_t family_set(F... f) {
  return ((uint32_t{1} << static_cast<int>(f)) | ...);
}

constexpr uint32_t kAnyFamily = ~uint32_t{0};
constexpr uint32_t kCpuFamilies =
    family_set(Family::cpu_packed, Family::cpu_direct, Family::cpu_dot, Family::cpu_amx, Family::cpu_groups,
               Family::cpu_winograd, Family::cpu_scatter, Family::cpu_planes, Family::cpu_winograd_weight);
constexpr uint32_t kAmdFamilies = family_set(Family::mfma, Family::wmma);
constexpr uint32_t kCudaFamilies = family_set(Family::tma_ws, Family::cp_async, Family::simt, Family::gemv);

constexpr uint64_t kAnyKnob = ~uint64_t{0};

// reads("tile_m inst"): the knobs of those names or text keys, checked while compiling.
consteval uint64_t reads(std::string_view words) {
  constexpr std::string_view names[] = {
#define TESSERA_NAME(name, key, value, doc) #name,
      TESSERA_CONFIG_FIELDS(TESSERA_NAME)
#undef TESSERA_NAME
  };
  constexpr std::string_view keys[] = {
#define TESSERA_KEY(name, key, value, doc) key,
      TESSERA_CONFIG_FIELDS(TESSERA_KEY)
#undef TESSERA_KEY
  };
  uint64_t set = 0;
  while (!words.empty()) {
    const size_t space = words.find(' ');
    const std::string_view word = words.substr(0, space);
    words.remove_prefix(space == words.npos ? words.size() : space + 1);
    uint64_t found = 0;
    for (size_t i = 0; i < std::size(names); ++i) {
      if (names[i] == word || keys[i] == word) found |= uint64_t{1} << i;
    }
    if (!found) throw "no knob of that name";
    set |= found;
  }
  return set;
}

// Whether `part` (at least 1) divides `whole`.
constexpr bool divides(int64_t part, int64_t whole) { return part >= 1 && whole % part == 0; }
inline bool shuffles_c(C c) { return c.store == static_cast<int>(Store::cshuffle); }

// Least and largest value of knob `index` of config_fields(), whatever the rest.
std::pair<int, int> knob_bounds(size_t index);

// Waves of a workgroup, and its lanes.
inline int64_t waves(C c) { return saturated_product({c.wave_m, c.wave_n, c.wave_k}); }
inline int64_t lanes(C c, A a) { return saturated_product({waves(c), a.wave_size}); }

// Whether elements in memory may be loaded `vec` at a time: along the contiguous axis, from every row and
// group.
bool vector_fits(const Operand& o, int64_t groups, int vec);

// The files of rows.
std::span<const Rule> common_rules();
std::span<const Rule> cpu_rules();
std::span<const Rule> amd_rules();
std::span<const Rule> cuda_rules();
std::span<const Rule> gpu_rules();

}  // namespace tessera
