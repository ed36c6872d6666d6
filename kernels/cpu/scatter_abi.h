// Arguments of cpu_scatter: each coordinate's row of the walked operand times the whole filter, added to the
// positions of the result that its taps meet.
#pragma once

#include "cpu/abi.h"

namespace tsr {

enum class ScatterPhase : int {
  products,  // of some coordinates
  add,       // those of neighbouring coordinates of a line to lines of sums
  results    // a line of sums to C
};

// What taps that are neighbours in a line of sums add there: Config::run floats from column `column` of a
// product on.
struct ScatterRun {
  long long column;
  float* to;  // where the first of the coordinates adds; to be read and written for a unit of them beyond
};

struct ScatterArgs {
  ScatterPhase phase;
  // Rows of A, words of k groups as they lie, times all panels of the filter, each [step][tile_n] words.
  const char* a;  // tile_m rows can be read at least
  long long a_row_bytes, steps;
  const char* panels;
  long long panel_bytes, columns;  // of a product: taps times columns of C
  char* products;                  // [coordinate][column] floats, tile_m rows of them at least
  long long product_bytes;         // from one row to the next, whole vectors

  long long count;  // coordinates; of `results` positions
  const ScatterRun* runs;
  long long run_count;  // the next coordinate adds Config::advance floats further on

  float* line;    // sums of `count` positions, readable and writable up to a whole vector
  long long row;  // of C, of the first position
  long long cols;
  int flat;  // rows follow each other in memory and every element is treated alike: the line is one row
  EpilogueArgs epilogue;
};

}  // namespace tsr
