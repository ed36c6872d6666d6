// B packed once and read by every later run: per group, panels of tile_n columns over the whole of k, as
// backend/cpu/pack.h makes them, and behind them columns past whole vectors that are dot products, as they
// are in memory, each along k.
#pragma once

#include <cstring>

#include "backend/cpu/arena.h"
#include "backend/cpu/pack.h"
#include "core/arch_spec.h"
#include "core/cache_line.h"
#include "core/gemm_view.h"
#include "core/tile_math.h"

namespace tessera {

class PrepackedB {
 public:
  // `group` elements of k per word; `correction`: see PanelShape. `edge`: columns behind the panels.
  PrepackedB(const GemmView& view, int tile_n, int group, bool correction, const ArchSpec& arch,
             int64_t edge = 0)
      : groups_(view.groups),
        columns_(view.n - edge),
        tile_n_(tile_n),
        panel_bytes_(static_cast<int64_t>(tessera::panel_bytes({view.k, tile_n, tile_n, correction}, group))),
        edge_at_(panel_bytes_ * ceil_div(columns_, tile_n)),
        group_bytes_(edge_at_ + round_up(edge * view.k * bytes_of(view.b.type), kCacheLine)),
        stream_(bytes() >= arch.l3.bytes / kShareOfCache) {}

  int64_t panel_bytes() const { return panel_bytes_; }
  int64_t edge_at() const { return edge_at_; }  // bytes from a group's panels to the columns behind them
  int64_t group_bytes() const { return group_bytes_; }  // of one group
  bool stream() const { return stream_; }               // PanelShape::stream
  int64_t bytes() const { return groups_ * group_bytes_; }

  // All of `b`, which lies as `operand` says, to bytes() at `packed`; with group stride 0 the same for each
  // group. `pack_panel(group's b, operand, first column, panel)` packs up to tile_n columns.
  template <class PackPanelAt>
  void pack(const Operand& operand, const void* b, void* packed, const PackPanelAt& pack_panel) const {
    pack(operand, b, packed, pack_panel, [](const char*, const Operand&, char*) {});
  }
  // The same with `pack_edge(group's b, operand, where it goes)`.
  template <class PackPanelAt, class PackEdge>
  void pack(const Operand& operand, const void* b, void* packed, const PackPanelAt& pack_panel,
            const PackEdge& pack_edge) const {
    char* to = static_cast<char*>(packed);
    for (int64_t g = 0; g < groups_; ++g) {
      const char* from = static_cast<const char*>(b) + g * operand.group_stride * bytes_of(operand.type);
      for (int64_t n = 0; n < columns_; n += tile_n_, to += panel_bytes_) {
        // Columns that do not exist are multiplied too where the kernel takes whole panels.
        if (columns_ - n < tile_n_) std::memset(to, 0, static_cast<size_t>(panel_bytes_));
        pack_panel(from, operand, n, to);
      }
      std::memset(to, 0, static_cast<size_t>(group_bytes_ - edge_at_));
      pack_edge(from, operand, to);
      to += group_bytes_ - edge_at_;
    }
    prefer_large_pages(packed, static_cast<size_t>(bytes()));
  }

 private:
  // Of the last-level cache: with as many bytes read, more would drive out what others keep there.
  static constexpr int64_t kShareOfCache = 4;

  int64_t groups_, columns_;
  int tile_n_;
  int64_t panel_bytes_, edge_at_, group_bytes_;
  bool stream_;
};

}  // namespace tessera
