// Arguments of cpu_groups: a convolution with the channels of several groups side by side in a vector.
#pragma once

#include "cpu/abi.h"
#include "cpu/groups_lanes.h"

namespace tsr {

// A position of the operand walked along one axis: taps first, first + GroupsArgs::tap_step_*, ... meet the
// coordinates at, at + at_step_*, ... of the operand read.
struct GroupsAxis {
  int first, count;
  long long at;
};

// A result of one group with few channels: the lanes hold a block of its pixels, block_h x block_w x
// channels, and "the operand walked" is the blocks. Taps of blocks meet coordinates of the operand read one
// after the other, from `first` on; the filter's own tap there is (pixel in the block * pixel - coordinate *
// at) / dilation, where that is a whole number.
struct GroupsBlocks {
  int filter_h, filter_w;  // taps
  int pixel_h, pixel_w, at_h, at_w, dilation_h, dilation_w;
  int first_h, first_w;
  long long outer_apart, tap_apart, inner_apart;  // elements of the filter
  long long result_h, result_w;                   // pixels
  long long origin_h, origin_w;                   // pixel where the first block begins: 0, or negative
};

// What a call does.
enum class GroupsPhase : int {
  weights,  // turns the filter into panels
  lines,    // walks lines; for the filter's gradient, sums into panels
  finish    // panels of sums to the filter's gradient
};

// Lines are the rows (image, d, h) of the operand that is walked: the result, or where the filter's gradient
// is computed the gradient of the output. Chunks are tile_n lanes of its channels, where Config says turned
// of those of the operand read; groups_lanes() of each vector hold one. All tensors are channels-last and
// dense; distances are in elements.
struct GroupsArgs {
  const void* in;     // what is read around each line
  const void* other;  // the filter, K of all groups x taps x C of a group; or the operand that is walked
  // Per chunk [taps_d][taps_h][channels that lanes take][taps_w][tile_n]; channels in pairs where words hold
  // two, and in pairs again where groups_folds() says so.
  float* panels;
  long long panel_part;  // floats from one part of sums to the next
  int parts;             // that GroupsPhase::finish adds up, in order
  GroupsPhase phase;
  long long in_channels, out_channels;  // of all groups; "out" is the operand that is walked
  long long in_d, in_h, in_w, out_d, out_h, out_w;
  long long in_pixels, out_pixels;  // of all images
  long long pad_w;
  const GroupsAxis *axis_d, *axis_h;  // one for each d and h of the operand that is walked
  int tap_step_d, tap_step_h, at_step_d, at_step_h;
  long long taps_d, taps_h;
  long long band_h;  // lines that are walked in every plane of an image before the next ones of the first
  long long line_begin, line_end, chunk_begin, chunk_end;
  long long line_block;  // lines that a chunk passes over before the next chunk
  long long tile_block;  // tiles of a result's line that take turns over them before the next ones
  bool fetch;            // operands are larger than the caches: the next block of lines is asked for ahead
  bool fetch_line;       // the filter's gradient: the next line is asked for as a chunk passes over one
  // Where a block of the result's lines is put together before it goes past the caches: room for two blocks
  // of apart_bytes, which are lines of memory. Null: results are stored where they belong.
  char* apart;
  long long apart_bytes;
  GroupsBlocks blocks;  // where Config says blocked
  EpilogueArgs epilogue;
};

}  // namespace tsr
