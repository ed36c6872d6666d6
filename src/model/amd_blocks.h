// What kernels of the families mfma and wmma cost: workgroups that each compute one tile of C, several of
// them sharing a compute unit.
#pragma once

#include "core/arch_spec.h"
#include "core/gemm_view.h"
#include "model/view_memo.h"
#include "tessera/kernel_config.h"

namespace tessera {

// In clock cycles of one compute unit, from ArchSpec::costs.
#define TESSERA_AMD_COSTS(X)                                                                      \
  X(amd_launch, "a launch, until its first workgroup runs")                                       \
  X(amd_workgroup, "starting a workgroup, and its addresses")                                     \
  X(amd_units, "SIMD units of a compute unit, each of which multiplies for its own waves")        \
  X(amd_registers, "32-bit registers that a unit has for each lane of its waves together")        \
  X(amd_waves, "that a unit holds at most")                                                       \
  X(amd_lds_bytes, "per cycle between shared memory and registers")                               \
  X(amd_l2_share, "of the rate of L2 that workgroups reach")                                      \
  X(amd_latency, "from asking memory to having it")                                               \
  X(amd_barrier, "the waves of a workgroup waiting for each other")                               \
  X(amd_issue, "of a unit, beside each matrix instruction, that other instructions take from it") \
  X(amd_narrow, "times the time of a load, for each halving of the widest one")

struct AmdCosts {
  explicit AmdCosts(
      const ArchSpec& a);  // zeros where no such family runs; Error(internal) when one is missing
#define TESSERA_AMD_COST(name, doc) double name = 0;
  TESSERA_AMD_COSTS(TESSERA_AMD_COST)
#undef TESSERA_AMD_COST
};

// `c` must be legal and of one of these families. No allocation.
double amd_cycles(const GemmView& v, const KernelConfig& c, const ArchSpec& a, const AmdCosts& t,
                  ViewMemo& memo);

}  // namespace tessera
