// Packing with 512-bit vectors. Everything here is local to the file: see cmake/isa_flags.cmake.
#include <immintrin.h>

#include "backend/cpu/pack.h"
#include "backend/cpu/pack_words_avx512.h"

namespace tessera {
namespace {

inline int at_most(int64_t x, int limit) { return static_cast<int>(x < limit ? x : limit); }

inline void store_words(uint32_t* p, int lanes, __m512i words) {
  if (lanes >= 16) return _mm512_storeu_si512(p, words);
  _mm512_mask_storeu_epi32(p, static_cast<__mmask16>((1u << lanes) - 1), words);
}

// Four 128-bit pieces, `stride` bytes apart, put together on their way from memory: that takes no shuffle.
inline __m512i pieces(const char* p, int64_t stride) {
  auto piece = [&](int i) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + i * stride)); };
  __m512i z = _mm512_castsi128_si512(piece(0));
  z = _mm512_inserti32x4(z, piece(1), 1);
  z = _mm512_inserti32x4(z, piece(2), 2);
  return _mm512_inserti32x4(z, piece(3), 3);
}

// 16 x 16 words, rows `row_bytes` apart; word i of all rows to out + i * width.
inline void transpose(const char* p, int64_t row_bytes, uint32_t* out, int64_t width) {
#pragma GCC unroll 4
  for (int quarter = 0; quarter < 4; ++quarter) {
    const char* from = p + quarter * 16;
    uint32_t* to = out + quarter * 4 * width;
    const __m512i r0 = pieces(from, 4 * row_bytes), r1 = pieces(from + row_bytes, 4 * row_bytes);
    const __m512i r2 = pieces(from + 2 * row_bytes, 4 * row_bytes);
    const __m512i r3 = pieces(from + 3 * row_bytes, 4 * row_bytes);
    const __m512i t0 = _mm512_unpacklo_epi32(r0, r1), t1 = _mm512_unpackhi_epi32(r0, r1);
    const __m512i t2 = _mm512_unpacklo_epi32(r2, r3), t3 = _mm512_unpackhi_epi32(r2, r3);
    _mm512_storeu_si512(to, _mm512_unpacklo_epi64(t0, t2));
    _mm512_storeu_si512(to + width, _mm512_unpackhi_epi64(t0, t2));
    _mm512_storeu_si512(to + 2 * width, _mm512_unpacklo_epi64(t1, t3));
    _mm512_storeu_si512(to + 3 * width, _mm512_unpackhi_epi64(t1, t3));
  }
}

// Sums of the four bytes of words: of neighbours, in 16 bits, for a while; then of all.
inline __m512i add_bytes(__m512i sums, __m512i pairs) {
  return _mm512_add_epi32(sums, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
}
inline __m512i add_pairs(__m512i pairs, __m512i words) {
  return _mm512_add_epi16(pairs, _mm512_maddubs_epi16(_mm512_set1_epi8(1), words));
}

// The same from whole lines of memory: each is read once, which counts where rows share a set of L1. kStream:
// past the caches, to an `out` whose rows are lines. kSums: the bytes of each row are added up.
template <bool kStream, bool kSums>
inline void transpose_lines(const char* p, int64_t row_bytes, uint32_t* out, int64_t width, __m512i& sums) {
  __m512i r[16], t[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) r[i] = _mm512_loadu_si512(p + i * row_bytes);
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  __m512i pairs = _mm512_setzero_si512();
  auto store = [&](int i, __m512i words) __attribute__((always_inline)) {
    if constexpr (kSums) pairs = add_pairs(pairs, words);
    if constexpr (kStream) {
      _mm512_stream_si512(reinterpret_cast<__m512i*>(out + i * width), words);
    } else {
      _mm512_storeu_si512(out + i * width, words);
    }
  };
    // r[4 q + c] holds, in its quarter p, word 4 p + c of rows 4 q ... 4 q + 3.
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    const __m512i even = _mm512_shuffle_i32x4(r[c], r[4 + c], 0x88),
                  odd = _mm512_shuffle_i32x4(r[c], r[4 + c], 0xdd);
    const __m512i even2 = _mm512_shuffle_i32x4(r[8 + c], r[12 + c], 0x88),
                  odd2 = _mm512_shuffle_i32x4(r[8 + c], r[12 + c], 0xdd);
    store(c, _mm512_shuffle_i32x4(even, even2, 0x88));
    store(4 + c, _mm512_shuffle_i32x4(odd, odd2, 0x88));
    store(8 + c, _mm512_shuffle_i32x4(even, even2, 0xdd));
    store(12 + c, _mm512_shuffle_i32x4(odd, odd2, 0xdd));
  }
  if constexpr (kSums) sums = add_bytes(sums, pairs);
}

