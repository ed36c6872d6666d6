// B packed once and read by every later run: per group, panels of tile_n columns over the whole of k, as
// backend/cpu/pack.h makes them.
#pragma once

#include <cstring>

#include "backend/cpu/arena.h"
#include "backend/cpu/pack.h"
#include "core/arch_spec.h"
#include "core/gemm_view.h"
#include "core/tile_math.h"

namespace tessera {

class PrepackedB {
 public:
  // `group` elements of k per word; `correction`: see PanelShape.
  PrepackedB(const GemmView& view, int tile_n, int group, bool correction, const ArchSpec& arch)
      : groups_(view.groups),
        tile_n_(tile_n),
        panel_bytes_(static_cast<int64_t>(tessera::panel_bytes({view.k, tile_n, tile_n, correction}, group))),
        group_bytes_(panel_bytes_ * ceil_div(view.n, tile_n)),
        stream_(bytes() >= arch.l3.bytes / kShareOfCache) {}

  int64_t panel_bytes() const { return panel_bytes_; }
  int64_t group_bytes() const { return group_bytes_; }  // the panels of one group
  bool stream() const { return stream_; }               // PanelShape::stream
  int64_t bytes() const { return groups_ * group_bytes_; }

  // All of `b`, which lies as `operand` says, to bytes() at `packed`; with group stride 0 the same for each
  // group. `pack_panel(group's b, operand, first column, panel)` packs up to tile_n columns.
  template <class PackPanelAt>
  void pack(const Operand& operand, const void* b, void* packed, const PackPanelAt& pack_panel) const {
    char* to = static_cast<char*>(packed);
    for (int64_t g = 0; g < groups_; ++g) {
      const char* from = static_cast<const char*>(b) + g * operand.group_stride * bytes_of(operand.type);
      for (int64_t n = 0; n < operand.cols; n += tile_n_, to += panel_bytes_) {
        // Columns that do not exist are multiplied too where the kernel takes whole panels.
        if (operand.cols - n < tile_n_) std::memset(to, 0, static_cast<size_t>(panel_bytes_));
        pack_panel(from, operand, n, to);
      }
    }
    prefer_large_pages(packed, static_cast<size_t>(bytes()));
  }

 private:
  // Of the last-level cache: with as many bytes read, more would drive out what others keep there.
  static constexpr int64_t kShareOfCache = 4;

  int64_t groups_;
  int tile_n_;
  int64_t panel_bytes_, group_bytes_;
  bool stream_;
};

}  // namespace tessera
