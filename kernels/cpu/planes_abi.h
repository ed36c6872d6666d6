// Arguments of cpu_planes: a convolution over planes, in which the channels of a pixel lie apart and its
// neighbours side by side.
#pragma once

#include "cpu/abi.h"

namespace tsr {

enum class PlanesPhase : int {
  copy,         // pixels to planes of what is read
  copy_walked,  // of what is walked
  sums,         // planes of results, of one group and residue of positions
  leave,        // planes of results to C
  gradient,     // adds to the sums of one group's filter
  finish        // those sums to a row of dW
};

struct PlanesArgs {
  PlanesPhase phase;
  // copy: of each of `lines` lines `count` units of `lanes` elements, unit_bytes apart: lane l's to
  // neighbouring places from `planes` + l * plane_bytes on. line_bytes apart are lines in memory,
  // plane_line_bytes in a plane. leave: the same the other way. A unit is a pixel of each of `residues`
  // residues, whose planes are neighbours.
  const char* from;
  char* planes;
  long long plane_bytes, unit_bytes, count, lines, line_bytes, plane_line_bytes;
  int lanes, residues;

  // sums: of output o at place f the sum over terms t of the filter [tile][t][tile_m] times what lies
  // offsets[t] bytes behind place f of `read`. gradient: sums over places f of output o times what lies
  // there, for each t.
  const char* read;
  char* walked;              // output o's at o * plane_bytes
  const long long* offsets;  // of a gradient up to a whole tile
  long long terms, outer, flat;
  const unsigned* filter;
  float* sums;  // [tile of outputs][tile of terms][output][term][lane]; those of `parts` threads
  long long part;
  int parts;

  // leave: `count` pixels of `lanes` columns are a line, by way of `line` if not null; rows of C from `row`
  // on, row_step from one line's to the next's, its columns from `col` on. finish: the row `row` of C, output
  // `outer` of its group.
  float* line;
  long long row, row_step, col;
  int flat_rows;  // rows follow each other in memory and every element is treated alike
  EpilogueArgs epilogue;
};

}  // namespace tsr
