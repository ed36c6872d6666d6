// Copies of many short pieces of memory that lie at equal distances.
#pragma once

#include <cstdint>

namespace tessera {

// `count` pieces of `bytes` each; nothing beside them is touched.
void copy_pieces(char* to, int64_t to_step, const char* from, int64_t from_step, int64_t bytes,
                 int64_t count);

void copy_pieces_plain(char* to, int64_t to_step, const char* from, int64_t from_step, int64_t bytes,
                       int64_t count);
void copy_pieces_avx512(char* to, int64_t to_step, const char* from, int64_t from_step, int64_t bytes,
                        int64_t count);

// Pieces of longer rows, from left to right, past the caches: of each what fills whole lines of memory, with
// what was left of the piece before. `begins`: the first of its row, of a line or more; `ends`: the last, of
// which nothing is left. The line in front of `from` and of each step from there on keeps what is left, for
// the next pieces at the same `from`. A fence has to follow. Needs AVX-512.
void stream_lines_avx512(char* to, int64_t to_step, char* from, int64_t from_step, int64_t bytes,
                         int64_t count, bool begins, bool ends);

// `count` pixels of `channels` 16-bit elements, which lie one after another, each filled up with zeros to
// `wide`. Needs AVX-512.
void widen_pixels_avx512(char* to, const char* from, int64_t channels, int64_t wide, int64_t count);

}  // namespace tessera