// Where a panel's correction goes, which begins at zero with the first part of k.
struct Correction {
  uint32_t* of;  // null: there is none
  bool first;

  // Takes 128 times the sums of lanes off.
  void take_off(int lane, __mmask16 lanes, __m512i sums) const {
    const __m512i before = first ? _mm512_setzero_si512() : _mm512_maskz_loadu_epi32(lanes, of + lane);
    _mm512_mask_storeu_epi32(of + lane, lanes, _mm512_sub_epi32(before, _mm512_slli_epi32(sums, 7)));
  }
};

// `sums` and what the bytes of words of at most 16 lanes add up to, in `steps` rows `width` apart.
__m512i sums_of(const uint32_t* words, int64_t steps, int64_t width, __mmask16 lanes, __m512i sums) {
  constexpr int kPiece = 64;
  static_assert(kPiece * 2 * 128 < 32768);  // pairs of bytes are added up in 16 bits
  for (int64_t begin = 0; begin < steps; begin += kPiece) {
    __m512i pairs = _mm512_setzero_si512();
    for (int i = at_most(steps - begin, kPiece); i > 0; --i, words += width)
      pairs = add_pairs(pairs, _mm512_maskz_loadu_epi32(lanes, words));
    sums = add_bytes(sums, pairs);
  }
  return sums;
}

// Steps of 16 lanes before the next 16: long enough for the hardware to follow their lines of memory, and
// what is written stays in L2.
constexpr int kChunk = 1024;

// How lanes along k are read and written: what lies beyond the caches at hand by whole lines of memory, and
// what need not come into them, in much longer runs, asked for some way ahead.
enum class Way { near, far, stream };

// k contiguous: blocks of 16 lanes x 16 words are transposed. kSums: of bytes, the correction is made on the
// way.
template <class W, Way kWay, bool kSums>
void transpose_lanes(const PanelSource& s, const PanelShape& shape, uint32_t* words,
                     const Correction& correction) {
  constexpr int kBlock = 16 * W::kGroup;  // k elements
  constexpr int kAhead = 1024;            // bytes of a lane
  const int64_t lane_bytes = s.lane_stride * W::kBytes, steps = (shape.depth + W::kGroup - 1) / W::kGroup;
  for (int lane = 0; lane < shape.live; lane += 16) {
    const int live = at_most(shape.live - lane, 16), lanes = at_most(shape.width - lane, 16);
    const char* p = s.data + lane * lane_bytes;
    uint32_t* out = words + lane;
    int64_t step = 0;
    auto next = [&] {
      p += kBlock * W::kBytes;
      out += 16 * shape.width;
      return step + 16;
    };
    alignas(64) char copy[16 * 64];
    alignas(64) uint32_t result[16 * 16];
    __m512i sums = _mm512_setzero_si512();
    if (live == 16 && lanes == 16) {
      for (; (step + 16) * W::kGroup <= shape.depth; step = next()) {
        if constexpr (kWay == Way::stream) {
          for (int i = 0; i < 16; ++i) _mm_prefetch(p + i * lane_bytes + kAhead, _MM_HINT_T1);
        }
        if constexpr (W::kRaw && kWay != Way::near) {
          transpose_lines<kWay == Way::stream, kSums>(p, lane_bytes, out, shape.width, sums);
        } else if constexpr (W::kRaw) {
          transpose(p, lane_bytes, out, shape.width);
        } else {
#pragma GCC unroll 16
          for (int i = 0; i < 16; ++i)
            _mm512_store_si512(copy + i * 64, W::along_k(p + i * lane_bytes, kBlock));
          transpose(copy, 64, out, shape.width);
        }
      }
    }
    const int64_t rest = steps - step;
    const uint32_t* const last = out;
    for (; step < steps; step = next()) {
      const int64_t left = shape.depth - step * W::kGroup;
      for (int i = 0; i < 16; ++i) {
        _mm512_store_si512(copy + i * 64, i < live
                                              ? W::along_k(p + i * lane_bytes, left < kBlock ? left : kBlock)
                                              : _mm512_setzero_si512());
      }
      transpose(copy, 64, result, 16);
      for (int i = 0; i < 16 && step + i < steps; ++i) {
        store_words(out + i * shape.width, lanes, _mm512_load_si512(result + i * 16));
      }
    }
    if constexpr (kSums) {
      const __mmask16 mask = static_cast<__mmask16>((1u << lanes) - 1);
      correction.take_off(lane, mask, sums_of(last, rest, shape.width, mask, sums));
    }
  }
}

