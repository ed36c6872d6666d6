#include "core/packed_shape.h"

#include <algorithm>

#include "core/cache_line.h"
#include "core/scatter_shape.h"
#include "core/tile_math.h"

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
  if (a.row_stride * size % kPageBytes == 0) return false;
  // A word is copied in the time of its multiplications by some columns; more than a hundredth of all those
  // may be lost on words across lines.
  const Instruction* inst = arch.find_instruction(a.type, view.b.type, config);
  const double columns_per_cycle = inst ? inst->flops_per_cycle / (2 * group) : 0;
  return static_cast<double>(view.n) <= 32 * columns_per_cycle;
}

// A vector of columns takes a cycle of each row and word, its dot products as long for each vector along k
// and to add up lanes.
bool words_at_edge(const GemmView& view, const KernelConfig& config, const ArchSpec& arch) {
  constexpr int64_t kMostColumns = 640;
  const Instruction* inst = arch.find_instruction(view.a.type, view.b.type, config);
  if (!inst || (inst->name != "dpbf16" && inst->name != "vnni")) return false;
  // Written there at once. What a packed B is neither an epilogue decides nor m, with one row of which k is
  // contiguous in every A.
  const bool to_c = view.c.type == view.acc && view.epilogue.count == 0 && !view.b_prepacked;
  const bool along_k = view.a.row_major() && (view.a.row_stride != 1 || !view.b_prepacked);
  const int64_t words = to_c ? 12 : 24;
  return arch.vector_bits == 512 && view.plain() && along_k &&
         compute_type(view.a.type, *inst) == view.a.type && compute_type(view.b.type, *inst) == view.b.type &&
         config.split_k == 1 && view.n <= kMostColumns &&
         ceil_div(view.k, inst->k) >= words * std::max<int64_t>(edge_columns(view, config), 1);
}

int64_t columns_apart(const GemmView& view, const KernelConfig& config, const ArchSpec& arch) {
  return config.edge_dot || words_at_edge(view, config, arch) ? edge_columns(view, config) : 0;
}

// What the vectors of a product run along, in the families that multiply as cpu_packed does; else 0.
static int64_t product_columns(const GemmView& view, const KernelConfig& config, const ArchSpec& arch) {
  switch (config.family_id()) {
    case Family::cpu_packed: return view.n - columns_apart(view, config, arch);
    case Family::cpu_winograd: return view.n;
    case Family::cpu_winograd_weight: return view.window->channels;
    case Family::cpu_scatter: return scatter_shape(view).columns;
    default: return 0;
  }
}

int64_t half_edge(const GemmView& view, const KernelConfig& config, const ArchSpec& arch) {
  const Instruction* inst = arch.find_instruction(view.a.type, view.b.type, config);
  if (!inst || !arch.issues_halves(*inst)) return 0;
  const int64_t panel = product_columns(view, config, arch) % config.tile_n, rest = panel % inst->n;
  return rest > 0 && 2 * rest <= inst->n ? ceil_div(panel, inst->n) : 0;
}

}  // namespace tessera
