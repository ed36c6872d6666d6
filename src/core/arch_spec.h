// What a device can do: one JSON file in arch/ per architecture, nothing about an architecture anywhere else.
// Format: docs/adding.md.
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
  double flops_per_cycle = 0;  // per compute unit, 2 per multiply-add
  int sum_bits = 24;           // that sums of products keep: 24 is f32 arithmetic
  bool standard = true;        // may be used with B as the caller stores it
  bool preshuffle = true;      // may be used with B in the kernel's own order

  // Of half a vector, on processors that issue two of them as fast as a whole one.
  bool half() const { return name.ends_with("_half"); }
  // What it does, halves or not.
  std::string_view operation() const {
    return std::string_view(name).substr(0, name.size() - (half() ? 5 : 0));
  }

  bool operator==(const Instruction&) const = default;
};

// CPU: bytes per core (L1, L2) or shared (L3), bandwidth of one core. GPU: L1 per compute unit, the others
// per device.
struct CacheLevel {
  int64_t bytes = 0;
  double bytes_per_cycle = 0;  // read bandwidth
  int64_t bytes_per_core = 0;  // that one core can count on while others work; 0: all of them

  bool operator==(const CacheLevel&) const = default;
};

// What may be combined with a pipeline. A pipeline without a row is not available.
struct PipelineTraits {
  Pipeline pipeline = Pipeline::none;
  std::vector<Scheduler> schedulers;
  std::vector<Store> stores;
  std::vector<int> double_buffer;   // allowed values of the knob
  std::vector<int64_t> smem_bytes;  // what one buffer of A and B may take, for each value of double_buffer
  std::vector<int> split_image;     // 1: operands beyond 32-bit offsets may be split (convolutions)

  bool operator==(const PipelineTraits&) const = default;
};

// Processors by maker and family, in the words and numbers of /proc/cpuinfo.
struct Processors {
  std::string vendor;
  std::vector<int> families;

  bool operator==(const Processors&) const = default;
};

struct ArchSpec {
  std::string name;
  std::string description;
  std::string like;    // the architecture whose instructions, and so kernels, it shares; "" = none
  std::string models;  // the architecture whose learned models serve it; its own name where not told
  BackendKind backend = BackendKind::cpu;
  std::vector<Family> families;  // that this architecture runs
  std::vector<Instruction> instructions;
  double clock_ghz = 0;   // nominal; only scales predicted times
  int compute_units = 1;  // cores used, SMs or CUs. Set from the device or the dispatcher's threads

  // CPU
  int rank = 0;                       // among the architectures a CPU satisfies the highest rank is detected
  std::vector<std::string> features;  // /proc/cpuinfo flags it needs
  Processors processors;              // that it describes; no vendor = all with the features
  std::vector<std::string> compile_flags;  // for g++ and clang++
  int vector_bits = 0, vector_registers = 0;
  int group_channels = 0;  // that cpu_groups may spread over whole vectors, if more than their lanes

  // Typical sizes and bandwidths
  CacheLevel l1, l2, l3, dram;  // dram.bytes unused

  // GPU
  int wave_size = 0;  // lanes of a wave (warp)
  int max_threads_per_block = 0;
  int64_t smem_bytes = 0;  // shared memory one workgroup may use
  int registers_per_thread = 0;
  int max_cluster = 1;
  int compute_capability = 0;                  // CUDA: 10 * major + minor
  std::string f8_encoding;                     // "ocp" or "fnuz" where 8-bit floats are native, else ""
  std::vector<std::array<int, 3>> wave_grids;  // allowed (wave_m, wave_n, wave_k); empty = any
  std::vector<PipelineTraits> pipelines;
  std::array<int, 3> min_tile{1, 1, 1};             // least block m, n, k
  std::array<int, 3> tile_align{1, 1, 1};           // of which block m, n, k are multiples
  std::array<int, 3> min_tile_preshuffle{1, 1, 1};  // the same with preshuffled B
  std::array<int, 3> tile_align_preshuffle{1, 1, 1};

  // Fitted constants of the analytic model, by name; see src/model/work.h and the other heads there that
  // name costs (tma_ws.h, cuda_blocks.h, amd_blocks.h) for their meaning and units.
  std::vector<std::pair<std::string, double>> costs;

  double cost(std::string_view name) const;  // Error(internal) when the file lacks it
  bool runs(Family f) const;
  // Instructions for operands of these types; empty when the type combination is not supported.
  std::vector<const Instruction*> instructions_for(DType a, DType b) const;
  // The one `c` names for these types, or null.
  const Instruction* find_instruction(DType a, DType b, const KernelConfig& c) const;
  // Whether half a vector of what `i` does takes half the time.
  bool issues_halves(const Instruction& i) const;
  const PipelineTraits* find_pipeline(Pipeline p) const {  // null when not available
    for (const PipelineTraits& row : pipelines) {
      if (row.pipeline == p) return &row;
    }
    return nullptr;
  }
  // Bytes that one buffer of staged A and B may take; smem_bytes where no table says less.
  int64_t smem_limit(Pipeline p, int double_buffer) const;

  bool operator==(const ArchSpec&) const = default;
};

// Unknown, missing and duplicate keys, unknown words and inconsistent values are refused: Error(bad_input).
ArchSpec parse_arch(std::string_view json_text, std::string_view origin);
Json to_json(const ArchSpec& a);
// Error(bad_input), naming the key, when facts contradict each other.
void check_arch(const ArchSpec& a);

// The architectures embedded in this binary (arch/*.json), loaded and validated on first use, ordered by
// name.
std::span<const ArchSpec> all_archs();
// Error(bad_input) with the known names (and the nearest one) when there is none of that name.
const ArchSpec& find_arch(std::string_view name);

// What a processor says of itself, in /proc/cpuinfo's words.
struct Processor {
  std::string name, vendor;  // "" when the system does not say
  int family = 0;
  std::vector<std::string> features;
};

// The running one; features of AMX only where the kernel grants it.
Processor this_processor();

// Features that an architecture needs and a processor lacks.
std::vector<std::string> missing_features(const ArchSpec& a, const Processor& p);

// The highest-ranked embedded CPU architecture that needs no other features than this processor's and
// describes processors of its kind. Error(unsupported) when there is none.
const ArchSpec& best_cpu_arch(const Processor& p);

// best_cpu_arch of the running processor, or the lesser one that TESSERA_ARCH names, with its core count and
// cache sizes.
ArchSpec detect_cpu();

}  // namespace tessera
