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

// The same, whole lines of memory past the caches: a fence has to follow. Needs AVX-512.
void stream_pieces_avx512(char* to, int64_t to_step, const char* from, int64_t from_step, int64_t bytes,
                          int64_t count);

// `count` pixels of `channels` 16-bit elements, which lie one after another, each filled up with zeros to
// `wide`. Needs AVX-512.
void widen_pixels_avx512(char* to, const char* from, int64_t channels, int64_t wide, int64_t count);

}  // namespace tessera
