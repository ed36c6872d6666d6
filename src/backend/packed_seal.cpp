#include "backend/packed_seal.h"

#include <cstring>

#include "core/artifact.h"
#include "tessera/error.h"

namespace tessera {
namespace {

struct Seal {
  uint64_t magic, readers;
};
static_assert(sizeof(Seal) == kPackedSealBytes);

constexpr uint64_t kMagic = 0x4b43415041525354;  // "TSRAPACK"

}  // namespace

uint64_t packed_readers(const Problem& problem, const KernelConfig& config) {
  Problem p = problem;
  if (is_conv(p.op)) {
    p.conv.n = 1;
  } else {
    p.m = 1;
    p.lda = p.ldb = p.ldc = p.stride_a = p.stride_c = Problem::kPacked;
  }
  p.epilogue = {};
  p.alpha = 1;
  p.beta = 0;
  return ((hash(p) * 31 + hash(config)) * 31 + kKernelAbi) | 1;
}

void seal_packed(void* behind_panels, uint64_t readers) {
  const Seal seal{kMagic, readers};
  std::memcpy(behind_panels, &seal, sizeof seal);
}

void check_packed_seal(const void* behind_panels, uint64_t readers) {
  Seal seal;
  std::memcpy(&seal, behind_panels, sizeof seal);
  if (seal.magic == kMagic && seal.readers == readers) return;
  throw Error(ErrorCode::bad_input,
              seal.magic == kMagic
                  ? "buffer b was packed for a kernel of another configuration, or from another kind of B"
                  : "buffer b was not packed by pack_b",
              "pack it with this kernel; that serves problems which differ in m (of convolutions n), the "
              "epilogue, alpha and beta too, run with the same configuration");
}

}  // namespace tessera
