#include "core/family.h"

namespace tessera {
namespace {

constexpr std::string_view kCpuLaunchOnly[] = {"block_m",    "block_n", "block_k",
                                               "preshuffle", "split_k", "raster"};

using enum BackendKind;
constexpr FamilyInfo kFamilies[] = {
    {Family::cpu_packed, cpu, "cpu/packed.h", "register tile over panels of packed B, cache-blocked",
     kCpuLaunchOnly},
    {Family::cpu_direct, cpu, "cpu/direct.h", "whole small GEMM in one call, nothing packed", kCpuLaunchOnly},
    {Family::cpu_dot, cpu, "cpu/dot.h", "dot products along a contiguous k, nothing packed", kCpuLaunchOnly},
    {Family::cpu_amx, cpu, "cpu/amx.h", "AMX tiles", kCpuLaunchOnly},
    {Family::tma_ws, cuda, "", "TMA loads, wgmma, specialised warps", {}},
    {Family::cp_async, cuda, "", "cp.async staging, mma.sync", {}},
    {Family::simt, cuda, "", "plain FMA", {}},
    {Family::gemv, cuda, "", "memory-bound, m or n at most 16", {}},
    {Family::mfma, hip, "", "MFMA tiles of gfx9", {}},
    {Family::wmma, hip, "", "WMMA tiles of gfx11 and gfx12", {}},
};

constexpr std::string_view kBackends[] = {"cpu", "cuda", "hip"};

}  // namespace

std::string_view to_string(BackendKind b) { return kBackends[static_cast<size_t>(b)]; }
const FamilyInfo& info(Family f) { return kFamilies[static_cast<size_t>(f)]; }
std::span<const FamilyInfo> families() { return kFamilies; }

KernelConfig source_config(const KernelConfig& c) {
  KernelConfig out = c;
  for (std::string_view name : info(c.family_id()).launch_only) {
    const ConfigField* f = find_config_field(name);
    out.*f->member = f->default_value;
  }
  return out;
}

}  // namespace tessera
