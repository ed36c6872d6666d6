#include "backend/cpu/planes_terms.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "backend/cpu/element.h"

namespace tessera {
namespace {

template <class Visit>
void each_place(const std::array<int64_t, ConvShape::kAxes>& size, const Visit& visit) {
  std::array<int64_t, ConvShape::kAxes> at;
  for (at[0] = 0; at[0] < size[0]; ++at[0]) {
    for (at[1] = 0; at[1] < size[1]; ++at[1]) {
      for (at[2] = 0; at[2] < size[2]; ++at[2]) visit(at);
    }
  }
}

// The element at `from` as a float, or with its neighbour along k as a pair.
uint32_t word(const char* from, const Operand& o, bool pair) {
  if (!pair) return std::bit_cast<uint32_t>(read_float(from, o.type));
  uint16_t low, high;
  std::memcpy(&low, from, 2);
  std::memcpy(&high, from + o.row_stride * 2, 2);
  return uint32_t{high} << 16 | low;
}

}  // namespace

PlanesTerms::PlanesTerms(const GemmView& view, const PlanesShape& shape, const KernelConfig& config)
    : groups_(shape.groups),
      outer_(shape.outer),
      tile_(config.tile_m),
      outputs_(shape.outer_tiles * config.tile_m),
      pairs_(config.inst_k == 2) {
  const auto& axes = view.window->axes;
  const Places residues{shape.axes[0].residues, shape.axes[1].residues, shape.axes[2].residues},
      taps{axes[0].taps, axes[1].taps, axes[2].taps};
  each_place(residues, [&](const Places& residue) {
    const auto first = static_cast<int64_t>(rows_.size());
    each_place(taps, [&](const Places& tap) { add_tap(view, shape, residue, tap); });
    residues_.push_back({first, static_cast<int64_t>(rows_.size()) - first, first * outputs_});
  });
  if (shape.gradient)
    offsets_.resize(static_cast<size_t>(shape.term_tiles * config.tile_n / config.inst_n), 0);
}

void PlanesTerms::add_tap(const GemmView& view, const PlanesShape& shape, const Places& residue,
                          const Places& tap) {
  const auto& axes = view.window->axes;
  int64_t place = 0, phase = 0, number = 0;
  for (size_t i = 0; i < tap.size(); ++i) {
    const PlanesTap t = planes_tap(axes[i], residue[i], tap[i]);
    if (!t.meets) return;
    place = place * shape.extent[i] + t.offset - shape.axes[i].low;
    phase = phase * shape.axes[i].phases + t.phase;
    number = number * axes[i].taps + tap[i];
  }
  for (int64_t i = 0; i < shape.steps; ++i) {
    const int64_t plane = phase * shape.together * shape.steps + i;
    offsets_.push_back(plane * shape.read_bytes + place * shape.element);
    rows_.push_back(number * shape.inner + i * (shape.inner / shape.steps));
  }
}

void PlanesTerms::pack(const void* b, const Operand& o, uint32_t* to) const {
  const int64_t size = bytes_of(o.type);
  for (int64_t g = 0; g < groups_; ++g) {
    const char* group = static_cast<const char*>(b) + g * o.group_stride * size;
    for (const Residue& r : residues_) {
      for (int64_t n = 0; n < outer_; n += tile_) {
        const int64_t live = std::min(tile_, outer_ - n);
        for (int64_t t = r.first; t < r.first + r.terms; ++t, to += tile_) {
          const int64_t row = rows_[static_cast<size_t>(t)];
          const int64_t at = o.row_block
                                 ? row / o.row_block * o.block_stride + row % o.row_block * o.row_stride
                                 : row * o.row_stride;
          const char* from = group + (at + n * o.col_stride) * size;
          std::fill(to + live, to + tile_, 0);
          for (int64_t m = 0; m < live; ++m, from += o.col_stride * size) to[m] = word(from, o, pairs_);
        }
      }
    }
  }
}

}  // namespace tessera
