#include "tessera/kernel.h"

#include "backend/check_buffers.h"
#include "backend/packed_seal.h"

namespace tessera {

Kernel::Kernel(const Problem& problem, const Choice& choice)
    : problem_(problem),
      choice_(choice),
      packed_readers_(problem.prepack_b ? packed_readers(problem, choice.config) : 0) {}

size_t Kernel::packed_b_bytes() const {
  const size_t panels = panels_bytes();
  return panels == 0 || memory() ? panels : panels + kPackedSealBytes;
}

void Kernel::pack_b(const void* b, void* packed, int64_t ldb) const {
  check_packing(b_to_pack(lower(problem_), ldb), b, packed, packed_b_bytes());
  pack_b_unchecked(b, packed, ldb);
  const size_t panels = panels_bytes();
  if (panels > 0 && !memory()) seal_packed(static_cast<char*>(packed) + panels, packed_readers_);
}

}  // namespace tessera
