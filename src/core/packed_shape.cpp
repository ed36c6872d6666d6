#include "core/packed_shape.h"

namespace tessera {

bool meets_odd_words(const GemmView& view, const KernelConfig& config, const ArchSpec& arch) {
  const Operand& a = view.a;
  const bool flips = a.type == DType::i8;
  // Beside tiles there are no vector units to spare.
  return config.pack_a && config.inst_k > 1 && bytes_of(a.type) * config.inst_k == 4 && a.plain() &&
         a.row_major() && arch.vector_bits == 512 && !(flips && arch.runs(Family::cpu_amx));
}

bool odd_words_in_place(const GemmView& view, const KernelConfig& config, const ArchSpec& arch) {
  const Operand& a = view.a;
  const int size = bytes_of(a.type), group = config.inst_k;
  if (!meets_odd_words(view, config, arch) || view.m < config.tile_m) return false;
  if (a.type != DType::i8 && view.k % group == 0) return false;
  // Rows that share few cache sets are better apart.
  constexpr int64_t kPageBytes = 4096;
  if (a.row_stride * size % kPageBytes == 0) return false;
  // A word is copied in the time of its multiplications by some columns; more than a hundredth of all those
  // may be lost on words across lines.
  const Instruction* inst = arch.find_instruction(a.type, view.b.type, config);
  const double columns_per_cycle = inst ? inst->flops_per_cycle / (2 * group) : 0;
  return static_cast<double>(view.n) <= 32 * columns_per_cycle;
}

}  // namespace tessera
