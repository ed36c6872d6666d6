#include "space/rules.h"

#include <vector>

#include "space/rule_row.h"

namespace tessera {

std::span<const Rule> rules() {
  static const auto& all = *new std::vector<Rule>([] {  // for threads while the process ends
    std::vector<Rule> out;
    for (auto rows : {common_rules(), cpu_rules(), gpu_rules(), amd_rules(), cuda_rules()})
      out.insert(out.end(), rows.begin(), rows.end());
    return out;
  }());
  return all;
}

const Rule* rejected_by(const GemmView& v, const KernelConfig& c, const ArchSpec& a) {
  for (const Rule& rule : rules()) {
    if ((rule.families == kAnyFamily || rule.speaks_of(c.family)) && !rule.allows(v, c, a)) return &rule;
  }
  return nullptr;
}

}  // namespace tessera
