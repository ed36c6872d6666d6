// How cpu_groups walks a convolution on an architecture: in which order, what is asked for ahead, and who
// takes what.
#pragma once

#include "core/arch_spec.h"
#include "core/gemm_view.h"
#include "core/groups_shape.h"
#include "tessera/kernel_config.h"

namespace tessera {

// Lines are those of the operand walked, of all images. See tsr::GroupsArgs.
struct GroupsPlan {
  int64_t lines;
  int64_t line_block;   // lines that a chunk of channels passes over before the next chunk
  int64_t tile_block;   // tiles of a result's line that take turns over them
  int64_t band_h;       // lines that are walked in every plane of an image before the next ones of the first
  bool fetch;           // the next block of lines is asked for ahead
  bool fetch_line;      // of a gradient, the next line, into L1
  bool by_lines;        // threads take lines, each of them all chunks; else chunks
  int64_t parts;        // of a gradient's sums, one for each thread that takes lines
  int64_t apart_bytes;  // of a block of the result's lines that is put together apart; 0: none is
};

// The view must have a window.
GroupsPlan groups_plan(const GemmView& v, const KernelConfig& c, const GroupsShape& s, const ArchSpec& a,
                       int threads);

}  // namespace tessera
