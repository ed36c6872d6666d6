// How cpu_groups sees a convolution. Known to its rules, its source, its driver and its model alike.
#pragma once

#include <array>

#include "core/arch_spec.h"
#include "core/gemm_view.h"
#include "tessera/kernel_config.h"

namespace tessera {

// The operand that is read around each position is the patches; the one that is walked is the result or,
// where the filter's gradient is computed, that of the output.
struct GroupsShape {
  bool gradient;         // of the filter
  int64_t joined;        // neighbouring pixels of a line that lie side by side in a vector, as groups do
  int64_t groups;        // of `joined` pixels, which take the same filter
  int64_t inner, outer;  // channels per group of the operand read, and of the one walked
  bool turned;           // lanes are channels of the operand read, and take those of the one walked
  int64_t steps;         // of one instruction along the channels of a group that lanes take
  int64_t lanes;         // of a vector hold channels; 0: none can
  int64_t folds;         // lanes of a vector that take part of one channel's sum each
  bool alone;            // one group, whose channels leave lanes of the last chunk empty
  int64_t apart;         // vectors of each group, which shares none with the others; 0: groups share them
  bool spread;           // all lanes of a vector take the same channel
  int vectors_read;      // that feed one vector of lanes
  int64_t chunk;         // channels of one chunk
  int64_t chunks;
  std::array<WindowAxis, ConvShape::kAxes> axes;  // as walked
  int64_t columns;                                // of a tile
  int64_t columns_read;                           // for a tile, between the first and the last
  int64_t chunk_floats;                           // of its panel, or 32-bit words

  // The result has one group with few channels: positions are blocks of its pixels, side by side in a vector.
  bool blocked;
  int64_t block_h, block_w;    // pixels of a block
  int64_t first_h, first_w;    // coordinate that the first tap of a block at 0 meets
  int64_t origin_h, origin_w;  // pixel where the first block begins: 0, or negative

  // Channels per group that are lanes.
  int64_t across() const { return turned ? inner : outer; }
  int64_t taps() const { return axes[0].taps * axes[1].taps * axes[2].taps; }

  // Whether threads take lines, each of them all chunks of channels, or chunks: what is done sooner. A
  // gradient's sums of lines are added up, from a panel for each thread, which are no more than the operands.
  bool takes_lines(const GemmView& v, const ArchSpec& a, int threads) const;
};

// `v` must have a window.
GroupsShape groups_shape(const GemmView& v, const KernelConfig& c);

// Whether a kernel writes a result past the caches itself, since its chunks are whole lines of memory; any
// other result past the caches is put together first.
bool groups_stream(const GemmView& v, const KernelConfig& c, const ArchSpec& a);

}  // namespace tessera
