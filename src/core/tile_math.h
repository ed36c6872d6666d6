// Quantities that rules, features, code generation and launching share, derived once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>

#include "core/arch_spec.h"
#include "core/gemm_view.h"
#include "tessera/kernel_config.h"

namespace tessera {

// Columns of a packed register tile at most: the sums of one row of these fill all registers.
inline constexpr int kMostTileColumns = 512;

inline int64_t ceil_div(int64_t x, int64_t y) { return (x + y - 1) / y; }
inline int64_t round_up(int64_t x, int64_t y) { return ceil_div(x, y) * y; }

// Pieces of each of so many equal tasks that keep `workers` busy: the fewest that do but for a tenth of the
// time, or those that do best.
inline int64_t balanced_pieces(int64_t tasks, int64_t workers) {
  const auto busy = [&](int64_t pieces) {
    return static_cast<double>(tasks * pieces) / static_cast<double>(round_up(tasks * pieces, workers));
  };
  int64_t best = ceil_div(workers, tasks);
  for (int64_t p = best; p <= workers && busy(best) < 0.9; ++p) {
    if (busy(p) > busy(best)) best = p;
  }
  return best;
}

constexpr bool power_of_two(int64_t v) { return v > 0 && (v & (v - 1)) == 0; }

// The product of non-negative numbers, or the largest int64_t when it does not fit: bounds may be checked on
// unchecked knob values.
constexpr int64_t saturated_product(std::initializer_list<int64_t> factors) {
  int64_t out = 1;
  for (int64_t f : factors) {
    if (__builtin_mul_overflow(out, f, &out)) return std::numeric_limits<int64_t>::max();
  }
  return out;
}

// Equality without a branch for each knob, for memories of what was asked last.
template <size_t N>
bool same_knobs(const std::array<int, N>& x, const std::array<int, N>& y) {
  int differ = 0;
  for (size_t i = 0; i < N; ++i) differ |= x[i] ^ y[i];
  return differ == 0;
}

// useful / padded extent: 129 on a tile of 128 is 129 / 256. Nothing to do wastes nothing.
inline double fill(int64_t extent, int64_t tile) {
  return extent == 0 ? 1.0 : static_cast<double>(extent) / static_cast<double>(round_up(extent, tile));
}

// Type in which an instruction consumes an operand: a 1 x n x 1 FMA multiplies f32 whatever the memory holds,
// dot and tile instructions take the memory type (f8 as bf16).
DType compute_type(DType memory, const Instruction& inst);

// k elements that sit together in one 32-bit lane of packed B: 1 for f32, 2 for 16-bit, 4 for 8-bit types.
int k_group(DType compute);

// Columns of C past whole vectors of the instruction, where they are so few that dot products along k pay for
// them: 1 to kMostEdgeColumns; else 0.
constexpr int kMostEdgeColumns = 4;
int64_t edge_columns(const GemmView& v, const KernelConfig& c);

// The view with A and B exchanged (C^T = B^T A^T) when the config asks for it.
int64_t rows_of(const GemmView& v, const KernelConfig& c);  // m, or n when swapped
int64_t cols_of(const GemmView& v, const KernelConfig& c);

// Whether TMA can walk the matrix: its rows (columns) and its groups start at multiples of 16 bytes.
bool tma_walks(const Operand& o, int64_t groups);
// Whether C can leave through TMA: it can be walked, and so can the rows of a block.
bool tma_stores(const GemmView& v, const KernelConfig& c);
constexpr int64_t kTmaLine = 128;  // bytes of a line of L2: TMA likes rows that start at multiples of it
// The matrix copied to where TMA can walk it: long rows (columns) on lines of L2, which costs them little
// memory. `along_rows`: whether neighbours in a column are neighbours in memory.
Operand tma_copy(const Operand& o, bool along_rows, int64_t groups);
// B as tma_ws reads it: packed beforehand it is such a copy, which the caller keeps.
Operand tma_b(const GemmView& v);

// Shared-memory bytes a GPU block stages: (block_m + block_n) * block_k elements per stage, all stages.
int64_t staged_bytes(const GemmView& v, const KernelConfig& c);

}  // namespace tessera
