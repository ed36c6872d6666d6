// Packing with 256-bit vectors. Everything here is local to the file: see cmake/isa_flags.cmake.
#include <immintrin.h>

#include "backend/cpu/pack.h"

namespace tessera {
namespace {

// 8 x 8 words: row i of the result holds word i of every input.
inline void transpose(__m256i (&r)[8]) {
  __m256i t[8];
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_epi32(r[i], r[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    r[i] = _mm256_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm256_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm256_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm256_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm256_permute2x128_si256(r[i], r[4 + i], 0x20);
    t[4 + i] = _mm256_permute2x128_si256(r[i], r[4 + i], 0x31);
  }
  for (int i = 0; i < 8; ++i) r[i] = t[i];
}

// 8 words from 8 * group elements that are contiguous along k, all there.
inline __m256i words_along_k(const char* p, const PanelSource& s) {
  const auto* q = reinterpret_cast<const __m128i*>(p);
  switch (s.memory) {
    case DType::bf16: return _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(q)), 16);
    case DType::f16: return _mm256_castps_si256(_mm256_cvtph_ps(_mm_loadu_si128(q)));
    case DType::i8: return _mm256_cvtepi8_epi16(_mm_loadu_si128(q));
    case DType::u8: return _mm256_cvtepu8_epi16(_mm_loadu_si128(q));
    default: return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
}

// 8 lanes of one k group whose elements are contiguous along the lanes, all there; k_bytes apart.
inline __m256i words_along_lanes(const char* p, int64_t k_bytes, const PanelSource& s) {
  if (s.group == 1) return words_along_k(p, s);
  const __m128i low = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  const __m128i high = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p + k_bytes));
  const __m128i pairs = _mm_unpacklo_epi8(low, high);
  return s.memory == DType::u8 ? _mm256_cvtepu8_epi16(pairs) : _mm256_cvtepi8_epi16(pairs);
}

bool converts_here(const PanelSource& s) {
  if (s.group == 1) return s.memory == DType::f32 || s.memory == DType::bf16 || s.memory == DType::f16;
  return s.group == 2 && (s.memory == DType::i8 || s.memory == DType::u8);
}

}  // namespace

// Whole blocks of 8 lanes x 8 words here; edges, and types without a vector path, by the plain packer.
void pack_panel_avx2(const PanelSource& s, const PanelShape& shape, void* panel) {
  const bool along_k = s.k_stride == 1;
  if (!converts_here(s) || shape.width % 8 || (!along_k && s.lane_stride != 1)) {
    return pack_panel_plain(s, shape, panel);
  }
  auto* words = static_cast<uint32_t*>(panel);
  const int64_t bytes = bytes_of(s.memory), k_bytes = s.k_stride * bytes, lane_bytes = s.lane_stride * bytes;
  const int64_t block = along_k ? 8 : 1;  // steps at a time
  const int64_t whole_steps = shape.depth / s.group / block * block;
  const int whole_lanes = shape.live / 8 * 8;
  for (int64_t step = 0; step < whole_steps; step += block) {
    const char* row = s.data + step * s.group * k_bytes;
    for (int lane = 0; lane < whole_lanes; lane += 8) {
      auto* out = reinterpret_cast<__m256i*>(words + step * shape.width + lane);
      const char* p = row + lane * lane_bytes;
      if (!along_k) {
        _mm256_storeu_si256(out, words_along_lanes(p, k_bytes, s));
        continue;
      }
      __m256i r[8];
      for (int i = 0; i < 8; ++i) r[i] = words_along_k(p + i * lane_bytes, s);
      transpose(r);
      for (int i = 0; i < 8; ++i) _mm256_storeu_si256(out + i * (shape.width / 8), r[i]);
    }
  }
  // The rest of the lanes, then the rest of the steps: at most 7 of each.
  const int64_t steps = (shape.depth + s.group - 1) / s.group;
  alignas(32) uint32_t edge[8 * 64];
  for (int64_t step = 0; step < steps; ++step) {
    const int first_lane = step < whole_steps ? whole_lanes : 0;
    if (first_lane == shape.width) continue;
    PanelSource rest = s;
    rest.data = s.data + step * s.group * k_bytes + first_lane * lane_bytes;
    const int64_t depth = shape.depth - step * s.group < s.group ? shape.depth - step * s.group : s.group;
    for (int lane = first_lane; lane < shape.width; lane += 64) {
      const int width = shape.width - lane < 64 ? shape.width - lane : 64;
      const int live = shape.live - lane < 0 ? 0 : shape.live - lane < width ? shape.live - lane : width;
      pack_panel_plain(rest, {depth, live, width, false}, edge);
      for (int i = 0; i < width; ++i) words[step * shape.width + lane + i] = edge[i];
      rest.data += 64 * lane_bytes;
    }
  }
}

void pack_rows_avx2(const PanelSource& s, int64_t depth, int64_t rows, int64_t row_bytes, void* out) {
  if (!converts_here(s)) return pack_rows_plain(s, depth, rows, row_bytes, out);
  const int64_t bytes = bytes_of(s.memory), whole = depth / (8 * s.group) * 8;  // steps
  for (int64_t row = 0; row < rows; ++row) {
    PanelSource one = s;
    one.data += row * s.lane_stride * bytes;
    auto* words = reinterpret_cast<uint32_t*>(static_cast<char*>(out) + row * row_bytes);
    for (int64_t step = 0; step < whole; step += 8) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(words + step),
                          words_along_k(one.data + step * s.group * bytes, s));
    }
    one.data += whole * s.group * bytes;
    pack_rows_plain(one, depth - whole * s.group, 1, 0, words + whole);
  }
}

}  // namespace tessera