template <class W>
void pack_along_k(const PanelSource& s, const PanelShape& shape, uint32_t* words,
                  const Correction& correction) {
  constexpr int64_t kAtHand = int64_t{128} << 10;  // bytes that caches keep
  const int64_t lane_bytes = s.lane_stride * W::kBytes;
  if constexpr (W::kRaw && W::kGroup == 4) {
    if (correction.of) return transpose_lanes<W, Way::far, true>(s, shape, words, correction);
  }
  if (shape.stream && reinterpret_cast<uintptr_t>(words) % 64 == 0 && shape.width % 16 == 0) {
    transpose_lanes<W, Way::stream, false>(s, shape, words, correction);
  } else if (shape.live * lane_bytes <= kAtHand) {
    transpose_lanes<W, Way::near, false>(s, shape, words, correction);
  } else {
    transpose_lanes<W, Way::far, false>(s, shape, words, correction);
  }
}

// A step of k of `kVectors` whole vectors of lanes and, with kRest, part of one more.
template <class W, int kVectors, bool kRest>
struct Step {
  int64_t k_bytes;
  int rest;            // lanes of the part
  __mmask32 elements;  // of it
  __mmask16 words;     // of it, to be stored

  Step(int64_t bytes, int live, int width)
      : k_bytes(bytes),
        rest(live - kVectors * 16),
        elements((__mmask32{1} << rest) - 1),
        words(static_cast<__mmask16>((1u << at_most(width - kVectors * 16, 16)) - 1)) {}

  inline void operator()(const char* row, uint32_t* to) const {
#pragma GCC unroll 8
    for (int i = 0; i < kVectors; ++i)
      _mm512_storeu_si512(to + i * 16, W::along_lanes(row + i * 16 * W::kBytes, k_bytes, W::kGroup, 16));
    if constexpr (kRest)
      _mm512_mask_storeu_epi32(to + kVectors * 16, words, part(row + kVectors * 16 * W::kBytes));
  }

 private:
  inline __m512i part(const char* p) const {
    if constexpr (W::kRaw && W::kBytes == 4)
      return _mm512_maskz_loadu_epi32(static_cast<__mmask16>(elements), p);
    if constexpr (W::kRaw && W::kBytes == 2) {
      const __mmask16 mask = static_cast<__mmask16>(elements);
      const __m512i both = _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_maskz_loadu_epi16(mask, p)),
                                              _mm256_maskz_loadu_epi16(mask, p + k_bytes), 1);
      return _mm512_permutexvar_epi16(_mm512_load_si512(kInterleave.at), both);
    }
    return W::along_lanes(p, k_bytes, W::kGroup, rest);
  }
};

// Rows this far apart are not seen coming by the hardware, and are not at hand either.
constexpr int64_t kFarRow = 256, kFarBytes = int64_t{32} << 10;

