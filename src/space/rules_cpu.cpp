// Rules of the CPU families.
#include <algorithm>

#include "core/groups_shape.h"
#include "core/lines_shape.h"
#include "core/planes_shape.h"
#include "core/scatter_shape.h"
#include "core/winograd_shape.h"
#include "space/rule_row.h"

namespace tessera {
namespace {

constexpr uint32_t kTiled = kCpuFamilies & ~family_set(Family::cpu_dot, Family::cpu_amx);
constexpr uint32_t kPacked = family_set(Family::cpu_packed);
constexpr uint32_t kBlocked = family_set(Family::cpu_packed, Family::cpu_amx);
constexpr uint32_t kUnpacked = family_set(Family::cpu_direct, Family::cpu_dot);
constexpr uint32_t kDot = family_set(Family::cpu_dot);
constexpr uint32_t kAmx = family_set(Family::cpu_amx);
constexpr uint32_t kGroups = family_set(Family::cpu_groups);
constexpr uint32_t kWinograd = family_set(Family::cpu_winograd);
constexpr uint32_t kWinogradWeight = family_set(Family::cpu_winograd_weight);
constexpr uint32_t kFilters = kWinograd | kWinogradWeight;
constexpr uint32_t kScatter = family_set(Family::cpu_scatter);
constexpr uint32_t kPlanes = family_set(Family::cpu_planes);

// Of a register tile: accumulators, in each step of k the vectors of the shorter side and one of the other,
// where the instruction does not add its product, and one that the compiler loads ahead.
int64_t tile_registers(V v, C c, A a) {
  const Instruction* i = a.find_instruction(v.a.type, v.b.type, c);
  const int64_t vectors = ceil_div(c.tile_n, c.inst_n);
  return c.tile_m * vectors + std::min<int64_t>(c.tile_m, vectors) + 2 + (i && i->name == "madd16");
}

// Of cpu_dot: accumulators, and what is loaded at a time. bf16 on FMA makes two vectors of one.
int64_t dot_registers(V v, C c, A a) {
  const Instruction* i = a.find_instruction(v.a.type, v.b.type, c);
  const bool halves = i && i->name == "fma" && v.a.type == DType::bf16 && v.b.type == DType::bf16;
  return int64_t{c.tile_m} * c.tile_n + (std::min<int64_t>(c.tile_m, c.tile_n) + 1) * (halves ? 2 : 1);
}

// Whether groups of `group` elements along k can be taken from memory as 32-bit words.
bool words_in_place(const Operand& a, int64_t k, int group) {
  if (group == 1) return a.type == DType::f32;
  return group > 1 && group <= 4 && bytes_of(a.type) * group == 4 && a.row_major() && k % group == 0;
}

// Whether AMX tiles take elements as they lie in memory.
bool tile_words(DType t) { return t == DType::bf16 || t == DType::i8 || t == DType::u8; }

bool is_half(C c, A a) { return 2 * 32 * int64_t{c.inst_n} == a.vector_bits; }

// Whether cpu_groups takes half vectors, each the channels of a single group: where whole ones would hold
// those of several, or a last one that is half empty. Gradients of the filter, and results of one group with
// few channels, take them where groups have more channels than a whole vector chooses from, too.
bool half_vectors(V v, C c, A a) {
  if (!is_half(c, a)) return false;
  const int64_t whole = a.vector_bits / 32;
  const GroupsShape s = groups_shape(v, c);
  const bool fills = divides(whole, s.outer), few = s.gradient || (v.groups == 1 && s.outer < whole);
  return s.spread && divides(c.inst_n, s.outer) && s.inner > 1 && s.inner <= 64 &&
         (few ? !fills || s.inner > whole : !fills && s.outer > whole);
}

// Whether minimal filtering takes operands of a type, which become floats.
bool wide_float(DType t) { return t == DType::f32 || t == DType::f16 || t == DType::bf16; }

// Whether no instruction for the operands' types does more than those that multiply floats.
bool floats_fastest(V v, A a) {
  double floats = 0, fastest = 0;
  for (const Instruction& i : a.instructions) {
    if (i.a != v.a.type || i.b != v.b.type) continue;
    fastest = std::max(fastest, i.flops_per_cycle);
    if (i.k == 1) floats = std::max(floats, i.flops_per_cycle);
  }
  return floats >= fastest;
}

// What cpu_groups unrolls: taps of a line of the filter, columns that a tile reads.
constexpr int64_t kMostTaps = 32, kMostColumns = 160;

// Of cpu_scatter: columns of one coordinate's product.
constexpr int64_t kMostProducts = 1 << 14;

bool block_holds_tile(int block, int tile) { return block == 0 || block >= tile; }

constexpr Rule kCpuRules[] = {
    {"tile_empty", kCpuFamilies, reads("tile"), [](V, C c, A) { return c.tile_m >= 1 && c.tile_n >= 1; },
     "tile_m and tile_n are at least 1"},
    {"tile_vectors", kTiled, reads("tile_n inst_n"), [](V, C c, A) { return divides(c.inst_n, c.tile_n); },
     "tile_n is not a whole number of vectors (inst_n)"},
    {"tile_registers", kTiled, reads("tile inst"),
     [](V v, C c, A a) { return c.inst_n >= 1 && tile_registers(v, c, a) <= a.vector_registers; },
     "the accumulators of tile_m x tile_n and the operands of a step exceed the vector registers"},
    {"dot_registers", kDot, reads("tile inst"),
     [](V v, C c, A a) { return dot_registers(v, c, a) <= a.vector_registers; },
     "a dot kernel keeps a vector per element of its tile, the lines of the tile's shorter side and one "
     "more: too many "
     "for the registers"},
    {"dot_tile", kDot, reads("tile swap_ab"),
     [](V v, C c, A) { return rows_of(v, c) >= c.tile_m && cols_of(v, c) >= c.tile_n; },
     "a dot kernel reads whole tiles: C has fewer rows or columns than tile_m x tile_n"},
    {"unpacked_pairs", kUnpacked, reads("inst"),
     [](V v, C c, A a) {
       const Instruction* i = a.find_instruction(v.a.type, v.b.type, c);
       return !i || i->name != "dpbf16" || (v.a.type == DType::bf16 && v.b.type == DType::bf16);
     },
     "pairs of bf16 are read where they lie: both operands must be bf16 in memory"},
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
    {"amx_lines", kAmx, reads("tile inst pack_a block"),
     [](V v, C c, A) {
       if (!reads_lines(v, c) || c.inst_m < 1 || c.inst_n < 1) return true;
       return ceil_div(c.tile_m, c.inst_m) * ceil_div(c.tile_n, c.inst_n) <= 4 && c.block_m == 0 &&
              c.block_n == 0 && c.block_k == 0;
     },
     "taps read from copies of an image's lines take four of the 8 AMX tiles, and blocks of their own: at "
     "most four accumulators and block=0x0x0, otherwise pack_a=1"},
    {"amx_gradient", kAmx, reads("inst pack_a pack_b swap_ab block"),
     [](V v, C c, A) {
       if (c.pack_b) return true;
       return sums_lines(v, c) && tile_words(v.b.type) && c.pack_a && !c.swap_ab && c.block_m == 0 &&
              c.block_n == 0 && c.block_k == 0;
     },
     "B is read from copies of an image's lines only where it is patches, in bf16, with pack_a=1 and "
     "block=0x0x0; otherwise pack_b=1"},
    {"amx_in_place", kAmx, reads("pack_a swap_ab"),
     [](V v, C c, A) {
       const Operand& left = c.swap_ab ? v.b : v.a;
       const bool along_k = c.swap_ab ? left.row_stride == 1 : left.col_stride == 1;
       return c.pack_a || (along_k && tile_words(left.type));
     },
     "tiles of the left operand (B under swap_ab) are loaded in place only when k is contiguous and the type "
     "needs no "
     "conversion; otherwise pack_a=1"},
    {"amx_patches", kAmx, reads("swap_ab"),
     [](V v, C c, A) { return v.plain() || (!c.swap_ab && tile_words(v.a.type)); },
     "patches are copied in the type that tiles take, and are not swapped"},
    {"amx_split", kAmx, reads("split_k"), [](V, C c, A) { return c.split_k == 1; },
     "the AMX kernel does not split k"},
    {"packed_in_place", kPacked, reads("pack_a tile inst"),
     [](V v, C c, A) {
       const int64_t run = v.a.patches ? v.window->channels : v.k;
       return c.pack_a || ((v.a.patches || v.m >= c.tile_m) && words_in_place(v.a, run, c.inst_k) &&
                           !(c.inst_k == 4 && v.a.type == DType::i8));
     },
     "A is read in place as 32-bit words of whole k groups, a whole tile of rows at a time or the channels "
     "of "
     "a tap, and never as signed bytes; otherwise pack_a=1"},
    {"packed_taps", kPacked, reads("pack_a split_k"),
     [](V v, C c, A) { return c.pack_a || !v.a.patches || c.split_k == 1; },
     "patches are read in place by whole taps: split_k=1, otherwise pack_a=1"},
    {"packed_rows", kPacked, reads("split_k"),
     [](V v, C c, A) { return c.split_k == 1 || !v.window || v.window->divisor() == 1; },
     "parts of a strided backward-data pass store their rows as soon as these are summed: split_k=1"},
    {"packed_b_in_place", kPacked, reads("pack_b block preshuffle inst"),
     [](V v, C c, A) {
       return c.pack_b || (v.b.plain() && v.b.row_major() && v.b.type == DType::f32 && c.inst_k == 1 &&
                           !v.b_prepacked && c.block_m == 0 && c.block_n == 0 && c.block_k == 0);
     },
     "B is read in place only as 32-bit words whose rows are contiguous (row-major f32), and nothing is "
     "staged in "
     "blocks then; otherwise pack_b=1"},
    {"packed_edge", kPacked, reads("edge_dot inst split_k"),
     [](V v, C c, A) {
       return !c.edge_dot ||
              (edge_columns(v, c) > 0 && v.plain() && v.a.row_major() && v.a.type == DType::f32 &&
               v.b.type == DType::f32 && c.split_k == 1 && v.k >= c.inst_n);
     },
     "columns past whole vectors are dot products of f32 along a contiguous k of at least a vector, one to "
     "four of "
     "them beside whole vectors, k not split; otherwise edge_dot=0"},
    {"packed_swap", kPacked, reads("swap_ab"), [](V, C c, A) { return c.swap_ab == 0; },
     "the packed kernel computes C as it is stored; it does not swap operands"},
    {"block_tile", kBlocked, reads("block_m block_n tile"),
     [](V, C c, A) { return block_holds_tile(c.block_m, c.tile_m) && block_holds_tile(c.block_n, c.tile_n); },
     "a cache block is smaller than the register tile (0 means the whole extent)"},
    {"block_depth", kBlocked, reads("block_k inst_k"),
     [](V, C c, A) { return c.block_k == 0 || divides(c.inst_k, c.block_k); },
     "block_k cuts through a group of k that one instruction consumes"},
    {"dot_layout", kDot, 0,
     [](V v, C, A) { return v.a.col_stride == 1 && (v.b_prepacked || v.b.row_stride == 1); },
     "the dot kernel runs along k, which must be contiguous in A, and in B unless it is prepacked"},
    {"groups_window", kGroups, 0, [](V v, C, A) { return v.window.has_value(); },
     "this family moves a filter over images; a 1x1 convolution is a product of matrices"},
    {"groups_pairs", kGroups, reads("inst_k"),
     [](V v, C c, A) {
       return c.inst_k == 1 || !v.window || (!v.b.patches && divides(c.inst_k, v.window->channels));
     },
     "an instruction that adds products of neighbouring channels takes whole groups of the operand that is "
     "read, and no gradient of the filter, whose sums run over pixels"},
    {"groups_halves", kGroups, reads("inst_n"),
     [](V v, C c, A a) { return !v.window || !is_half(c, a) || half_vectors(v, c, a); },
     "half a vector holds the channels of one group, a multiple of inst_n but not of a whole vector, of at "
     "most 64 of the other operand: of more than a whole vector, of a gradient of the filter or of a result "
     "with that one group; of these also where the other operand's are more than a whole vector's lanes"},
    {"groups_channels", kGroups, reads("tile inst_n inst_k"),
     [](V v, C c, A a) {
       if (!v.window) return true;
       const GroupsShape s = groups_shape(v, c);
       const int most = s.spread && !s.gradient ? std::max(a.group_channels, c.inst_n) : c.inst_n;
       return s.blocked || (s.steps <= most && s.lanes > 0) || half_vectors(v, c, a);
     },
     "channels of several groups share a vector: a group has at most inst_n channels (or words of inst_k of "
     "them) of the operand that is read, and a few vectors of it (four of 512 bits, else two) feed one of "
     "the operand that is walked; where each vector holds channels of one group, and for no gradient of "
     "the filter, the architecture's group_channels if those are more"},
    {"groups_blocks", kGroups, reads("tile inst_n"),
     [](V v, C c, A) {
       if (!v.window) return true;
       const GroupsShape shape = groups_shape(v, c);
       const auto fits = [&](const EpilogueStep& s) {
         return !info(s.kind).takes_d || (shape.joined == 1 && info(s.kind).broadcast == Broadcast::none);
       };
       const bool mixed = shape.blocked || shape.joined > 1;
       return !mixed || ((!shape.blocked || c.tile_n == c.inst_n) &&
                         std::all_of(v.epilogue.begin(), v.epilogue.end(), fits));
     },
     "pixels that share a vector: blocks of them fill one, so that tile_n is inst_n, and take D tensors as "
     "large as C only; neighbours of a line (of a prepacked filter, whatever the epilogue) take none"},
    {"groups_unrolled", kGroups, reads("tile inst_n"),
     [](V v, C c, A) {
       return !v.window ||
              (v.window->axes[2].taps <= kMostTaps && groups_shape(v, c).columns_read <= kMostColumns);
     },
     "a line of the filter is unrolled: at most 32 taps wide, and a tile of columns reads at most 160"},
    {"winograd_window", kWinograd, 0, [](V v, C, A) { return winograd_window(v); },
     "minimal filtering F(2,3) is for filters of three taps (or one) along each axis, at least one of three, "
     "that move one coordinate at a time without dilation, and for results, not for the gradient of the "
     "filter"},
    {"winograd_weight_window", kWinogradWeight, 0, [](V v, C, A) { return winograd_weight_window(v); },
     "minimal filtering F(3,2) is for the gradient of a filter of three taps (or one) along each axis, at "
     "least "
     "one of three, that moves one coordinate at a time without dilation"},
    {"winograd_types", kFilters, 0,
     [](V v, C, A a) { return wide_float(v.a.type) && wide_float(v.b.type) && floats_fastest(v, a); },
     "tiles are transformed and multiplied as floats: operands are f32, f16 or bf16, and of a type that the "
     "architecture has no faster instruction for"},
    {"winograd_lanes", kFilters, reads("inst_n"),
     [](V v, C c, A) {
       const int64_t other = v.b.patches ? v.m : v.n;
       return !v.window || (2 * v.window->channels > c.inst_n && 2 * other > c.inst_n);
     },
     "vectors hold the channels of one group: half a vector of them or less, of either operand, costs more "
     "than the products saved"},
    {"winograd_block", kFilters, reads("block_m block_n block_k"),
     [](V, C c, A) { return c.block_m >= 1 && c.block_n == 0 && c.block_k == 0; },
     "tiles are transformed block_m at a time (at least 1), all their channels and columns: block=Mx0x0"},
    {"winograd_panel", kWinograd, reads("tile"),
     [](V v, C c, A) {
       if (!winograd_window(v)) return true;
       return saturated_product({winograd_points(*v.window), v.window->channels, c.tile_n, 4}) <=
              kMostWinogradPanels;
     },
     "a panel of the transformed filter (points x channels x tile_n floats) exceeds 32 MiB of workspace"},
    {"winograd_sums", kWinogradWeight, reads("tile_m inst_n"),
     [](V v, C c, A) {
       if (!winograd_weight_window(v)) return true;
       const WinogradWeightShape s = winograd_weight_shape(v, c);
       return saturated_product({s.points, s.rows, s.sums_row, s.groups_at_once}) <= kMostWinogradSums;
     },
     "the sums of all points (points x rows x channels floats) exceed 32 MiB of workspace"},
    {"scatter_window", kScatter, 0, [](V v, C, A) { return scatter_window(v); },
     "products are added to the positions that they meet: for one group of a filter that is walked "
     "backwards, "
     "as for the gradient of the input"},
    {"scatter_few", kScatter, reads("inst_n"), [](V v, C c, A) { return v.n < c.inst_n; },
     "where columns of C fill a vector they need not share it with those of other taps"},
    {"scatter_words", kScatter, reads("inst tile"),
     [](V v, C c, A) {
       if (!scatter_window(v)) return true;
       const ScatterShape s = scatter_shape(v);
       return words_in_place(v.a, v.window->channels, c.inst_k) && s.images * s.coordinates >= c.tile_m;
     },
     "A is read in place as 32-bit words of whole k groups, a whole tile of rows at a time"},
    {"scatter_block", kScatter, reads("block_m block_n block_k"),
     [](V, C c, A) { return c.block_m >= 1 && c.block_n == 0 && c.block_k == 0; },
     "coordinates are multiplied block_m at a time (at least 1), by all columns: block=Mx0x0"},
    {"planes_window", kPlanes, 0, [](V v, C, A) { return planes_window(v); },
     "pixels of a channel are neighbours once they are copied: of a convolution that moves by at most 16, "
     "one of at most 64 channels a group, at most 16 on one of its sides, in at most 16 groups"},
    {"planes_pairs", kPlanes, reads("inst_k"),
     [](V v, C c, A) {
       return c.inst_k == 1 || !planes_window(v) ||
              (v.a.type == DType::bf16 && v.b.type == DType::bf16 &&
               (v.b.patches || divides(c.inst_k, v.window->channels)));
     },
     "an instruction that adds products of pairs takes bf16 as it lies in memory: of an even number of "
     "channels, or of pixels for a gradient of the filter"},
    {"planes_outputs", kPlanes, reads("tile_m"),
     [](V v, C c, A) { return !planes_window(v) || c.tile_m <= plane_outputs(v); },
     "tile_m exceeds the channels of a group of what is walked: of C, or of dY for a gradient of the filter"},
    {"planes_bytes", kPlanes, reads("tile inst"),
     [](V v, C c, A a) {
       if (!planes_window(v)) return true;
       const PlanesShape s = planes_shape(v, c, a);
       return s.plane_bytes() <= kMostPlanes && s.sums_bytes <= kMostPlaneSums &&
              saturated_product({s.taps, s.steps}) <= kMostPlaneTerms;
     },
     "planes of a line of images exceed 32 MiB, the sums of a gradient 4 MiB, or a filter 16384 terms"},
    {"scatter_sums", kScatter, 0,
     [](V v, C, A) {
       return !scatter_window(v) || (scatter_shape(v).sums_bytes() <= kMostScatterSums &&
                                     scatter_shape(v).columns <= kMostProducts);
     },
     "the sums that are not finished yet exceed 4 MiB, or the products of one coordinate 64 KiB"},
};

}  // namespace

std::span<const Rule> cpu_rules() { return kCpuRules; }

}  // namespace tessera
