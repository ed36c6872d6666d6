// One flat struct of tunable knobs. TESSERA_CONFIG_FIELDS is the only list of them: the struct, equality,
// hash, text, JSON, SQLite columns, the `Config` prelude that kernels see and the space files all follow from
// it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tessera/json.h"

namespace tessera {

// Values of the enumerated knobs. Text names are in kernel_config.cpp, in the same order. New ones come last:
// models learned from the numbers, and databases keep them.
enum class Family : int {
  cpu_packed,
  cpu_direct,
  cpu_dot,
  cpu_amx,
  tma_ws,
  cp_async,
  simt,
  gemv,
  mfma,
  wmma,
  cpu_groups,
  cpu_winograd,
  cpu_scatter,
  cpu_planes,
  cpu_winograd_weight
};
enum class Pipeline : int {
  none,
  basic_v1,
  mem,
  compv3,
  compv4,
  compv5,
  compv6,
  wavelet,
  preshufflev2,
  comp_async,
  basic_async_v1,
  cooperative,
  pingpong
};
enum class Scheduler : int { none, intrawave, interwave };
// How results leave: from registers, or rearranged through shared memory.
enum class Store : int { direct, cshuffle };
// Which way consecutive blocks walk over C.
enum class Raster : int { along_n, along_m };

// X(name, text key, default, doc). Fields in a row that share a key print joined by 'x': block=96x512x256.
// Defaults are frozen: they are left out of the text, so changing one would rename stored configs.
#define TESSERA_CONFIG_FIELDS(X)                                                          \
  X(family, "family", 0, "kernel template")                                               \
  X(block_m, "block", 0, "rows of C per workgroup, or per cache block of a core")         \
  X(block_n, "block", 0, "columns of C per workgroup or cache block")                     \
  X(block_k, "block", 0, "depth staged at a time")                                        \
  X(tile_m, "tile", 0, "rows of C one core keeps in registers (CPU)")                     \
  X(tile_n, "tile", 0, "columns of C one core keeps in registers (CPU)")                  \
  X(wave_m, "wave", 1, "waves (warps) of a workgroup along m")                            \
  X(wave_n, "wave", 1, "waves along n")                                                   \
  X(wave_k, "wave", 1, "waves along k")                                                   \
  X(inst_m, "inst", 0, "rows of the (matrix) instruction")                                \
  X(inst_n, "inst", 0, "columns of the instruction")                                      \
  X(inst_k, "inst", 0, "depth of the instruction")                                        \
  X(stages, "stages", 1, "buffers in the staging ring")                                   \
  X(pipeline, "pipeline", 0, "how loads, staging and math overlap")                       \
  X(scheduler, "scheduler", 0, "instruction scheduling between waves")                    \
  X(store, "store", 0, "epilogue style: direct from registers or through shared memory")  \
  X(vec_a, "vec", 1, "elements per load of A")                                            \
  X(vec_b, "vec", 1, "elements per load of B")                                            \
  X(vec_c, "vec", 1, "elements per store of C")                                           \
  X(pad_m, "pad", 1, "1: m need not divide into blocks")                                  \
  X(pad_n, "pad", 1, "1: n need not divide into blocks")                                  \
  X(pad_k, "pad", 1, "1: k need not divide into blocks")                                  \
  X(double_buffer, "double_buffer", 0, "1: two shared-memory buffers per operand")        \
  X(preshuffle, "preshuffle", 0, "1: B comes packed in the kernel's own order")           \
  X(pack_a, "pack_a", 0, "1: A is copied into panels first")                              \
  X(pack_b, "pack_b", 1, "0: B is read where it lies, not copied into panels first")      \
  X(edge_dot, "edge_dot", 0, "1: columns past whole vectors are dot products along k")    \
  X(swap_ab, "swap_ab", 0, "1: computes C^T = B^T A^T")                                   \
  X(split_k, "split_k", 1, "parts of k computed apart and added in order")                \
  X(stream_k, "stream_k", 0, "1: k of the blocks that fill no round is dealt out evenly") \
  X(persistent, "persistent", 0, "1: one workgroup per compute unit walks over blocks")   \
  X(cluster_m, "cluster", 1, "workgroups of a cluster along m")                           \
  X(cluster_n, "cluster", 1, "workgroups of a cluster along n")                           \
  X(cluster_k, "cluster_k", 1, "workgroups of a cluster that add up parts of k")          \
  X(raster, "raster", 0, "order in which blocks are walked")                              \
  X(swizzle, "swizzle", 1, "blocks per raster band")                                      \
  X(wave_groups, "wave_groups", 1, "groups of waves that alternate")                      \
  X(blocks_per_cu, "blocks_per_cu", 1, "workgroups meant to share a compute unit")

struct KernelConfig {
#define TESSERA_DECLARE(name, key, value, doc) int name = value;
  TESSERA_CONFIG_FIELDS(TESSERA_DECLARE)
#undef TESSERA_DECLARE

  Family family_id() const { return static_cast<Family>(family); }

  bool operator==(const KernelConfig&) const = default;

  // "cpu_packed block=96x512x256 tile=6x64 inst=1x16x1": the family, then every knob that is not at its
  // default. nullopt with the reason in *why, where that is wanted.
  static std::optional<KernelConfig> parse(std::string_view text, std::string* why = nullptr);
  // The same; throws Error(bad_input) with the text and the reason.
  static KernelConfig read(std::string_view text);
};

struct ConfigField {
  std::string_view name;
  std::string_view key;
  int KernelConfig::*member;
  int default_value;
  std::string_view doc;
  std::span<const std::string_view> names;  // of an enumerated knob's values; empty for numbers
};

std::span<const ConfigField> config_fields();
const ConfigField* find_config_field(std::string_view name);
// A knob's value as a config's text has it: the name of an enumerated one's, else the number.
std::string value_text(const ConfigField& f, int value);
// The other way; nullopt for an unknown name, and for what is no whole number from 0 to 2^24.
std::optional<int> parse_value(const ConfigField& f, std::string_view text);

std::string to_string(const KernelConfig& c);
std::string_view to_string(Family f);
std::optional<Family> parse_family(std::string_view text);
uint64_t hash(const KernelConfig& c);

// {"family": "cpu_packed", "block_m": 96, ...}: every knob. from_json refuses unknown keys and wrong values.
Json to_json(const KernelConfig& c);
KernelConfig config_from_json(const Json& j);

}  // namespace tessera
