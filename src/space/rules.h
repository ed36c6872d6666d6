// Rules: named conditions on (view, config, arch) with the reason in words. The legal set is what no rule
// rejects.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/arch_spec.h"
#include "core/gemm_view.h"
#include "tessera/kernel_config.h"

namespace tessera {

struct Rule {
  std::string_view name;
  uint32_t families;  // bit f: speaks about Family f
  uint64_t reads;  // bit i: depends on knob i of config_fields(). Enumeration applies a rule once these are
                   // decided
  bool (*allows)(const GemmView& v, const KernelConfig& c, const ArchSpec& a);
  std::string_view reason;  // why a config that is not allowed cannot run
  bool each = false;        // asks no more than that every knob is within its knob_bounds(), and one that the
                            // family does not have at its default

  bool speaks_of(int family) const { return family >= 0 && family < 32 && (families >> family & 1); }
};

// Every rule. Each is a function of its arguments alone, safe on any int in any knob, so their order changes
// which reason is given, never the answer.
std::span<const Rule> rules();

// The first rule that refuses, or null when `c` is legal.
const Rule* rejected_by(const GemmView& v, const KernelConfig& c, const ArchSpec& a);

}  // namespace tessera
