#include "tessera/kernel.h"

#include "backend/check_buffers.h"

namespace tessera {

void Kernel::pack_b(const void* b, void* packed, int64_t ldb) const {
  check_packing(b_to_pack(lower(problem_), ldb), b, packed, packed_b_bytes());
  pack_b_unchecked(b, packed, ldb);
}

}  // namespace tessera
