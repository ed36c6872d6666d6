// Packing with 256-bit vectors. Everything here is local to the file: see cmake/isa_flags.cmake.
#include <immintrin.h>

#include "backend/cpu/pack.h"
#include "backend/cpu/pack_words_avx2.h"

namespace tessera {
namespace {

constexpr int kLanes = 8;

inline int64_t at_most(int64_t x, int64_t limit) { return x < limit ? x : limit; }
inline int64_t lanes_from(int64_t lane, int64_t end) {
  return end - lane < 0 ? 0 : at_most(end - lane, kLanes);
}

// 8 x 8 words: row i of the result holds word i of every row. r[i] and r[i + 4] come with the first and the
// last four words of rows i and i + 4, beside each other.
inline __attribute__((always_inline)) void transpose_halves(__m256i (&r)[8]) {
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
    const __m256i low01 = _mm256_unpacklo_epi32(r[i], r[i + 1]),
                  high01 = _mm256_unpackhi_epi32(r[i], r[i + 1]);
    const __m256i low23 = _mm256_unpacklo_epi32(r[i + 2], r[i + 3]),
                  high23 = _mm256_unpackhi_epi32(r[i + 2], r[i + 3]);
    r[i] = _mm256_unpacklo_epi64(low01, low23);
    r[i + 1] = _mm256_unpackhi_epi64(low01, low23);
    r[i + 2] = _mm256_unpacklo_epi64(high01, high23);
    r[i + 3] = _mm256_unpackhi_epi64(high01, high23);
  }
}
inline __attribute__((always_inline)) void put_halves(__m256i (&r)[8], int i, __m256i row, __m256i fourth) {
  r[i] = _mm256_permute2x128_si256(row, fourth, 0x20);
  r[i + 4] = _mm256_permute2x128_si256(row, fourth, 0x31);
}

// 8 lanes and 8 steps of k that are all there. Where words are what lies in memory, loads put halves
// together.
template <class W>
inline __attribute__((always_inline)) void transpose_block(const char* p, int64_t lane_bytes, uint32_t* out,
                                                           int64_t width) {
  constexpr int64_t kBlock = kLanes * W::kGroup;
  __m256i r[8];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const char *row = p + i * lane_bytes, *fourth = row + 4 * lane_bytes;
    if constexpr (W::kRaw) {
      const auto half = [](const char* from) {
        return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
      };
      r[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(half(row)), half(fourth), 1);
      r[i + 4] = _mm256_inserti128_si256(_mm256_castsi128_si256(half(row + 16)), half(fourth + 16), 1);
    } else {
      put_halves(r, i, W::along_k(row, kBlock), W::along_k(fourth, kBlock));
    }
  }
  transpose_halves(r);
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i * width), r[i]);
}

// The same of `live` lanes, of which `written` are stored, and so many elements of k; what is not there is
// zero.
template <class W>
__attribute__((noinline)) void transpose_edge(const char* p, int64_t lane_bytes, int64_t elements,
                                              int64_t live, int64_t written, uint32_t* out, int64_t width) {
  const auto row = [&](int i) {
    return i < live ? W::along_k(p + i * lane_bytes, elements) : _mm256_setzero_si256();
  };
  __m256i r[8];
  for (int i = 0; i < 4; ++i) put_halves(r, i, row(i), row(i + 4));
  transpose_halves(r);
  const int64_t steps = at_most((elements + W::kGroup - 1) / W::kGroup, kLanes);
  for (int64_t i = 0; i < steps; ++i) store_words(out + i * width, written, r[i]);
}

// k contiguous. A line of memory of 8 lanes is used up before those of the next 8: of lanes a multiple of
// 4 KiB apart, no more find room in L1.
template <class W>
void pack_along_k(const PanelSource& s, const PanelShape& shape, int64_t written, uint32_t* words) {
  constexpr int64_t kBlock = kLanes * W::kGroup, kTurn = 2 * kBlock;
  const int64_t lane_bytes = s.lane_stride * W::kBytes, width = shape.width;
  for (int64_t lane0 = 0; lane0 < written; lane0 += 2 * kLanes) {
    for (int64_t k0 = 0; k0 < shape.depth; k0 += kTurn) {
      const int64_t k1 = at_most(k0 + kTurn, shape.depth);
      for (int64_t lane = lane0; lane < at_most(lane0 + 2 * kLanes, written); lane += kLanes) {
        const int64_t live = lanes_from(lane, shape.live), stored = lanes_from(lane, written);
        const char* p = s.data + lane * lane_bytes + k0 * W::kBytes;
        uint32_t* to = words + k0 / W::kGroup * width + lane;
        for (int64_t k = k0; k < k1; k += kBlock, p += kBlock * W::kBytes, to += kLanes * width) {
          if (live == kLanes && stored == kLanes && shape.depth - k >= kBlock) {
            transpose_block<W>(p, lane_bytes, to, width);
          } else {
            transpose_edge<W>(p, lane_bytes, shape.depth - k, live, stored, to, width);
          }
        }
      }
    }
  }
}

