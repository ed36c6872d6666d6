// Rules that speak about every family.
#include <algorithm>
#include <array>
#include <bit>

#include "space/family_space.h"
#include "space/rule_row.h"

namespace tessera {
namespace {

bool known_family(C c) { return c.family >= 0 && c.family < static_cast<int>(families().size()); }

// The largest value of a number; products of two knobs and an element size then fit 64 bits with room to
// spare.
constexpr int kLargestValue = 1 << 16;

constexpr uint64_t kFlags = reads("pad double_buffer preshuffle pack_a pack_b edge_dot swap_ab persistent");
constexpr uint64_t kCounts = reads("wave stages vec split_k cluster swizzle wave_groups blocks_per_cu");

// Whether every knob of `set` is at least `low` and at most what it may be.
bool within(C c, uint64_t set, int low) {
  static const auto largest = [] {
    std::array<int, 64> out{};
    for (size_t i = 0; i < config_fields().size(); ++i) out[i] = knob_bounds(i).second;
    return out;
  }();
  const auto fields = config_fields();
  for (uint64_t left = set; left != 0; left &= left - 1) {
    const size_t i = static_cast<size_t>(std::countr_zero(left));
    if (i >= fields.size()) return true;
    const int value = c.*fields[i].member;
    if (value < low || value > largest[i]) return false;
  }
  return true;
}

bool only_own_knobs(V, C c, A) {
  if (!known_family(c)) return false;
  const uint64_t own = family_space(c.family_id()).knob_set;
  const auto fields = config_fields();
  for (size_t i = 0; i < fields.size(); ++i) {
    if (!(own >> i & 1) && c.*fields[i].member != fields[i].default_value) return false;
  }
  return true;
}

bool has_instruction(V v, C c, A a) {
  if (!known_family(c)) return false;
  const FamilySpace& space = family_space(c.family_id());
  return std::any_of(a.instructions.begin(), a.instructions.end(), [&](const Instruction& i) {
    return space.issues(i, v.a.type, v.b.type, v.b_prepacked);
  });
}

bool is_instruction(V v, C c, A a) {
  if (!known_family(c)) return false;
  const Instruction* i = a.find_instruction(v.a.type, v.b.type, c);
  return i && family_space(c.family_id()).issues(*i, v.a.type, v.b.type, v.b_prepacked);
}

constexpr Rule kRules[] = {
    {"family", kAnyFamily, reads("family"),
     [](V, C c, A a) { return known_family(c) && a.runs(c.family_id()); },
     "the architecture does not run this kernel family"},
    {"types", kAnyFamily, reads("family"), has_instruction,
     "the architecture has no instruction that this family issues for these operand types (and a prepacked "
     "B, if it is)"},
    {"instruction", kAnyFamily, reads("family inst"), is_instruction,
     "inst is not the shape of an instruction that this family issues for these operand types on this "
     "architecture"},
    {"prepacked", kAnyFamily, reads("preshuffle"), [](V v, C c, A) { return c.preshuffle == v.b_prepacked; },
     "preshuffle is 1 exactly when the problem says prepack=b"},
    {"swap_prepacked", kAnyFamily, reads("swap_ab"),
     [](V v, C c, A) { return !(c.swap_ab && v.b_prepacked); },
     "swap_ab reads B in the place of A, for which a prepacked B is in the wrong order"},
    {"split_k", kAnyFamily, reads("split_k"), [](V v, C c, A) { return c.split_k <= 1 || c.split_k <= v.k; },
     "split_k exceeds k: some part would be empty"},
    {"patches", ~family_set(Family::cpu_packed, Family::cpu_amx), 0, [](V v, C, A) { return v.plain(); },
     "this family reads matrices, not patches of images; cpu_packed and cpu_amx gather them"},
    {"range", kAnyFamily, kAnyKnob & ~kFlags, [](V, C c, A) { return within(c, kAnyKnob & ~kFlags, 0); },
     "a knob is out of range: numbers are 0 to 65536, words one of those the knob knows"},
    {"flags", kAnyFamily, kFlags, [](V, C c, A) { return within(c, kFlags, 0); },
     "pad, double_buffer, preshuffle, pack_a, pack_b, edge_dot, swap_ab and persistent are 0 or 1"},
    {"counts", kAnyFamily, kCounts, [](V, C c, A) { return within(c, kCounts, 1); },
     "wave, stages, vec, split_k, cluster, swizzle, wave_groups and blocks_per_cu are at least 1"},
    {"own_knobs", kAnyFamily, kAnyKnob, only_own_knobs,
     "a knob that this family does not have is not at its default: two names would stand for one kernel"},
};

}  // namespace

std::pair<int, int> knob_bounds(size_t index) {
  const ConfigField& f = config_fields()[index];
  if (!f.names.empty()) return {0, static_cast<int>(f.names.size()) - 1};
  if (kFlags >> index & 1) return {0, 1};
  return {kCounts >> index & 1 ? 1 : 0, kLargestValue};
}

std::span<const Rule> common_rules() { return kRules; }

}  // namespace tessera
