// What a device can do: one JSON file in arch/ per architecture, nothing about an architecture anywhere else.
// Format: docs/adding_an_architecture.md.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/family.h"
#include "tessera/dtype.h"
#include "tessera/json.h"
#include "tessera/kernel_config.h"

namespace tessera {

// An m x n x k multiply-accumulate of one instruction. On a CPU a vector FMA is 1 x lanes x 1, a dot-product
// instruction 1 x lanes x group, a tile instruction 16 x 16 x depth.
struct Instruction {
  std::string name;  // "fma", "dpbf16", "vnni", "amx", "mfma", "wgmma", ...
  DType a = DType::f32, b = DType::f32, acc = DType::f32;
  int m = 0, n = 0, k = 0;
  double flops_per_cycle = 0;  // per compute unit, 2 per multiply-add; 0 = not known
  bool preshuffle = false;     // may also be used with preshuffled B (AMD tables)
};

struct CacheLevel {
  int64_t bytes = 0;           // per core (L1, L2) or shared (L3)
  double bytes_per_cycle = 0;  // read bandwidth of one core from this level
};

struct ArchSpec {
  std::string name;
  std::string description;
  BackendKind backend = BackendKind::cpu;
  std::vector<Family> families;           // that this architecture runs
  std::vector<Instruction> instructions;
  double clock_ghz = 0;                   // nominal; only scales predicted times
  int compute_units = 1;                  // cores used, SMs or CUs. Set from the device or the dispatcher's threads

  // CPU
  int rank = 0;                           // among the architectures a CPU satisfies the highest rank is detected
  std::vector<std::string> features;      // /proc/cpuinfo flags it needs
  std::vector<std::string> compile_flags; // for g++ and clang++
  int vector_bits = 0, vector_registers = 0;
  CacheLevel l1, l2, l3, dram;            // dram.bytes unused

  // GPU
  int wave_size = 0;                      // lanes of a wave (warp)
  int max_threads_per_block = 0;
  int64_t smem_bytes = 0;                 // shared memory one workgroup may use
  int registers_per_thread = 0;
  int max_cluster = 1;
  int compute_capability = 0;             // CUDA: 90 for sm_90a
  std::vector<std::array<int, 3>> wave_grids;              // allowed (wave_m, wave_n, wave_k); empty = any
  std::vector<std::pair<Pipeline, int64_t>> smem_limits;   // by pipeline; others may use smem_bytes
  struct Traits {
    Pipeline pipeline;
    Store store;
    Scheduler scheduler;
    bool operator==(const Traits&) const = default;
  };
  std::vector<Traits> forbidden_traits;
  std::array<int, 3> min_tile{1, 1, 1};            // least block m, n, k
  std::array<int, 3> min_tile_preshuffle{1, 1, 1};

  // Fitted constants of the analytic model, by name; see src/model/analytic.cpp for their meaning and units.
  std::vector<std::pair<std::string, double>> costs;

  double cost(std::string_view name) const;  // Error(internal) when the file lacks it
  bool runs(Family f) const;
  // Instructions for operands of these types; empty when the type combination is not supported.
  std::vector<const Instruction*> instructions_for(DType a, DType b) const;
  // The one `c` names for these types, or null.
  const Instruction* find_instruction(DType a, DType b, const KernelConfig& c) const;
  int64_t smem_limit(Pipeline p) const;
};

// Unknown, missing and duplicate keys, unknown words and inconsistent values are refused: Error(bad_input).
ArchSpec parse_arch(std::string_view json_text, std::string_view origin);
Json to_json(const ArchSpec& a);

// The architectures embedded in this binary (arch/*.json), loaded and validated on first use, ordered by name.
std::span<const ArchSpec> all_archs();
// Error(bad_input) with the known names (and the nearest one) when there is none of that name.
const ArchSpec& find_arch(std::string_view name);

// The best embedded CPU architecture whose features the running processor has, with its core count and cache sizes.
ArchSpec detect_cpu();

}  // namespace tessera
