// What cpu_planes sums: for each residue of positions where its terms lie in the planes that are read, and
// the filter in their order.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/gemm_view.h"
#include "core/planes_shape.h"

namespace tessera {

class PlanesTerms {
 public:
  struct Residue {
    int64_t first, terms;  // of the list of offsets
    int64_t filter;        // words of a group's filter before its own
  };

  PlanesTerms(const GemmView& view, const PlanesShape& shape, const KernelConfig& config);

  const Residue& residue(int64_t i) const { return residues_[static_cast<size_t>(i)]; }
  // Bytes from the place of a result; of a gradient whole tiles of them, those behind the last of no use.
  const long long* offsets() const { return offsets_.data(); }

  // 32-bit words of the filter: [group][residue][tile of outputs][term][output].
  int64_t group_words() const { return static_cast<int64_t>(rows_.size()) * outputs_; }
  int64_t filter_words() const { return groups_ * group_words(); }
  // Of the filter `b`, which lies as `o` says.
  void pack(const void* b, const Operand& o, uint32_t* to) const;

 private:
  using Places = std::array<int64_t, ConvShape::kAxes>;
  void add_tap(const GemmView& view, const PlanesShape& shape, const Places& residue, const Places& tap);

  std::vector<Residue> residues_;
  std::vector<long long> offsets_;
  std::vector<int64_t> rows_;  // of the filter, the first of each term
  int64_t groups_, outer_, tile_, outputs_;
  bool pairs_;  // a term is two rows
};

}  // namespace tessera
