// A tile of columns of one line of the result, as cpu_groups computes it where that has channels.
#pragma once

#include "cpu/groups_math.h"
#include "cpu/stream.h"

namespace tsr {

template <class C>
struct GroupsLinesJob {
  using M = GroupsMath<C>;
  static constexpr int kUnit = M::kBackward ? M::kStride : 1;
  static constexpr int B = (C::tile_m + kUnit - 1) / kUnit * kUnit;        // columns of a tile
  static constexpr int kStep = M::kBackward ? B / kUnit : B * M::kStride;  // columns read from tile to tile
  // Sums go past the caches: Config::streams says that the result is far beyond them.
  static constexpr bool kStreams = requires { C::streams; };

  const GroupsArgs* args;
  const typename M::Chunk* chunk;
  const char* in;           // column 0 of the first line
  const float* panel;       // weights of the first line of the filter
  const float* line_panel;  // and of the first one that meets the line in work
  long long d_count, h_count;
  long long d_in, h_in, d_panel, h_panel;  // from one line of the filter to the next: bytes, floats
  long long pixel;                         // bytes of a pixel of `in`
  long long in_w, in_col, out_w, out_col;  // the tile's first columns may lie outside
  long long row;                           // pixel of column 0 of the line
  long long o, fresh;                      // first channel, and first that no other chunk stores
  bool whole;                              // all lanes go to memory as they are
  bool streams;                            // ... and in whole lines of memory
  bool fetches;                            // something is asked for ahead, or leaves behind
  long long image, block_line;             // of blocks: the image (n, d), and the first line of pixels
  Stream<false> next_in;
  Stream<true> next_out;
  Leaving<M::L> leaving;  // the block of lines before, where results are put together apart
};

}  // namespace tsr
