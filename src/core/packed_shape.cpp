#include "core/packed_shape.h"

namespace tessera {

OddWords odd_words(const GemmView& view, const KernelConfig& config, const ArchSpec& arch) {
  const Operand& a = view.a;
  const int size = bytes_of(a.type), group = config.inst_k;
  const bool flips = a.type == DType::i8 && group == 4, rest = group > 1 && view.k % group != 0;
  if (!config.pack_a || !(flips || rest) || size * group != 4 || !a.plain() || !a.row_major() ||
      view.m < config.tile_m)
    return {};
  // Rows that share few cache sets are better apart, and beside tiles there are no vector units to spare.
  constexpr int64_t kPageBytes = 4096;
  if (a.row_stride * size % kPageBytes == 0 || (flips && arch.runs(Family::cpu_amx))) return {};
  // A word is copied in the time of its multiplications by some columns; more than a hundredth of all those
  // may be lost on words across lines.
  const Instruction* inst = arch.find_instruction(a.type, view.b.type, config);
  const double columns_per_cycle = inst ? inst->flops_per_cycle / (2 * group) : 0;
  if (static_cast<double>(view.n) > 32 * columns_per_cycle) return {};
  return {true, flips, rest};
}

}  // namespace tessera
