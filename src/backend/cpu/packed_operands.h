// How the kernel of cpu_packed meets A and B: copied into rows or panels of words, or a table of where they
// lie.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/cpu/gather.h"
#include "backend/cpu/pack.h"
#include "backend/cpu/packed_plan.h"
#include "cpu/abi.h"

namespace tessera {

// A range of rows of C and of k.
struct PackedBlock {
  int64_t m0, m1, k0, depth;
  int64_t rows() const { return m1 - m0; }
};

class PackedOperands {
 public:
  // `view` and `plan` stay where they are. `taps`: of B's blocks, those in use; empty: all.
  PackedOperands(const GemmView& view, const PackedPlan& plan, std::vector<int64_t> taps, int vector_bits);

  // A panel of columns [n0, n1), at most tile_n, of B, which lies as `o` says; `stream` and `more`:
  // see PanelShape.
  void pack_b_panel(const char* b, const Operand& o, int64_t k0, int64_t depth, int64_t n0, int64_t n1,
                    void* out, bool stream = false, bool more = false) const;
  // All panels of columns [n0, n1) of a B whose columns are contiguous.
  void pack_b_block(const char* b, int64_t k0, int64_t depth, int64_t n0, int64_t n1, char* out) const;

  // The columns past plan.n of a B that lies as `o` says, each to a line of its own.
  void gather_edge(const char* b, const Operand& o, char* edge) const;

  // Set what `args` says of A: the block where it lies, but for elements of k past whole words, which `rest`
  // takes, copied to `out` first, or its taps by `table`, of most_rows() entries a tap.
  void take_a(const char* a, const PackedBlock& block, char* rest, tsr::PackedArgs& args) const;
  void pack_a(const char* a, const PackedBlock& block, char* out, tsr::PackedArgs& args) const;
  void point_at_taps(const char* a, const PackedBlock& block, const char** table,
                     tsr::PackedArgs& args) const;

 private:
  PanelSource rows_of_a(const char* a, int64_t row, int64_t k0) const;
  void pack_a_rows(const char* a, const PackedBlock& block, char* out, tsr::PackedArgs& args) const;
  void pack_a_panels(const char* a, const PackedBlock& block, char* out, tsr::PackedArgs& args) const;

  const GemmView& view_;
  const PackedPlan& plan_;
  std::vector<int64_t> taps_;
  PackPanel pack_panel_;
  PackRows pack_rows_;
  PackScattered pack_scattered_;
  std::vector<char> zeros_;  // what a tap beyond the image's edge meets
};

}  // namespace tessera
