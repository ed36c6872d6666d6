// Facts of an architecture that must agree with each other.
#include <algorithm>

#include "core/arch_spec.h"
#include "core/json_values.h"
#include "core/tile_math.h"

namespace tessera {
namespace {

void check_cpu(const ArchSpec& a) {
  if (!power_of_two(a.vector_bits))
    bad_value("vector_bits: " + std::to_string(a.vector_bits) + " is not a power of two");
  if (a.features.empty()) bad_value("features: an architecture that needs no feature would match every CPU");
  if (!a.like.empty() && a.processors.vendor.empty())
    bad_value("processors: missing, and only they tell it from " + a.like);
  for (const Instruction& i : a.instructions) {
    const int vector = i.half() ? a.vector_bits / 2 : a.vector_bits;
    if (i.m == 1 && i.n * 32 != vector) {
      bad_value("instructions: " + i.name + " " + triple_text({i.m, i.n, i.k}) +
                " does not fill a vector of " + std::to_string(vector) + " bits");
    }
  }
}

void check_gpu(const ArchSpec& a) {
  if (!a.like.empty() || !a.processors.vendor.empty()) bad_value("like, processors: for CPUs");
  if (!power_of_two(a.wave_size))
    bad_value("wave_size: " + std::to_string(a.wave_size) + " is not a power of two");
  if (a.max_threads_per_block % a.wave_size) bad_value("max_threads_per_block: not a multiple of wave_size");
  if (a.backend == BackendKind::hip && (a.wave_grids.empty() || a.pipelines.empty()))
    bad_value("wave_grids, pipelines: none, so that no kernel could be planned");
  for (size_t i = 0; i < a.wave_grids.size(); ++i) {
    const Triple& g = a.wave_grids[i];
    if (int64_t{g[0]} * g[1] * g[2] * a.wave_size > a.max_threads_per_block) {
      bad_value("wave_grids: " + triple_text(g) + " exceeds max_threads_per_block");
    }
    if (std::count(a.wave_grids.begin(), a.wave_grids.end(), g) > 1)
      bad_value("wave_grids: " + triple_text(g) + " is listed twice");
  }
  for (const PipelineTraits& p : a.pipelines) {
    const std::string name = value_text(*find_config_field("pipeline"), static_cast<int>(p.pipeline));
    for (int64_t bytes : p.smem_bytes) {
      if (bytes > a.smem_bytes) bad_value("pipelines: " + name + " may use more than smem_bytes");
    }
    for (size_t i = 1; i < p.double_buffer.size(); ++i) {
      if (p.double_buffer[i] <= p.double_buffer[i - 1])
        bad_value("pipelines: " + name + ": double_buffer lists each value once, the least first");
    }
    if (a.find_pipeline(p.pipeline) != &p) bad_value("pipelines: " + name + " is listed twice");
  }
  for (auto [least, align] :
       {std::pair{&a.min_tile, &a.tile_align}, {&a.min_tile_preshuffle, &a.tile_align_preshuffle}}) {
    for (size_t i = 0; i < 3; ++i) {
      if ((*least)[i] % (*align)[i])
        bad_value("min_tile: " + triple_text(*least) + " is not aligned to " + triple_text(*align));
    }
  }
}

}  // namespace

void check_arch(const ArchSpec& a) {
  if (a.name.empty() || a.name.find_first_of(" \t\r\n/=:") != a.name.npos)
    bad_value("name: '" + a.name + "' is not one plain word");
  constexpr double kMostGhz = 20;
  if (a.clock_ghz > kMostGhz) bad_value("clock_ghz: above " + std::to_string(static_cast<int>(kMostGhz)));
  if (a.families.empty()) bad_value("families: none");
  for (Family f : a.families) {
    if (info(f).backend != a.backend) {
      bad_value("families: " + std::string(to_string(f)) + " belongs to backend " +
                std::string(to_string(info(f).backend)));
    }
    if (std::count(a.families.begin(), a.families.end(), f) > 1)
      bad_value("families: " + std::string(to_string(f)) + " is listed twice");
  }
  if (a.instructions.empty()) bad_value("instructions: none");
  for (size_t i = 0; i < a.instructions.size(); ++i) {
    const Instruction& x = a.instructions[i];
    if (x.name.empty()) bad_value("instructions: a row without a name");
    if (!(x.flops_per_cycle > 0)) bad_value("instructions: " + x.name + " does nothing in a cycle");
    for (size_t j = 0; j < i; ++j) {
      const Instruction& y = a.instructions[j];
      if (x.a == y.a && x.b == y.b && x.m == y.m && x.n == y.n && x.k == y.k) {
        bad_value("instructions: " + triple_text({x.m, x.n, x.k}) + " for " + std::string(to_string(x.a)) +
                  " x " + std::string(to_string(x.b)) + " is listed twice");
      }
    }
  }
  if (a.l3.bytes_per_core > a.l3.bytes) bad_value("l3: bytes_per_core: more than the cache's bytes");
  const int l1_count = a.backend == BackendKind::cpu ? 1 : a.compute_units;
  if (a.dram.bytes_per_cycle > std::min(a.l1.bytes_per_cycle * l1_count, a.l2.bytes_per_cycle)) {
    bad_value("dram: faster than a cache");
  }
  a.backend == BackendKind::cpu ? check_cpu(a) : check_gpu(a);
}

}  // namespace tessera
