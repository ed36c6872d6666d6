// How cpu_planes sees a convolution. Known to its rules, its driver and its model alike.
#pragma once

#include <array>

#include "core/arch_spec.h"
#include "core/gemm_view.h"
#include "tessera/kernel_config.h"

namespace tessera {

// An axis as planes have it. A coordinate is step * j + phase; each phase lies in planes of its own, where j
// counts. A position is divide * i + residue; those of one residue are computed together, and meet under each
// tap the coordinates of one phase whose j is i plus an offset.
struct PlanesAxis {
  int64_t phases = 1, residues = 1;
  int64_t low = 0, high = 0;  // of offsets
  int64_t count = 1;          // positions of residue 0, which has the most

  explicit PlanesAxis(const WindowAxis& a);
  PlanesAxis() = default;
  int64_t span() const { return high - low; }
};

// What the positions of a residue meet under a tap; nothing where `meets` is false.
struct PlanesTap {
  bool meets;
  int64_t phase, offset;
};
PlanesTap planes_tap(const WindowAxis& a, int64_t residue, int64_t tap);

struct PlanesShape {
  bool gradient = false;         // of the filter
  int64_t groups = 1;            // all
  int64_t inner = 1, outer = 1;  // channels of a group: of the operand read, and of the one walked
  int64_t steps = 1;             // elements of the planes per group: channels read, or pairs of them
  int64_t element = 4;           // bytes of one
  int64_t lanes = 1;             // of a vector
  std::array<PlanesAxis, ConvShape::kAxes> axes;
  int64_t phases = 1, residues = 1;  // of all axes
  int64_t taps = 1;
  int64_t images = 1;

  // What is computed at a time: of an image `together` groups, and `band` places along `axis`.
  int64_t together = 1;
  size_t axis = 0;
  int64_t band = 1;
  std::array<int64_t, ConvShape::kAxes> extent;  // of planes
  int64_t flat = 0;                              // places from the first that is computed to the last
  int64_t read_bytes = 0, walked_bytes = 0;      // of one plane: of the operand read, and of the one walked
  int64_t bands = 1, units = 1;                  // units: of all images

  int64_t outer_tiles = 1, term_tiles = 1;
  // Of one thread: planes, and for a gradient its sums.
  int64_t plane_bytes() const {
    return together * (steps * phases * read_bytes + outer * residues * walked_bytes);
  }
  int64_t sums_bytes = 0;
  int64_t filter_bytes = 0;  // of the filter as it is multiplied
  int64_t line_floats = 0;   // of a line of the result
};

// Whether this is a convolution that the family computes: see its rules.
bool planes_window(const GemmView& v);

// Channels of a group of the operand that is walked. This and the shape: `v` must fulfil planes_window().
int64_t plane_outputs(const GemmView& v);
PlanesShape planes_shape(const GemmView& v, const KernelConfig& c, const ArchSpec& a);

// Bytes of the planes and of a gradient's sums of one thread, and terms of one output: more is refused.
constexpr int64_t kMostPlanes = int64_t{32} << 20, kMostPlaneSums = int64_t{4} << 20,
                  kMostPlaneTerms = 1 << 14;

}  // namespace tessera