// The whole steps of the lanes from `lane` on.
template <class W, int kVectors, bool kRest>
void whole_steps(const PanelSource& s, const PanelShape& shape, int lane, uint32_t* words) {
  constexpr int64_t kAhead = 8;
  const int64_t k_bytes = s.k_stride * W::kBytes, steps = shape.depth / W::kGroup;
  const int64_t step_bytes = W::kGroup * k_bytes, width = shape.width;
  const int live = at_most(shape.live - lane, kVectors * 16 + (kRest ? 15 : 0));
  const Step<W, kVectors, kRest> step(k_bytes, live, shape.width - lane);
  const char* row = s.data + lane * W::kBytes;
  words += lane;
  int64_t i = 0;
  if (k_bytes >= kFarRow && k_bytes * shape.depth >= kFarBytes) {
    const int64_t end = shape.more ? steps : steps - kAhead;
    for (; i < end; ++i, row += step_bytes, words += width) {
      const char* ahead = row + kAhead * step_bytes;
      for (int j = 0; j < W::kGroup; ++j, ahead += k_bytes) {
        for (int b = 0; b < live * W::kBytes; b += 64) _mm_prefetch(ahead + b, _MM_HINT_T0);
      }
      step(row, words);
    }
  }
  for (; i < steps; ++i, row += step_bytes, words += width) step(row, words);
}

template <class W>
void pack_along_lanes(const PanelSource& s, const PanelShape& shape, uint32_t* words) {
  using Steps = void (*)(const PanelSource&, const PanelShape&, int lane, uint32_t*);
  static constexpr Steps kSteps[][2] = {{nullptr, whole_steps<W, 0, true>},
                                        {whole_steps<W, 1, false>, whole_steps<W, 1, true>},
                                        {whole_steps<W, 2, false>, whole_steps<W, 2, true>},
                                        {whole_steps<W, 3, false>, whole_steps<W, 3, true>},
                                        {whole_steps<W, 4, false>, nullptr}};
  constexpr int kMost = 64;  // lanes at a time
  for (int lane = 0; lane < shape.live; lane += kMost) {
    const int live = at_most(shape.live - lane, kMost);
    kSteps[live / 16][live % 16 > 0](s, shape, lane, words);
  }
  const int64_t steps = shape.depth / W::kGroup, k_bytes = s.k_stride * W::kBytes;
  const int rest = static_cast<int>(shape.depth - steps * W::kGroup);
  const char* row = s.data + steps * W::kGroup * k_bytes;
  for (int lane = 0; rest > 0 && lane < shape.live; lane += 16) {
    store_words(words + steps * shape.width + lane, at_most(shape.width - lane, 16),
                W::along_lanes(row + lane * W::kBytes, k_bytes, rest, at_most(shape.live - lane, 16)));
  }
}

template <class W>
void pack_rows(const PanelSource& s, int64_t depth, int64_t rows, int64_t row_bytes, void* out) {
  constexpr int kBlock = 16 * W::kGroup;  // k elements
  const __m512i flip = _mm512_set1_epi32(s.flip_sign ? static_cast<int>(0x80808080u) : 0);
  const int64_t lane_bytes = s.lane_stride * W::kBytes;
  for (int64_t row = 0; row < rows; ++row) {
    const char* p = s.data + row * lane_bytes;
    auto* words = reinterpret_cast<uint32_t*>(static_cast<char*>(out) + row * row_bytes);
    int64_t left = depth;
    for (; left >= kBlock; left -= kBlock, p += kBlock * W::kBytes, words += 16)
      _mm512_storeu_si512(words, _mm512_xor_si512(W::along_k(p, kBlock), flip));
    if (left > 0) {
      store_words(words, static_cast<int>((left + W::kGroup - 1) / W::kGroup),
                  _mm512_xor_si512(W::along_k(p, left), flip));
    }
  }
}

// 16 lanes of the elements of a word at p, and at q where it has two, those of the mask.
template <int kGroup>
inline __m512i scattered(const char* p, const char* q, __mmask16 mask) {
  if constexpr (kGroup == 1) return _mm512_maskz_loadu_epi32(mask, p);
  const __m512i both = _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_maskz_loadu_epi16(mask, p)),
                                          _mm256_maskz_loadu_epi16(mask, q), 1);
  return _mm512_permutexvar_epi16(_mm512_load_si512(kInterleave.at), both);
}

