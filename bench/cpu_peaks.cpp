#include "cpu_peaks.h"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "core/arch_spec.h"
#include "tune/measure.h"

namespace {

constexpr int kLoops = 1000;

// Independent accumulators: more than latency times throughput.
#define TWELVE(op) op(0) op(1) op(2) op(3) op(4) op(5) op(6) op(7) op(8) op(9) op(10) op(11)
#define TWENTYFOUR(op) \
  TWELVE(op) op(12) op(13) op(14) op(15) op(16) op(17) op(18) op(19) op(20) op(21) op(22) op(23)

// `clear` makes the factors zero: with whatever a register happens to hold, denormals could be multiplied.
#define LOOP(name, target_isa, clear, body, ...)                                         \
  __attribute__((target(target_isa))) void name(int repeats) {                           \
    for (; repeats > 0; --repeats) {                                                     \
      int64_t count = kLoops;                                                            \
      asm volatile(clear "1:\n" body "dec %0\n jnz 1b\n" : "+r"(count) : : __VA_ARGS__); \
    }                                                                                    \
  }

#define YMM_CLOBBERS                                                                                         \
  "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm14", \
      "xmm15", "cc"
#define ZMM_CLOBBERS                                                                                      \
  YMM_CLOBBERS, "xmm12", "xmm13", "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", \
      "xmm30", "xmm31"

#define CLEAR_YMM                     \
  "vpxor %%xmm14, %%xmm14, %%xmm14\n" \
  "vpxor %%xmm15, %%xmm15, %%xmm15\n"
#define CLEAR_ZMM                      \
  "vpxord %%zmm30, %%zmm30, %%zmm30\n" \
  "vpxord %%zmm31, %%zmm31, %%zmm31\n"
#define FMA_YMM(i) "vfmadd231ps %%ymm14, %%ymm15, %%ymm" #i "\n"
#define FMA_ZMM(i) "vfmadd231ps %%zmm30, %%zmm31, %%zmm" #i "\n"
#define DPBF16(i) "vdpbf16ps %%zmm30, %%zmm31, %%zmm" #i "\n"
#define VNNI(i) "vpdpbusd %%zmm30, %%zmm31, %%zmm" #i "\n"

LOOP(fma_ymm, "avx2,fma", CLEAR_YMM, TWELVE(FMA_YMM), YMM_CLOBBERS)
LOOP(fma_zmm, "avx512f", CLEAR_ZMM, TWENTYFOUR(FMA_ZMM), ZMM_CLOBBERS)
LOOP(dpbf16, "avx512f", CLEAR_ZMM, TWENTYFOUR(DPBF16), ZMM_CLOBBERS)
LOOP(vnni, "avx512f", CLEAR_ZMM, TWENTYFOUR(VNNI), ZMM_CLOBBERS)

// An 8 x 48 register tile: a step of k loads three vectors and eight broadcasts for its 24 multiplications.
// What is left of the peak when operands come from L1, the clock being lower then.
#define TILE_ROW(at, a, b, c)                                                  \
  "vbroadcastss " #at "(%1), %%zmm27\n vfmadd231ps %%zmm27, %%zmm24, %%zmm" #a \
  "\n vfmadd231ps %%zmm27, %%zmm25, %%zmm" #b "\n vfmadd231ps %%zmm27, %%zmm26, %%zmm" #c "\n"
__attribute__((target("avx512f"))) void fma_tile(int repeats) {
  alignas(64) static const float operands[64] = {};
  for (; repeats > 0; --repeats) {
    int64_t count = kLoops;
    asm volatile("1:\n vmovups (%1), %%zmm24\n vmovups 64(%1), %%zmm25\n vmovups 128(%1), %%zmm26\n"  //
                 TILE_ROW(192, 0, 1, 2) TILE_ROW(196, 3, 4, 5) TILE_ROW(200, 6, 7, 8) TILE_ROW(204, 9, 10, 11)
                     TILE_ROW(208, 12, 13, 14) TILE_ROW(212, 15, 16, 17) TILE_ROW(216, 18, 19, 20)
                         TILE_ROW(220, 21, 22, 23) "dec %0\n jnz 1b\n"
                 : "+r"(count)
                 : "r"(operands)
                 : ZMM_CLOBBERS, "xmm24", "xmm25", "xmm26", "xmm27", "memory");
  }
}

struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t bytes_per_row[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

#define ZERO_TILES                                                                                      \
  "tilezero %%tmm0\n tilezero %%tmm1\n tilezero %%tmm2\n tilezero %%tmm3\n tilezero %%tmm4\n tilezero " \
  "%%tmm5\n"                                                                                            \
  "tilezero %%tmm6\n tilezero %%tmm7\n"

#define AMX_LOOP(name, instruction)                                                                       \
  void name(int repeats) {                                                                                \
    const TileConfig config;                                                                              \
    for (; repeats > 0; --repeats) {                                                                      \
      int64_t count = kLoops;                                                                             \
      asm volatile("ldtilecfg %1\n" ZERO_TILES "1:\n" instruction " %%tmm6, %%tmm7, %%tmm0\n" instruction \
                   " %%tmm6, %%tmm7, %%tmm1\n" instruction " %%tmm6, %%tmm7, %%tmm2\n" instruction        \
                   " %%tmm6, %%tmm7, %%tmm3\n" instruction " %%tmm6, %%tmm7, %%tmm4\n" instruction        \
                   " %%tmm6, %%tmm7, %%tmm5\n dec %0\n jnz 1b\n tilerelease\n"                            \
                   : "+r"(count)                                                                          \
                   : "m"(config)                                                                          \
                   : "cc");                                                                               \
    }                                                                                                     \
  }
AMX_LOOP(amx_bf16, "tdpbf16ps")
AMX_LOOP(amx_int8, "tdpbssd")

// A 2 x 2 block of tiles: a step loads two tiles of each operand from L1 for its four products, 8 steps of
// numbers from -1 to 1. What is left of the peak then: with such numbers tiles are slower than with zeros.
constexpr int kTileSteps = 8;
const uint16_t* tile_operands() {
  alignas(64) static uint16_t words[kTileSteps * 2048];
  uint32_t state = 1;
  for (uint16_t& word : words) {
    state = state * 1664525 + 1013904223;
    const float x = static_cast<float>(static_cast<int32_t>(state)) / 2147483648.0f;
    word = static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 16);
  }
  return words;
}
#define TILE_LOAD(at, tile) "lea " #at "(%3,%1), %%rax\n tileloadd (%%rax,%4,1), %%tmm" #tile "\n"
#define TILE_PRODUCT(sums, a, b) "tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #sums "\n"
void amx_tile(int repeats) {
  static const uint16_t* const words = tile_operands();
  const TileConfig config;
  for (; repeats > 0; --repeats) {
    int64_t count = kLoops / kTileSteps, at = 0;
    asm volatile("ldtilecfg %2\n" ZERO_TILES "1:\n xor %1, %1\n 2:\n"  //
                 TILE_LOAD(0, 4) TILE_LOAD(1024, 6) TILE_PRODUCT(0, 4, 6) TILE_LOAD(2048, 5)
                     TILE_PRODUCT(2, 5, 6) TILE_LOAD(3072, 7) TILE_PRODUCT(1, 4, 7) TILE_PRODUCT(
                         3, 5, 7) "add $4096, %1\n cmp $32768, %1\n jne 2b\n dec %0\n jnz 1b\n tilerelease\n"
                 : "+r"(count), "+r"(at)
                 : "m"(config), "r"(words), "r"(int64_t{64})
                 : "rax", "cc", "memory");
  }
}

struct PeakRow {
  const char* name;
  std::vector<std::string> needs;
  void (*loop)(int repeats);
  double ops;  // of one pass over the loop's body
};

}  // namespace