// Rows this far apart are not seen coming by the hardware, and are not at hand either.
constexpr int64_t kFarRow = 256, kFarBytes = int64_t{32} << 10, kStepsAhead = 8;

// Lanes contiguous: steps of k of `kVectors` whole vectors of lanes from `lane` on and, with kRest, part of
// one more.
template <class W, int kVectors, bool kRest>
void whole_steps(const PanelSource& s, const PanelShape& shape, int64_t lane, int64_t written,
                 uint32_t* words) {
  const int64_t k_bytes = s.k_stride * W::kBytes, width = shape.width, steps = shape.depth / W::kGroup;
  const int64_t rest = lanes_from(lane + kVectors * kLanes, shape.live),
                stored = lanes_from(lane + kVectors * kLanes, written);
  const int64_t line = (kVectors * kLanes + (kRest ? rest : 0)) * W::kBytes;
  const bool far = k_bytes >= kFarRow && k_bytes * shape.depth >= kFarBytes;
  const int64_t asked = !far ? 0 : shape.more ? steps : steps - kStepsAhead;
  const char* row = s.data + lane * W::kBytes;
  words += lane;
  for (int64_t i = 0; i < steps; ++i, row += W::kGroup * k_bytes, words += width) {
    if (i < asked) {
      const char* ahead = row + kStepsAhead * W::kGroup * k_bytes;
      for (int j = 0; j < W::kGroup; ++j, ahead += k_bytes) {
        for (int64_t b = 0; b < line; b += 64) _mm_prefetch(ahead + b, _MM_HINT_T0);
      }
    }
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(words + v * kLanes),
                          W::along_lanes(row + v * kLanes * W::kBytes, k_bytes, W::kGroup, kLanes));
    }
    if constexpr (kRest) {
      store_words(words + kVectors * kLanes, stored,
                  W::along_lanes(row + kVectors * kLanes * W::kBytes, k_bytes, W::kGroup, rest));
    }
  }
}

template <class W>
void pack_along_lanes(const PanelSource& s, const PanelShape& shape, int64_t written, uint32_t* words) {
  using Steps = void (*)(const PanelSource&, const PanelShape&, int64_t lane, int64_t written, uint32_t*);
  static constexpr Steps kSteps[][2] = {{nullptr, whole_steps<W, 0, true>},
                                        {whole_steps<W, 1, false>, whole_steps<W, 1, true>},
                                        {whole_steps<W, 2, false>, whole_steps<W, 2, true>},
                                        {whole_steps<W, 3, false>, whole_steps<W, 3, true>},
                                        {whole_steps<W, 4, false>, nullptr}};
  constexpr int64_t kMost = 4 * kLanes;  // lanes at a time
  const int64_t steps = shape.depth / W::kGroup, rest = shape.depth - steps * W::kGroup;
  const int64_t k_bytes = s.k_stride * W::kBytes;
  for (int64_t lane = 0; lane < written; lane += kMost) {
    const int64_t live = shape.live - lane < 0 ? 0 : at_most(shape.live - lane, kMost);
    const int64_t here = at_most(written - lane, kMost), whole = live / kLanes;
    kSteps[whole][whole * kLanes < here](s, shape, lane, written, words);
    // Zeros where no lane is live but the first ones of a vector are stored with them.
    for (int64_t l = lane + (whole + 1) * kLanes; l < lane + here; l += kLanes) {
      for (int64_t i = 0; i < steps; ++i)
        store_words(words + i * shape.width + l, lanes_from(l, written), _mm256_setzero_si256());
    }
    for (int64_t l = lane; rest > 0 && l < lane + here; l += kLanes) {
      store_words(words + steps * shape.width + l, lanes_from(l, written),
                  W::along_lanes(s.data + steps * W::kGroup * k_bytes + l * W::kBytes, k_bytes, rest,
                                 lanes_from(l, shape.live)));
    }
  }
}

