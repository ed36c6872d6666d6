// Arguments that the ahead-of-time drivers pass to generated units. Strides named _bytes are in bytes, others
// in elements. Changing a struct here means raising kKernelAbi (src/core/artifact.h).
#pragma once

namespace tsr {

struct EpilogueArgs {
  static constexpr int kMaxSteps = 8, kMaxD = 5;

  void* c;  // of the group; element (i, j) at i * c_stride + j
  long long c_stride;
  float alpha, beta;
  int plain;                             // alpha == 1 and beta == 0
  const void* d[kMaxD];                  // one per step that reads a D tensor, in order
  long long d_row[kMaxD], d_col[kMaxD];  // element strides; 0 broadcasts
  float params[kMaxSteps][2];
  const long long* rows;  // Config::row_table: where row i of the product is in C and in full D tensors
};

// How `rows` are cut into register tiles: `tall` tiles of `height` rows, then `low` ones of height - 1 (of
// height where that is 1). When they do not come out even the last tile is moved up, over rows of the one
// before it.
struct RowTiles {
  long long tall, low;
};
constexpr RowTiles row_tiles(long long rows, int height) {
  const long long tiles = (rows + height - 1) / height, spare = tiles * height - rows;
  const long long low = height == 1 ? 0 : spare < tiles ? spare : tiles;
  return {tiles - low, low};
}

// What is done about a C that is not at hand: nothing, the rows of the next tile are asked for while one is
// computed, or whole tiles are written past the caches: the driver fences after its last call.
enum FarC { kFarIgnored, kFarFetched, kFarStreamed };

// Rows [0, rows) x columns [0, cols) of C from one panel of B, cols <= tile_n.
// A panel of B: per step of k tile_n 32-bit words, each holding the elements of one k group.
struct PackedArgs {
  const void* a;  // the word of (row r, step s) at r * a_row_bytes + s * a_step_bytes; tile_m rows can be
                  // read at least
  long long a_row_bytes, a_step_bytes;
  long long
      a_tile_bytes;  // from one row tile to the next, each of tile_m rows; 0: tiles are where their rows are
  // Config::a_table, patches read in place: of tap t the words of row r begin at a_table[t * table_rows + r],
  // tap_steps of them, or `zeros` where the tap meets no coordinate; steps are those of all taps. At least
  // tile_m rows are there.
  const char* const* a_table;
  const char* zeros;
  long long table_rows, taps, tap_steps;
  // Config::a_words, A in place though its words are not the instruction's: each is read exclusive-or a_flip,
  // and where k has elements past whole words, the word of row r behind the steps is at a_rest + 4 * r.
  const void* a_rest;  // null: there are none
  unsigned a_flip;
  const void* b;
  long long b_step_bytes;
  const int* start;  // vnni with signed A: tile_n values that the accumulators start from
  long long rows, cols, steps;
  int first, last;           // block along k: first has no sums before it, last runs the epilogue
  void* partial;             // sums of the blocks before, rows x tile_n of 32 bits; null when first and last
  long long partial_stride;  // elements between rows
  const void* next_b;        // what the next call reads as b, to be fetched into L2 meanwhile; or null
  long long next_b_bytes;
  long long row0, col0;  // of this piece in C
  int far_c;             // FarC
  const EpilogueArgs* epilogue;
};

// Of a product's operands, the one that passes L1 by: the other's tiles stay there between blocks of sums.
enum Passing { kNonePasses, kLeftPasses, kRightPasses };

// Rows [0, rows) x columns [0, cols) of the product of `left` (rows x k) and one panel of `right`, cols <=
// tile_n. Under swap_ab rows are columns of C. Right: [steps][16][tile_n] 32-bit words. Left: 64 bytes of k
// per row and step; one row tile is 16 rows.
struct AmxArgs {
  const void* left;           // row tile 0, step 0
  long long left_stride;      // bytes between rows
  long long left_tile_bytes;  // between row tiles
  long long left_step_bytes;  // between steps
  // Where not null, room for rows x steps tiles of the left operand: the first panel leaves them there, and
  // the others take them from there.
  void* copy;
  const void* left_tail;  // with `tail`: the last, shorter step, copied as [row tile][16][64], zeros behind k
  int tail;
  // Of rows that are no whole tiles, either the last row tile begins `overlap` rows earlier, as the last one
  // of a block of tiles, or it has a copy [step, and the tail's][16][64], zeros behind its rows, and a block
  // of its own from `last_row` on; else last_tile is null and last_row -1.
  long long overlap;
  const void* last_tile;
  long long last_row;
  const void* right;  // panels of tile_n columns, right_panel_bytes apart
  long long right_panel_bytes;
  bool fetches_right;           // panels come from beyond L2: the first rows ask for them ahead
  long long rows, cols, steps;  // steps without the tail
  int first, last;              // block along k: first starts from zero, last runs the epilogue
  // Sums between blocks along k: [row][tile_n] of each panel, whole tiles of rows, partial_panel_bytes apart.
  // Where there is but one block, room for two blocks of tile_m x tile_n, and panels are 0 bytes apart.
  float* partial;
  long long partial_panel_bytes;
  // Rows that later calls read, to be fetched into L2 meanwhile, one after the other: so many, of each as
  // much as this call's steps read.
  const void* ahead;
  long long ahead_stride;
  int ahead_rows;
  // What later calls write of C, to be fetched meanwhile; or null.
  const void* c_ahead;
  long long c_ahead_bytes;
  // Config::a_table, lines of images copied: row tile t begins at left + tile_at[t], and step s of it
  // step_at[s] bytes from there. Behind the whole steps come `tails` of Config::left_tail: shorter ones, as
  // the tile registers kLeftTail and kRightTail are set up. Rows whose entry in EpilogueArgs::rows is
  // negative are none of C's. `first` and `last` hold; rows are whole tiles.
  const long long *tile_at, *step_at;
  long long tails;
  long long row0, col0;
  int passing;  // Passing, in whole blocks of tiles
  int far_c;    // FarC, of bf16 results; kFarStreamed: rows of C are lines of memory
  const EpilogueArgs* epilogue;
};

// Config::gradient, a gradient from copies of lines: rows [0, rows) of one group's C and column tiles of up
// to 16 channels of a tap, over the pixels of some planes of images.
struct AmxColumns {
  long long first, count;  // of C
};
struct AmxGradientArgs {
  const void* left;  // [row tile][plane][step][16][32 pixels], zeros where there is none
  long long left_tile_bytes;
  const void* right;         // [16 pairs of pixels][16 channels][2] of step s and column tile t lie at
  const long long* tile_at;  // tile_at[t] + 1024 * s bytes, those of the next plane right_plane_bytes behind
  long long right_plane_bytes;
  const AmxColumns* columns;  // of each column tile
  long long row_tiles, col_tiles, planes, steps;
  long long rows;
  int first, last;  // block of pixels: first starts from zero, last runs the epilogue
  float* sums;      // [column tile][row tile][16][16]
  long long row0;
  const EpilogueArgs* epilogue;
};

// The tile registers of a step that is shorter than 64 bytes.
constexpr int kLeftTail = 6, kRightTail = 7;

// Tile registers of blocks of m x n: the accumulators, `lefts` of the left operand, the others of the right
// one. A left tile is used by all n columns; with one column it is used once, and as many take turns as there
// is room for.
struct AmxRegisters {
  int accumulators, lefts;
};
constexpr AmxRegisters amx_registers(int m, int n) {
  return {m * n, n == 1 && m > 7 - m * n ? 7 - m * n : m};
}

}  // namespace tsr
