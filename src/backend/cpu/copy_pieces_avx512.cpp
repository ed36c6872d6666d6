#include <immintrin.h>

#include "backend/cpu/copy_pieces.h"

namespace tessera {

void copy_pieces_avx512(char* to, int64_t to_step, const char* from, int64_t from_step, int64_t bytes,
                        int64_t count) {
  const int64_t whole = bytes / 64 * 64;
  const __mmask64 rest = (__mmask64{1} << (bytes - whole)) - 1;
  for (; count > 0; --count, to += to_step, from += from_step) {
    for (int64_t i = 0; i < whole; i += 64) _mm512_storeu_si512(to + i, _mm512_loadu_si512(from + i));
    if (rest) _mm512_mask_storeu_epi8(to + whole, rest, _mm512_maskz_loadu_epi8(rest, from + whole));
  }
}

}  // namespace tessera
