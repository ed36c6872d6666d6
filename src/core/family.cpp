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
constexpr FamilyInfo kFamilies[] = {
    {Family::cpu_packed, cpu, "cpu/packed.h", "register tile over panels of packed B, cache-blocked",
     kTileKnobs, true, true, false},
    {Family::cpu_direct, cpu, "cpu/direct.h", "whole small GEMM in one call, nothing packed", kDirectKnobs,
     false, false, false},
    {Family::cpu_dot, cpu, "cpu/dot.h", "dot products along a contiguous k, nothing packed", kSwapKnobs,
     false, false, false},
    {Family::cpu_amx, cpu, "cpu/amx.h", "AMX tiles", kSwapKnobs, true, false, false},
    {Family::tma_ws, cuda, "cuda/tma_ws.h", "TMA loads, wgmma, specialised warps", kTmaWsKnobs, false, false,
     false},
    {Family::cp_async, cuda, "cuda/cp_async.h", "cp.async staging, mma.sync", kCpAsyncKnobs, false, false,
     false},
    {Family::simt, cuda, "cuda/simt.h", "plain FMA", kSimtKnobs, false, false, false},
    {Family::gemv, cuda, "cuda/gemv.h", "memory-bound, m or n at most 32", kGemvKnobs, false, false, false},
    {Family::mfma, hip, "", "MFMA tiles of gfx9", {}, false, false, false},
    {Family::wmma, hip, "", "WMMA tiles of gfx11 and gfx12", {}, false, false, false},
    {Family::cpu_groups, cpu, "cpu/groups.h", "convolution, several small groups side by side in a vector",
     kTileKnobs, false, false, true},
    {Family::cpu_winograd, cpu, "cpu/winograd.h", "convolution by minimal filtering F(2,3), stride 1",
     kTileKnobs, false, false, false, true},
    {Family::cpu_scatter, cpu, "cpu/scatter.h", "convolution walked backwards, its products added to sums",
     kTileKnobs, true, false, false, false, true},
    {Family::cpu_planes, cpu, "cpu/planes.h", "convolution of few channels, neighbouring pixels in a vector",
     kTileKnobs, false, false, false, false, false, true},
    {Family::cpu_winograd_weight, cpu, "cpu/winograd_weight.h",
     "gradient of a filter by minimal filtering F(3,2), stride 1", kTileKnobs, false, false, false, true},
};

constexpr std::string_view kBackends[] = {"cpu", "cuda", "hip"};

}  // namespace

std::string_view to_string(BackendKind b) { return kBackends[static_cast<size_t>(b)]; }
const FamilyInfo& info(Family f) { return kFamilies[static_cast<size_t>(f)]; }
std::span<const FamilyInfo> families() { return kFamilies; }

}  // namespace tessera
