// What kernels of the families gemv, simt and cp_async cost: blocks that each compute one tile, several of
// them sharing a multiprocessor.
#pragma once

#include "core/arch_spec.h"
#include "core/gemm_view.h"
#include "model/view_memo.h"
#include "tessera/kernel_config.h"

namespace tessera {

// In clock cycles of one multiprocessor, from ArchSpec::costs.
#define TESSERA_BLOCK_COSTS(X)                                                               \
  X(gemv_launch, "gemv: a launch, first loads and last stores")                              \
  X(gemv_latency, "from asking memory to having it")                                         \
  X(gemv_dram_bytes, "per cycle from memory")                                                \
  X(gemv_unit_bytes, "per cycle that one multiprocessor loads")                              \
  X(gemv_unaligned, "times the loads of lines that start anywhere")                          \
  X(gemv_convert, "of the loads of 8-bit floats once more, to convert them")                 \
  X(gemv_narrow, "times the loads of the narrow operand, which come from L1")                \
  X(gemv_across, "times the loads of an operand that is streamed across k")                  \
  X(gemv_gather, "times the loads of a narrow operand across k")                             \
  X(gemv_overlap, "how well blocks hide memory: the exponent of their norm")                 \
  X(gemv_split, "meeting of the parts of k")                                                 \
  X(gemv_split_bytes, "per cycle of partial sums")                                           \
  X(block_launch, "simt and cp_async: a launch, first loads and last stores")                \
  X(block_latency, "from asking memory to having it")                                        \
  X(block_dram_bytes, "per cycle from memory")                                               \
  X(block_unit_bytes, "per cycle that one multiprocessor loads")                             \
  X(block_unaligned, "times the loads of lines that start anywhere")                         \
  X(block_convert, "cp_async: 16 bytes of 8-bit floats, to the thread that converts them")   \
  X(block_combine, "cp_async: 16 bytes that start anywhere, to the thread that brings them") \
  X(block_overlap, "how well blocks hide memory: the exponent of their norm")                \
  X(block_split, "meeting of the parts of k")                                                \
  X(block_split_bytes, "per cycle of partial sums")                                          \
  X(block_mma, "times the ideal multiplication on tensor cores")                             \
  X(block_fma, "times the ideal multiplication on plain units")

struct BlockCosts {
  explicit BlockCosts(
      const ArchSpec& a);  // zeros where no such family runs; Error(internal) when one is missing
#define TESSERA_BLOCK_COST(name, doc) double name = 0;
  TESSERA_BLOCK_COSTS(TESSERA_BLOCK_COST)
#undef TESSERA_BLOCK_COST
};

// `c` must be legal and of one of these families. No allocation.
double block_cycles(const GemmView& v, const KernelConfig& c, const ArchSpec& a, const BlockCosts& t,
                    ViewMemo& memo);

}  // namespace tessera