template <int kGroup>
void scattered_rows(const char* const* rows, int64_t steps, int live, int written, int64_t width,
                    uint32_t* out) {
  constexpr int kBytes = 4 / kGroup;
  const int whole = live / 16 * 16;
  const __mmask16 read = static_cast<__mmask16>((1u << (live - whole)) - 1);
  auto lanes_until = [](int end) {
    return static_cast<__mmask16>((1u << (end < 0 ? 0 : at_most(end, 16))) - 1);
  };
  const __mmask16 stored = lanes_until(written - whole), cleared = lanes_until(written - whole - 16);
  for (int64_t step = 0; step < steps; ++step, rows += kGroup, out += width) {
    const char *p = rows[0], *q = rows[kGroup - 1];
    for (int lane = 0; lane < whole; lane += 16)
      _mm512_storeu_si512(out + lane, scattered<kGroup>(p + lane * kBytes, q + lane * kBytes, 0xffff));
    if (stored)
      _mm512_mask_storeu_epi32(out + whole, stored,
                               scattered<kGroup>(p + whole * kBytes, q + whole * kBytes, read));
    if (cleared) _mm512_mask_storeu_epi32(out + whole + 16, cleared, _mm512_setzero_si512());
  }
}

void flip_signs(uint32_t* words, int64_t count) {
  for (int64_t i = 0; i < count; ++i) words[i] ^= 0x80808080u;
}

// What there is a vector path for.
struct Row {
  DType memory;
  int group;
  void (*along_k)(const PanelSource&, const PanelShape&, uint32_t*, const Correction&);
  void (*along_lanes)(const PanelSource&, const PanelShape&, uint32_t*);
  void (*rows)(const PanelSource&, int64_t, int64_t, int64_t, void*);
};
template <DType kType, int kGroup>
constexpr Row row() {
  using W = Words<kType, kGroup>;
  return {kType, kGroup, pack_along_k<W>, pack_along_lanes<W>, pack_rows<W>};
}
constexpr Row kPackers[] = {row<DType::f32, 1>(),    row<DType::bf16, 1>(),   row<DType::f16, 1>(),
                            row<DType::f8e4m3, 1>(), row<DType::f8e5m2, 1>(), row<DType::bf16, 2>(),
                            row<DType::f8e4m3, 2>(), row<DType::f8e5m2, 2>(), row<DType::i8, 2>(),
                            row<DType::u8, 2>(),     row<DType::i8, 4>(),     row<DType::u8, 4>()};

const Row* packer_of(const PanelSource& s) {
  for (const Row& r : kPackers) {
    if (r.memory == s.memory && r.group == s.group) return &r;
  }
  return nullptr;
}

}  // namespace

void pack_panel_avx512(const PanelSource& s, const PanelShape& shape, void* panel) {
  const Row* packer = packer_of(s);
  if (!packer || (s.k_stride != 1 && s.lane_stride != 1)) return pack_panel_plain(s, shape, panel);
  auto* words = static_cast<uint32_t*>(panel);
  const int64_t steps = (shape.depth + s.group - 1) / s.group, chunk = kChunk * s.group;
  uint32_t* const correction = shape.correction ? words + steps * shape.width : nullptr;
  if (s.k_stride == 1) {
    for (int64_t k = 0; k < shape.depth; k += chunk) {
      PanelSource part = s;
      part.data += k * bytes_of(s.memory);
      PanelShape piece = shape;
      piece.depth = shape.depth - k < chunk ? shape.depth - k : chunk;
      packer->along_k(part, piece, words + k / s.group * shape.width, {correction, k == 0});
    }
  } else {
    packer->along_lanes(s, shape, words);
    for (int lane = 0; correction && lane < shape.width; lane += 16) {
      const __mmask16 lanes = static_cast<__mmask16>((1u << at_most(shape.width - lane, 16)) - 1);
      Correction{correction, true}.take_off(
          lane, lanes, sums_of(words + lane, steps, shape.width, lanes, _mm512_setzero_si512()));
    }
  }
  if (shape.stream) _mm_sfence();
  if (s.flip_sign) flip_signs(words, steps * shape.width);
}

void pack_rows_avx512(const PanelSource& s, int64_t depth, int64_t rows, int64_t row_bytes, void* out) {
  const Row* packer = packer_of(s);
  if (!packer) return pack_rows_plain(s, depth, rows, row_bytes, out);
  packer->rows(s, depth, rows, row_bytes, out);
}

void pack_scattered_avx512(const char* const* rows, int64_t steps, int group, int live, int written,
                           int64_t width, void* panel) {
  (group == 1 ? scattered_rows<1> : scattered_rows<2>)(rows, steps, live, written, width,
                                                       static_cast<uint32_t*>(panel));
}

}  // namespace tessera