template <class W>
void pack_rows(const PanelSource& s, int64_t depth, int64_t rows, int64_t row_bytes, void* out) {
  constexpr int64_t kBlock = kLanes * W::kGroup;  // k elements
  const __m256i flip = _mm256_set1_epi32(s.flip_sign ? static_cast<int>(0x80808080u) : 0);
  const int64_t lane_bytes = s.lane_stride * W::kBytes;
  for (int64_t row = 0; row < rows; ++row) {
    const char* p = s.data + row * lane_bytes;
    auto* words = reinterpret_cast<uint32_t*>(static_cast<char*>(out) + row * row_bytes);
    int64_t left = depth;
    for (; left >= kBlock; left -= kBlock, p += kBlock * W::kBytes, words += kLanes)
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(words), _mm256_xor_si256(W::along_k(p, kBlock), flip));
    if (left > 0) {
      store_words(words, (left + W::kGroup - 1) / W::kGroup, _mm256_xor_si256(W::along_k(p, left), flip));
    }
  }
}

// -128 times what the bytes of words add up to, lane by lane of `lanes`.
void correct(const uint32_t* words, int64_t steps, int64_t width, int64_t lanes, uint32_t* correction) {
  constexpr int64_t kPiece = 64;
  static_assert(kPiece * 2 * 128 < 32768);  // pairs of bytes are added up in 16 bits
  for (int64_t lane = 0; lane < lanes; lane += kLanes) {
    const int64_t here = lanes_from(lane, lanes);
    const uint32_t* at = words + lane;
    __m256i sums = _mm256_setzero_si256();
    for (int64_t begin = 0; begin < steps; begin += kPiece) {
      __m256i pairs = _mm256_setzero_si256();
      for (int64_t i = at_most(steps - begin, kPiece); i > 0; --i, at += width) {
        const __m256i four = _mm256_maskload_epi32(reinterpret_cast<const int*>(at), lane_mask(here));
        pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(_mm256_set1_epi8(1), four));
      }
      sums = _mm256_sub_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
    }
    store_words(correction + lane, here, _mm256_slli_epi32(sums, 7));
  }
}

void flip_signs(uint32_t* words, int64_t count) {
  for (int64_t i = 0; i < count; ++i) words[i] ^= 0x80808080u;
}

// What there is a vector path for.
struct Row {
  DType memory;
  int group;
  void (*along_k)(const PanelSource&, const PanelShape&, int64_t written, uint32_t*);
  void (*along_lanes)(const PanelSource&, const PanelShape&, int64_t written, uint32_t*);
  void (*rows)(const PanelSource&, int64_t, int64_t, int64_t, void*);
};
template <DType kType, int kGroup>
constexpr Row row() {
  using W = Words<kType, kGroup>;
  return {kType, kGroup, pack_along_k<W>, pack_along_lanes<W>, pack_rows<W>};
}
constexpr Row kPackers[] = {row<DType::f32, 1>(),    row<DType::bf16, 1>(),   row<DType::f16, 1>(),
                            row<DType::f8e4m3, 1>(), row<DType::f8e5m2, 1>(), row<DType::i8, 2>(),
                            row<DType::u8, 2>(),     row<DType::i8, 4>(),     row<DType::u8, 4>()};

const Row* packer_of(const PanelSource& s) {
  for (const Row& r : kPackers) {
    if (r.memory == s.memory && r.group == s.group) return &r;
  }
  return nullptr;
}

}  // namespace

void pack_panel_avx2(const PanelSource& s, const PanelShape& shape, void* panel) {
  const Row* packer = packer_of(s);
  if (!packer || (s.k_stride != 1 && s.lane_stride != 1)) return pack_panel_plain(s, shape, panel);
  const int64_t written = at_most((int64_t{shape.live} + 15) / 16 * 16, shape.width);
  auto pack = s.k_stride == 1 ? packer->along_k : packer->along_lanes;
  auto* words = static_cast<uint32_t*>(panel);
  const int64_t steps = (shape.depth + s.group - 1) / s.group;
  pack(s, shape, written, words);
  if (shape.correction) correct(words, steps, shape.width, written, words + steps * shape.width);
  if (s.flip_sign) flip_signs(words, steps * shape.width);
}

void pack_rows_avx2(const PanelSource& s, int64_t depth, int64_t rows, int64_t row_bytes, void* out) {
  const Row* packer = packer_of(s);
  if (!packer) return pack_rows_plain(s, depth, rows, row_bytes, out);
  packer->rows(s, depth, rows, row_bytes, out);
}

}  // namespace tessera
