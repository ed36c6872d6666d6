// Packing with 512-bit vectors. Everything here is local to the file: see cmake/isa_flags.cmake.
#include <immintrin.h>

#include "backend/cpu/pack.h"
#include "backend/cpu/pack_transpose_avx512.h"
#include "backend/cpu/pack_words_avx512.h"

namespace tessera {
namespace {

inline int at_most(int64_t x, int limit) { return static_cast<int>(x < limit ? x : limit); }

inline void store_words(uint32_t* p, int lanes, __m512i words) {
  if (lanes >= 16) return _mm512_storeu_si512(p, words);
  _mm512_mask_storeu_epi32(p, static_cast<__mmask16>((1u << lanes) - 1), words);
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

// Sums of the four bytes of words: of neighbours, in 16 bits, for a while; then of all.
inline __m512i add_bytes(__m512i sums, __m512i pairs) {
  return _mm512_add_epi32(sums, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
}
inline __m512i add_pairs(__m512i pairs, __m512i words) {
  return _mm512_add_epi16(pairs, _mm512_maddubs_epi16(_mm512_set1_epi8(1), words));
}

// What the bytes of words of at most 16 lanes add up to, in `steps` rows `width` apart.
__m512i sums_of(const uint32_t* words, int64_t steps, int64_t width, __mmask16 lanes) {
  constexpr int kPiece = 64;
  static_assert(kPiece * 2 * 128 < 32768);  // pairs of bytes are added up in 16 bits
  __m512i sums = _mm512_setzero_si512();
  for (int64_t begin = 0; begin < steps; begin += kPiece) {
    __m512i pairs = _mm512_setzero_si512();
    for (int i = at_most(steps - begin, kPiece); i > 0; --i, words += width)
      pairs = add_pairs(pairs, _mm512_maskz_loadu_epi32(lanes, words));
    sums = add_bytes(sums, pairs);
  }
  return sums;
}

// The correction of a panel that is packed.
void sum_panel(const uint32_t* words, const PanelShape& shape, uint32_t* correction) {
  const int64_t steps = (correction - words) / shape.width;
  for (int lane = 0; lane < shape.width; lane += 16) {
    const auto lanes = static_cast<__mmask16>((1u << at_most(shape.width - lane, 16)) - 1);
    Correction{correction, true}.take_off(lane, lanes, sums_of(words + lane, steps, shape.width, lanes));
  }
}

// Whether a correction, if there is any, is made while words are at hand; else from the panel.
template <class W>
bool sums_on_the_way(const uint32_t* correction) {
  return W::kRaw && W::kGroup == 4 && correction && __builtin_cpu_supports("avx512vnni");
}

// Up to 16 words of each row, in a line each.
template <class W, bool kAll>
inline void copy_words(const Rows& rows, int64_t elements, char* copy) {
  const Begins<kAll> at(rows);
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    const bool live = kAll || (rows.live >> i & 1);
    _mm512_store_si512(copy + i * 64, live ? W::along_k(at[i], elements) : _mm512_setzero_si512());
  }
}

// Elements of k of 16 lanes. kStream: past the caches, asked for some way ahead.
template <class W, bool kAll, bool kStream, bool kSums>
inline __attribute__((always_inline)) void transpose_16(Rows rows, int64_t elements, uint32_t* out,
                                                        int64_t width, int written, bool staged,
                                                        __m512i& sums) {
  constexpr int kBlock = 16 * W::kGroup, kPiece = 4 * W::kGroup;
  constexpr int kAhead = 1024;  // bytes of a lane
  alignas(64) char copy[16 * 64];
  if constexpr (W::kRaw && kAll && !kStream) {
    constexpr int64_t kStaged = HalfStaged::kBytes / W::kBytes;
    HalfStaged half;
    for (; staged && elements >= kStaged; elements -= kStaged, rows.p += HalfStaged::kBytes) {
      half.take(rows);
      for (int64_t byte = 0; byte < HalfStaged::kBytes; byte += 64, out += 16 * width)
        transpose<false, kSums>(half.at(rows, byte), out, width, sums);
    }
  }
  for (; written == 16 && elements >= kBlock; elements -= kBlock, out += 16 * width) {
    if constexpr (kStream && kAll) {
      for (int i = 0; i < 16; ++i) _mm_prefetch(rows.p + i * rows.bytes + kAhead, _MM_HINT_T1);
    }
    if constexpr (W::kRaw) {
      transpose<kStream, kSums>(Begins<kAll>(rows), out, width, sums);
    } else {
      copy_words<W, kAll>(rows, kBlock, copy);
      transpose<kStream, kSums>(Begins<true>(Rows{copy, 64, nullptr, 0xffff}), out, width, sums);
    }
    rows.p += kBlock * W::kBytes;
  }
  for (; elements > 0; elements -= kPiece, out += 4 * width) {
    const int here = at_most(elements, kPiece);
    if constexpr (W::kRaw) {
      transpose_quarter<kAll, kSums>(rows, here * W::kBytes, out, width, written, sums);
    } else {
      copy_words<W, kAll>(rows, here, copy);
      transpose_quarter<true, kSums>(Rows{copy, 64, nullptr, 0xffff}, (here + W::kGroup - 1) / W::kGroup * 4,
                                     out, width, written, sums);
    }
    rows.p += kPiece * W::kBytes;
  }
}

// Whether rows so far apart meet in few sets of L1, being within half a line of whole 4 KiB, or else are
// lines, whose copies cost little.
bool staging_pays(int64_t bytes) {
  constexpr int64_t kSets = 4096, kLine = 64;
  return (bytes + kLine / 2) % kSets <= kLine || bytes % kLine == 0;
}

// k contiguous: elements [begin, begin + depth), 16 lanes at a time. kSums: of bytes, the correction is made
// on the way.
template <class W, bool kStream, bool kSums>
void transpose_lanes(const PanelSource& s, const PanelShape& shape, int64_t begin, int64_t depth,
                     uint32_t* words, const Correction& correction) {
  const int64_t lane_bytes = s.lane_stride * W::kBytes, width = shape.width;
  const bool staged = !shape.far && staging_pays(lane_bytes);
  const char* p = s.data + begin * W::kBytes;
  words += begin / W::kGroup * width;
  for (int lane = 0; lane < shape.live; lane += 16, p += 16 * lane_bytes, words += 16) {
    const int written = at_most(width - lane, 16);
    const int live = at_most(shape.live - lane, 16);
    __m512i sums = _mm512_setzero_si512();
    if (live == 16) {
      transpose_16<W, true, kStream, kSums>({p, lane_bytes, nullptr, 0xffff}, depth, words, width, written,
                                            staged && written == 16, sums);
    } else {  // the last one in place of those that are not there
      int64_t offset[16];
      for (int i = 0; i < 16; ++i) offset[i] = (i < live ? i : live - 1) * lane_bytes;
      const auto mask = static_cast<__mmask16>((1u << live) - 1);
      transpose_16<W, false, kStream, kSums>({p, lane_bytes, offset, mask}, depth, words, width, written,
                                             false, sums);
    }
    if constexpr (kSums) correction.take_off(lane, static_cast<__mmask16>((1u << written) - 1), sums);
  }
}

template <class W>
void pack_along_k(const PanelSource& s, const PanelShape& shape, uint32_t* words, uint32_t* correction) {
  // Steps of 16 lanes before the next 16, at most: long enough for the hardware to follow their lines of
  // memory, and what is written stays in L2.
  constexpr int64_t kChunk = 1024 * W::kGroup, kBlock = 16 * W::kGroup;
  const bool stream = shape.stream && reinterpret_cast<uintptr_t>(words) % 64 == 0 && shape.width % 16 == 0;
  auto pack = stream ? transpose_lanes<W, true, false> : transpose_lanes<W, false, false>;
  const bool sums = sums_on_the_way<W>(correction);
  if constexpr (W::kRaw && W::kGroup == 4) {
    if (sums) pack = transpose_lanes<W, false, true>;
  }
  const int64_t parts = (shape.depth + kChunk - 1) / kChunk;
  const int64_t part =
      parts > 1 ? (shape.depth + parts * kBlock - 1) / (parts * kBlock) * kBlock : shape.depth;
  for (int64_t k = 0; k < shape.depth; k += part)
    pack(s, shape, k, k + part < shape.depth ? part : shape.depth - k, words, {correction, k == 0});
  if (correction && !sums) sum_panel(words, shape, correction);
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
    if constexpr (W::kRaw && W::kBytes == 1 && kVectors == 4) return interleave_64(row, k_bytes, to);
#pragma GCC unroll 8
    for (int i = 0; i < kVectors; ++i)
      _mm512_storeu_si512(to + i * 16, W::along_lanes(row + i * 16 * W::kBytes, k_bytes, W::kGroup, 16));
    if constexpr (kRest)
      _mm512_mask_storeu_epi32(to + kVectors * 16, words, part(row + kVectors * 16 * W::kBytes));
  }

  // To the sums of lanes the bytes of their words.
  inline void add(const uint32_t* at, __m512i* sums) const {
#pragma GCC unroll 8
    for (int i = 0; i < kVectors; ++i) add_words(sums[i], _mm512_loadu_si512(at + i * 16));
    if constexpr (kRest) add_words(sums[kVectors], _mm512_maskz_loadu_epi32(words, at + kVectors * 16));
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

// The whole steps of the lanes from `lane` on; what the bytes of their words add up to, where there are
// `sums`.
template <class W, int kVectors, bool kRest>
void whole_steps(const PanelSource& s, const PanelShape& shape, int lane, uint32_t* words, __m512i* sums) {
  constexpr int64_t kAhead = 8;
  const int64_t k_bytes = s.k_stride * W::kBytes, steps = shape.depth / W::kGroup;
  const int64_t step_bytes = W::kGroup * k_bytes, width = shape.width;
  const int live = at_most(shape.live - lane, kVectors * 16 + (kRest ? 15 : 0));
  const Step<W, kVectors, kRest> step(k_bytes, live, shape.width - lane);
  const char* row = s.data + lane * W::kBytes;
  words += lane;
  auto pack = [&] {
    step(row, words);
    if constexpr (W::kRaw && W::kGroup == 4) {
      if (sums) step.add(words, sums);
    }
    row += step_bytes;
    words += width;
  };
  int64_t i = 0;
  if (k_bytes >= kFarRow && k_bytes * shape.depth >= kFarBytes) {
    const int64_t end = shape.more ? steps : steps - kAhead;
    for (; i < end; ++i) {
      const char* ahead = row + kAhead * step_bytes;
      for (int j = 0; j < W::kGroup; ++j, ahead += k_bytes) {
        for (int b = 0; b < live * W::kBytes; b += 64) _mm_prefetch(ahead + b, _MM_HINT_T0);
      }
      pack();
    }
  }
  for (; i < steps; ++i) pack();
}

template <class W>
void pack_along_lanes(const PanelSource& s, const PanelShape& shape, uint32_t* words, uint32_t* correction) {
  using Steps = void (*)(const PanelSource&, const PanelShape&, int lane, uint32_t*, __m512i*);
  static constexpr Steps kSteps[][2] = {{nullptr, whole_steps<W, 0, true>},
                                        {whole_steps<W, 1, false>, whole_steps<W, 1, true>},
                                        {whole_steps<W, 2, false>, whole_steps<W, 2, true>},
                                        {whole_steps<W, 3, false>, whole_steps<W, 3, true>},
                                        {whole_steps<W, 4, false>, nullptr}};
  constexpr int kMost = 64;  // lanes at a time
  const int64_t steps = shape.depth / W::kGroup, k_bytes = s.k_stride * W::kBytes;
  const int rest = static_cast<int>(shape.depth - steps * W::kGroup);
  const char* const last_row = s.data + steps * W::kGroup * k_bytes;
  uint32_t* const last = words + steps * shape.width;
  const bool sum = sums_on_the_way<W>(correction);
  for (int lane = 0; lane < shape.live; lane += kMost) {
    const int live = at_most(shape.live - lane, kMost);
    __m512i sums[kMost / 16] = {};
    kSteps[live / 16][live % 16 > 0](s, shape, lane, words, sum ? sums : nullptr);
    for (int i = lane; i < lane + live; i += 16) {
      const int written = at_most(shape.width - i, 16);
      const auto lanes = static_cast<__mmask16>((1u << written) - 1);
      __m512i& total = sums[(i - lane) / 16];
      if (rest > 0) {
        const __m512i word =
            W::along_lanes(last_row + i * W::kBytes, k_bytes, rest, at_most(shape.live - i, 16));
        store_words(last + i, written, word);
        if (sum) add_words(total, word);
      }
      if (sum) Correction{correction, true}.take_off(i, lanes, total);
    }
  }
  if (correction && !sum) sum_panel(words, shape, correction);
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
  void (*along_k)(const PanelSource&, const PanelShape&, uint32_t*, uint32_t* correction);
  void (*along_lanes)(const PanelSource&, const PanelShape&, uint32_t*, uint32_t* correction);
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
  const int64_t steps = (shape.depth + s.group - 1) / s.group;
  uint32_t* const correction = shape.correction ? words + steps * shape.width : nullptr;
  if (s.k_stride == 1) {
    packer->along_k(s, shape, words, correction);
  } else {
    packer->along_lanes(s, shape, words, correction);
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