std::vector<Peak> measure_peaks() {
  const PeakRow rows[] = {
      {"fma", {"avx512f"}, fma_zmm, 24 * 32},          {"fma", {"avx2", "fma"}, fma_ymm, 12 * 16},
      {"fma_tile", {"avx512f"}, fma_tile, 24 * 32},    {"dpbf16", {"avx512_bf16"}, dpbf16, 24 * 64},
      {"vnni", {"avx512_vnni"}, vnni, 24 * 128},       {"amx_bf16", {"amx_bf16"}, amx_bf16, 6 * 16384},
      {"amx_int8", {"amx_int8"}, amx_int8, 6 * 32768}, {"amx_tile", {"amx_bf16"}, amx_tile, 4 * 16384},
  };
  const std::vector<std::string> features = tessera::this_processor().features;
  std::vector<Peak> out;
  for (const PeakRow& row : rows) {
    const bool has = std::all_of(row.needs.begin(), row.needs.end(), [&](const std::string& f) {
      return std::find(features.begin(), features.end(), f) != features.end();
    });
    const bool known = std::any_of(out.begin(), out.end(), [&](const Peak& p) { return p.name == row.name; });
    if (!has || known) continue;
    const tessera::Repeated work = row.loop;
    const auto t = tessera::measure({&work, 1}, {.batch_us = 2000, .budget_ms = 300});
    out.push_back({row.name, row.ops * kLoops / t[0].best_us / 1e3, row.loop, row.ops * kLoops});
  }
  return out;
}
