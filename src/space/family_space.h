// The space files: which knobs a family has and where their values come from. Format: docs/adding.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/arch_spec.h"
#include "core/gemm_view.h"
#include "tessera/kernel_config.h"

namespace tessera {

// Values of the fields of one KnobSpace, in their order.
using KnobValue = std::array<int, 3>;

struct FamilySpace;
struct KnobSpace;

// Where values come from. `c` holds the knobs decided so far, the others at their default.
struct ValueSource {
  std::string_view name;
  uint64_t reads;  // bit i: depends on knob i of config_fields()
  void (*values)(const GemmView& v, const ArchSpec& a, const FamilySpace& f, const KnobSpace& k,
                 const KernelConfig& c, std::vector<KnobValue>& out);
  std::string_view doc;
  bool one = false;  // there is never more than one value
};
std::span<const ValueSource> value_sources();

struct KnobSpace {
  std::string name;                        // knobs decided together, by name or by the text key they share
  std::vector<const ConfigField*> fields;  // at most three
  const ValueSource* source = nullptr;
  std::vector<KnobValue> listed;  // of sources that choose from a list
  int64_t limit = 0;              // of sources that take one
};

struct FamilySpace {
  Family family = Family::cpu_packed;
  std::vector<std::string> instructions;  // names of the instructions the family issues
  std::vector<DType> types;  // of A, when the family takes only some; empty = all its instructions take
  // Candidates are offered up to this m * n * k or up to this min(m, n); 0 = not on that account, both 0 =
  // always.
  int64_t max_work = 0, max_narrow = 0;
  std::vector<KnobSpace> knobs;      // in the order they are decided
  std::vector<std::string> leading;  // of the knobs, in their order, those that lead (leading_configs())
  uint64_t knob_set = 0;             // bit i: knob i of config_fields() is among them (or the family itself)

  bool offers(const GemmView& v) const;
  // Whether the family issues this instruction for operands of these types, with B preshuffled or not.
  bool issues(const Instruction& i, DType a, DType b, bool preshuffle) const;
};

// From space/<family>.json, loaded and validated on first use. Error(bad_input) names the file and key.
const FamilySpace& family_space(Family f);
FamilySpace parse_family_space(std::string_view json_text, std::string_view origin);

}  // namespace tessera
