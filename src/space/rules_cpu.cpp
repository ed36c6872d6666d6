// Rules of the CPU families.
#include <algorithm>

#include "space/rule_row.h"

namespace tessera {
namespace {

constexpr uint32_t kTiled = family_set(Family::cpu_packed, Family::cpu_direct);
constexpr uint32_t kBlocked = family_set(Family::cpu_packed, Family::cpu_amx);
constexpr uint32_t kUnpacked = family_set(Family::cpu_direct, Family::cpu_dot);
constexpr uint32_t kDot = family_set(Family::cpu_dot);
constexpr uint32_t kAmx = family_set(Family::cpu_amx);

// Vector registers a tile may fill; the rest hold operands on their way.
int64_t accumulator_budget(A a) { return a.vector_registers - a.vector_registers / 8; }

bool block_holds_tile(int block, int tile) { return block == 0 || block >= tile; }

constexpr Rule kRules[] = {
    {"tile_empty", kCpuFamilies, reads("tile"), [](V, C c, A) { return c.tile_m >= 1 && c.tile_n >= 1; },
     "tile_m and tile_n are at least 1"},
    {"tile_vectors", kTiled, reads("tile_n inst_n"), [](V, C c, A) { return divides(c.inst_n, c.tile_n); },
     "tile_n is not a whole number of vectors (inst_n)"},
    {"tile_registers", kTiled, reads("tile inst_n"),
     [](V, C c, A a) {
       return c.inst_n >= 1 && int64_t{c.tile_m} * ceil_div(c.tile_n, c.inst_n) <= accumulator_budget(a);
     },
     "the accumulators of tile_m x tile_n exceed 7/8 of the vector registers"},
    {"dot_registers", kDot, reads("tile"),
     [](V, C c, A a) { return int64_t{c.tile_m} * c.tile_n <= accumulator_budget(a); },
     "a dot kernel keeps one vector per element of its tile: tile_m * tile_n exceeds 7/8 of the vector "
     "registers"},
    {"amx_shape", kAmx, reads("tile inst"),
     [](V, C c, A) { return divides(c.inst_m, c.tile_m) && divides(c.inst_n, c.tile_n); },
     "tile_m and tile_n are whole numbers of AMX tiles (16)"},
    {"amx_tiles", kAmx, reads("tile inst"),
     [](V, C c, A) {
       if (c.inst_m < 1 || c.inst_n < 1) return false;
       const int64_t rows = ceil_div(c.tile_m, c.inst_m), cols = ceil_div(c.tile_n, c.inst_n);
       return rows * cols + std::min(rows, cols) + 1 <= 8;
     },
     "accumulators, one operand's tiles and one tile of the other exceed the 8 AMX tiles"},
    {"amx_in_place", kAmx, reads("pack_a swap_ab"),
     [](V v, C c, A) {
       const Operand& left = c.swap_ab ? v.b : v.a;
       const bool along_k = c.swap_ab ? left.row_stride == 1 : left.col_stride == 1;
       return c.pack_a ||
              (along_k && (left.type == DType::bf16 || left.type == DType::i8 || left.type == DType::u8));
     },
     "tiles of the left operand (B under swap_ab) are loaded in place only when k is contiguous and the type "
     "needs no "
     "conversion; otherwise pack_a=1"},
    {"amx_prepacked", kAmx, reads("swap_ab preshuffle"),
     [](V v, C c, A) { return !(c.swap_ab && v.b_prepacked); },
     "prepacked B is the right operand; swap_ab makes it the left one"},
    {"amx_split", kAmx, reads("split_k"), [](V, C c, A) { return c.split_k == 1; },
     "the AMX kernel does not split k"},
    {"block_tile", kBlocked, reads("block_m block_n tile"),
     [](V, C c, A) { return block_holds_tile(c.block_m, c.tile_m) && block_holds_tile(c.block_n, c.tile_n); },
     "a cache block is smaller than the register tile (0 means the whole extent)"},
    {"block_depth", kBlocked, reads("block_k inst_k"),
     [](V, C c, A) { return c.block_k == 0 || divides(c.inst_k, c.block_k); },
     "block_k cuts through a group of k that one instruction consumes"},
    {"unpacked", kUnpacked, 0, [](V v, C, A) { return !v.b_prepacked; },
     "this family reads B where it lies; a prepacked B needs cpu_packed or cpu_amx"},
    {"direct_layout", family_set(Family::cpu_direct), reads("swap_ab"),
     [](V v, C c, A) { return c.swap_ab ? v.a.row_stride == 1 : v.b.col_stride == 1; },
     "the direct kernel loads vectors along n, so B is row-major (with swap_ab: along m, A column-major)"},
    {"dot_layout", kDot, 0, [](V v, C, A) { return v.a.col_stride == 1 && v.b.row_stride == 1; },
     "the dot kernel runs along k, which must be contiguous in both operands (layout rcr)"},
};

}  // namespace

std::span<const Rule> cpu_rules() { return kRules; }

}  // namespace tessera
