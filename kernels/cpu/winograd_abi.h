// Arguments of cpu_winograd and cpu_winograd_weight: a convolution, and the gradient of its filter, by
// minimal filtering F(2,3) and F(3,2) along every axis of three taps.
#pragma once

#include "cpu/abi.h"

namespace tsr {

// One axis of the images. Position p and tap t meet at coordinate p + t + shift; outside of [0, size) they
// meet a zero. Tiles are pairs of positions where the filter has three taps, positions where it has one.
struct WinogradAxis {
  long long positions, tiles, shift, size;
  long long stride;  // bytes from one coordinate to the next
  long long tap;     // bytes from one tap of the filter to the next
};

// Tiles to transform, each to a row of floats: [point][tile][channel].
struct WinogradTiles {
  WinogradAxis axes[3];
  const char* in;         // the first channel
  long long image_bytes;  // from one image to the next
  const float* zeros;     // as many as channels, read where a tap meets no coordinate
  long long channels;     // that are neighbours in memory
  long long begin, end;   // of all images, the last axis fastest
  char* to;
  long long row, point;  // bytes
};

enum class WinogradPhase : int {
  filter,  // turns columns of one group's filter into panels
  block    // computes the results of some tiles of one group, or of neighbouring groups, from panels
};

// Panels of tile_n columns, each [point][channels][tile_n] floats, points `point_bytes` apart. Columns that
// do not exist are zero.
struct WinogradArgs {
  WinogradPhase phase;
  WinogradTiles tiles;               // of all groups; tile_m of them at least can be read behind the first
  long long channels, columns;       // of a group: those summed over, those of the result
  long long panel_begin, panel_end;  // of the group; the first lies at `panels`
  long long groups;                  // at once; more than one only where each has one panel
  char* panels;
  long long panel_bytes, point_bytes;

  const char* filter;                       // of the group, tap 0 along each axis
  long long filter_channel, filter_column;  // bytes from one to the next

  char* sums;                      // [point][tile][columns of all groups, or of a panel] floats
  long long sums_row, sums_point;  // bytes
  EpilogueArgs epilogue;           // of the first group; row i is position i of all images
};

enum class WinogradWeightPhase : int {
  images,     // transforms tiles of the images
  gradients,  // the same of dY
  products,   // adds the products of some tiles to the sums of a point
  weights     // computes rows of a group's result from the sums
};

struct WinogradWeightArgs {
  WinogradWeightPhase phase;
  WinogradTiles tiles;  // images, gradients

  // Products of one point and group: of tiles, a row of dY's with one of the images'.
  const char *left, *right;
  long long left_row, right_row;  // bytes
  long long count;                // of tiles
  int first;                      // there are no sums yet

  char* sums;                      // [point][row][channel] floats of a group; of products those of one point
  long long sums_row, sums_point;  // bytes
  long long parts, part_bytes;     // weights: sums of each part of the tiles, from one to the next

  long long rows, channels;      // of a group
  long long row_begin, row_end;  // weights
  long long col_begin, col_end;  // products: channels, at most tile_n
  EpilogueArgs epilogue;         // of the group
};

}  // namespace tsr
