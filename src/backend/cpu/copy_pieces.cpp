#include "backend/cpu/copy_pieces.h"

#include <cstring>

#include "base/isa.h"

namespace tessera {
namespace {

// Pieces of at least kBytes: whole chunks, the last one moved up.
template <int kBytes>
void copy_in_chunks(char* to, int64_t to_step, const char* from, int64_t from_step, int64_t bytes,
                    int64_t count) {
  for (; count > 0; --count, to += to_step, from += from_step) {
    int64_t i = 0;
    for (; i + kBytes <= bytes; i += kBytes) std::memcpy(to + i, from + i, kBytes);
    if (i < bytes) std::memcpy(to + bytes - kBytes, from + bytes - kBytes, kBytes);
  }
}

}  // namespace

void copy_pieces_plain(char* to, int64_t to_step, const char* from, int64_t from_step, int64_t bytes,
                       int64_t count) {
  const auto copy = bytes >= 64   ? copy_in_chunks<64>
                    : bytes >= 16 ? copy_in_chunks<16>
                    : bytes >= 4  ? copy_in_chunks<4>
                                  : copy_in_chunks<1>;
  copy(to, to_step, from, from_step, bytes, count);
}

void copy_pieces(char* to, int64_t to_step, const char* from, int64_t from_step, int64_t bytes,
                 int64_t count) {
  static const auto copy = has_avx512() ? copy_pieces_avx512 : copy_pieces_plain;
  copy(to, to_step, from, from_step, bytes, count);
}

}  // namespace tessera
