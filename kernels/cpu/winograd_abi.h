// Arguments of cpu_winograd: a convolution by minimal filtering F(2,3) along every axis of three taps.
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

enum class WinogradPhase : int {
  filter,  // turns columns of one group's filter into panels
  block    // computes the results of some tiles of one group, or of neighbouring groups, from panels
};

// Panels of tile_n columns, each [point][channels][tile_n] floats, points `point_bytes` apart. Columns that
// do not exist are zero.
struct WinogradArgs {
  WinogradPhase phase;
  WinogradAxis axes[3];
  long long channels, columns;       // of a group: those summed over, those of the result
  long long panel_begin, panel_end;  // of the group; the first lies at `panels`
  long long groups;                  // at once; more than one only where each has one panel
  char* panels;
  long long panel_bytes, point_bytes;

  const char* filter;                       // of the group, tap 0 along each axis
  long long filter_channel, filter_column;  // bytes from one to the next

  const char* in;                  // of the first group
  long long image_bytes;           // from one image to the next
  const float* zeros;              // as many as channels, read where a tap meets no coordinate
  long long tile_begin, tile_end;  // of all images, the last axis fastest
  char* tiles;                     // [point][tile][channels of all groups] floats, tile_m tiles at least
  long long tile_row, tile_point;  // bytes
  char* sums;                      // [point][tile][columns of all groups, or of a panel] floats
  long long sums_row, sums_point;  // bytes
  EpilogueArgs epilogue;           // of the first group; row i is position i of all images
};

}  // namespace tsr
