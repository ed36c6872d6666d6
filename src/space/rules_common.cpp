// Rules that speak about every family.
#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <vector>

#include "space/family_space.h"
#include "space/rule_row.h"

namespace tessera {
namespace {

bool known_family(C c) { return c.family >= 0 && c.family < static_cast<int>(families().size()); }

// The largest value of a number; products of two knobs and an element size then fit 64 bits with room to
// spare.
constexpr int kLargestValue = 1 << 16;

constexpr uint64_t kFlags = reads("pad double_buffer preshuffle pack_a pack_b edge_dot swap_ab persistent");
constexpr uint64_t kCounts =
    reads("wave stages vec split_k cluster cluster_k swizzle wave_groups blocks_per_cu");

constexpr size_t kKnobs = sizeof(KernelConfig) / sizeof(int);
using Knobs = std::array<int, kKnobs>;

// Bounds of every knob, those outside `set` left free: compared without a branch, for this is asked of every
// candidate.
struct Bounds {
  Knobs low, high;

  Bounds(uint64_t set, int least) {
    for (size_t i = 0; i < kKnobs; ++i) {
      const bool bound = set >> i & 1;
      low[i] = bound ? least : std::numeric_limits<int>::min();
      high[i] = bound ? knob_bounds(i).second : std::numeric_limits<int>::max();
    }
  }

  bool hold(C c) const {
    const auto knobs = std::bit_cast<Knobs>(c);
    int outside = 0;
    for (size_t i = 0; i < kKnobs; ++i) outside |= int{knobs[i] < low[i]} | int{knobs[i] > high[i]};
    return outside == 0;
  }
};

// Whether every knob of kSet is at least kLeast and at most what it may be.
template <uint64_t kSet, int kLeast>
bool within(V, C c, A) {
  static const Bounds bounds(kSet, kLeast);
  return bounds.hold(c);
}

// Per family, all bits of the knobs it does not have.
std::vector<Knobs> foreign_knobs() {
  std::vector<Knobs> out;
  for (const FamilyInfo& family : families()) {
    Knobs mask{};
    const uint64_t own = family_space(family.family).knob_set;
    for (size_t i = 0; i < kKnobs; ++i) mask[i] = own >> i & 1 ? 0 : -1;
    out.push_back(mask);
  }
  return out;
}

bool only_own_knobs(V, C c, A) {
  if (!known_family(c)) return false;
  static const auto& foreign =
      *new std::vector<Knobs>(foreign_knobs());  // for threads while the process ends
  static const Knobs defaults = std::bit_cast<Knobs>(KernelConfig{});
  const Knobs& mask = foreign[static_cast<size_t>(c.family)];
  const auto knobs = std::bit_cast<Knobs>(c);
  int moved = 0;
  for (size_t i = 0; i < kKnobs; ++i) moved |= (knobs[i] ^ defaults[i]) & mask[i];
  return moved == 0;
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

constexpr Rule kCommonRules[] = {
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
    {"swap_prepacked", ~family_set(Family::tma_ws, Family::cpu_dot, Family::cpu_direct), reads("swap_ab"),
     [](V v, C c, A) { return !(c.swap_ab && v.b_prepacked); },
     "swap_ab reads B in the place of A, for which a prepacked B is in the wrong order"},
    {"split_k", kAnyFamily, reads("split_k"), [](V v, C c, A) { return c.split_k <= 1 || c.split_k <= v.k; },
     "split_k exceeds k: some part would be empty"},
    {"patches", ~kCpuFamilies | family_set(Family::cpu_direct, Family::cpu_dot), 0,
     [](V v, C, A) { return v.plain(); },
     "this family reads matrices, not patches of images; cpu_packed and cpu_amx gather them, cpu_groups "
     "walks them"},
    {"channels_first", ~kCpuFamilies, 0, [](V v, C, A) { return !v.channels_first; },
     "this backend does not bring tensors with their channels first into the order of its kernels; give it "
     "layout=channels_last"},
    {"bias_grad", ~kCpuFamilies, 0, [](V v, C, A) { return !v.bias_grad; },
     "this backend does not sum the gradient of the bias beside that of the filter"},
    {"range", kAnyFamily, kAnyKnob & ~kFlags, within<kAnyKnob & ~kFlags, 0>,
     "a knob is out of range: numbers are 0 to 65536, words one of those the knob knows", true},
    {"flags", kAnyFamily, kFlags, within<kFlags, 0>,
     "pad, double_buffer, preshuffle, pack_a, pack_b, edge_dot, swap_ab and persistent are 0 or 1", true},
    {"counts", kAnyFamily, kCounts, within<kCounts, 1>,
     "wave, stages, vec, split_k, cluster, cluster_k, swizzle, wave_groups and blocks_per_cu are at least 1",
     true},
    {"own_knobs", kAnyFamily, kAnyKnob, only_own_knobs,
     "a knob that this family does not have is not at its default: two names would stand for one kernel",
     true},
};

}  // namespace

std::pair<int, int> knob_bounds(size_t index) {
  const ConfigField& f = config_fields()[index];
  if (!f.names.empty()) return {0, static_cast<int>(f.names.size()) - 1};
  if (kFlags >> index & 1) return {0, 1};
  return {kCounts >> index & 1 ? 1 : 0, kLargestValue};
}

std::span<const Rule> common_rules() { return kCommonRules; }

}  // namespace tessera
