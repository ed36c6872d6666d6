#include "core/family.h"

namespace tessera {
namespace {

constexpr std::string_view kTileKnobs[] = {"tile_m", "tile_n"};
constexpr std::string_view kDirectKnobs[] = {"tile_m", "tile_n", "swap_ab", "preshuffle"};
constexpr std::string_view kSwapKnobs[] = {"tile_m", "tile_n", "swap_ab"};

constexpr std::string_view kTmaWsKnobs[] = {"block_m", "block_n", "block_k",   "wave_m",    "wave_groups",
                                            "stages",  "store",   "cluster_m", "cluster_n", "cluster_k",
                                            "swap_ab", "split_k", "stream_k"};

constexpr std::string_view kCpAsyncKnobs[] = {"block_m", "block_n", "block_k", "wave_m",
                                              "wave_n",  "stages",  "vec_a",   "vec_b"};
constexpr std::string_view kSimtKnobs[] = {"block_m", "block_n", "block_k", "tile_m",
                                           "tile_n",  "stages",  "vec_a",   "vec_b"};
constexpr std::string_view kGemvKnobs[] = {"tile_m", "tile_n", "wave_n", "wave_k",
                                           "vec_a",  "vec_b",  "swap_ab"};

using enum BackendKind;
// In the order of Family.
constexpr FamilyInfo kFamilies[] = {
    {.family = Family::cpu_packed,
     .backend = cpu,
     .header = "cpu/packed.h",
     .doc = "register tile over panels of packed B, cache-blocked",
     .kernel_knobs = kTileKnobs,
     .compute_types = true,
     .fixed_steps = true},
    {.family = Family::cpu_direct,
     .backend = cpu,
     .header = "cpu/direct.h",
     .doc = "whole small GEMM in one call, nothing packed",
     .kernel_knobs = kDirectKnobs},
    {.family = Family::cpu_dot,
     .backend = cpu,
     .header = "cpu/dot.h",
     .doc = "dot products along a contiguous k, nothing packed",
     .kernel_knobs = kSwapKnobs},
    {.family = Family::cpu_amx,
     .backend = cpu,
     .header = "cpu/amx.h",
     .doc = "AMX tiles",
     .kernel_knobs = kSwapKnobs,
     .compute_types = true},
    {.family = Family::tma_ws,
     .backend = cuda,
     .header = "cuda/tma_ws.h",
     .doc = "TMA loads, wgmma, specialised warps",
     .kernel_knobs = kTmaWsKnobs},
    {.family = Family::cp_async,
     .backend = cuda,
     .header = "cuda/cp_async.h",
     .doc = "cp.async staging, mma.sync",
     .kernel_knobs = kCpAsyncKnobs},
    {.family = Family::simt,
     .backend = cuda,
     .header = "cuda/simt.h",
     .doc = "plain FMA",
     .kernel_knobs = kSimtKnobs},
    {.family = Family::gemv,
     .backend = cuda,
     .header = "cuda/gemv.h",
     .doc = "memory-bound, m or n at most 32",
     .kernel_knobs = kGemvKnobs},
    {.family = Family::mfma, .backend = hip, .doc = "MFMA tiles of gfx9"},
    {.family = Family::wmma, .backend = hip, .doc = "WMMA tiles of gfx11 and gfx12"},
    {.family = Family::cpu_groups,
     .backend = cpu,
     .header = "cpu/groups.h",
     .doc = "convolution, several small groups side by side in a vector",
     .kernel_knobs = kTileKnobs,
     .walks_window = true},
    {.family = Family::cpu_winograd,
     .backend = cpu,
     .header = "cpu/winograd.h",
     .doc = "convolution by minimal filtering F(2,3), stride 1",
     .kernel_knobs = kTileKnobs,
     .transforms = true},
    {.family = Family::cpu_scatter,
     .backend = cpu,
     .header = "cpu/scatter.h",
     .doc = "convolution walked backwards, its products added to sums",
     .kernel_knobs = kTileKnobs,
     .compute_types = true,
     .scatters = true},
    {.family = Family::cpu_planes,
     .backend = cpu,
     .header = "cpu/planes.h",
     .doc = "convolution of few channels, neighbouring pixels in a vector",
     .kernel_knobs = kTileKnobs,
     .sums_places = true},
    {.family = Family::cpu_winograd_weight,
     .backend = cpu,
     .header = "cpu/winograd_weight.h",
     .doc = "gradient of a filter by minimal filtering F(3,2), stride 1",
     .kernel_knobs = kTileKnobs,
     .transforms = true},
};
constexpr bool in_order() {
  for (size_t i = 0; i < std::size(kFamilies); ++i) {
    if (static_cast<size_t>(kFamilies[i].family) != i) return false;
  }
  return true;
}
static_assert(in_order());

constexpr std::string_view kBackends[] = {"cpu", "cuda", "hip"};

}  // namespace

std::span<const std::string_view> backend_names() { return kBackends; }
std::string_view to_string(BackendKind b) { return kBackends[static_cast<size_t>(b)]; }
const FamilyInfo& info(Family f) { return kFamilies[static_cast<size_t>(f)]; }
std::span<const FamilyInfo> families() { return kFamilies; }

}  // namespace tessera
