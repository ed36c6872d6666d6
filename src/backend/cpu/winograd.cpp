#include "backend/cpu/winograd.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "backend/cpu/arena.h"
#include "backend/cpu/deal_out.h"
#include "core/cache_line.h"
#include "core/tile_math.h"
#include "core/winograd_shape.h"
#include "cpu/winograd_abi.h"

namespace tessera {
namespace {

// Of the workspace, the tiles of one thread.
constexpr int64_t kMostTiles = int64_t{4} << 20;

class WinogradKernel : public CpuKernel {
 public:
  WinogradKernel(std::shared_ptr<CpuModule> module, const ArchSpec& arch, const Problem& problem,
                 const Choice& choice)
      : CpuKernel(std::move(module), arch, problem, choice),
        shape_(winograd_shape(view_, config_)),
        panels_(view_.groups * shape_.panels),
        turns_(view_.groups / shape_.groups_at_once) {
    spare_threads();
    at_once_ = panels_;
    if (!view_.b_prepacked && panels_ * shape_.panel_bytes > kMostWinogradPanels) {
      const int64_t whole = shape_.groups_at_once;  // groups have one panel then
      at_once_ = std::max(kMostWinogradPanels / shape_.panel_bytes / whole, int64_t{1}) * whole;
    }
    shares_ = winograd_shares(view_, shape_, config_, arch, threads_);
    // As many tiles as the config wants, as memory bounds and as leave every thread a block; all blocks of
    // about one size.
    const int64_t share = ceil_div(shape_.all_tiles * turns_ * shares_, threads_);
    const int64_t fit = std::max<int64_t>(kMostTiles / shape_.tile_bytes(), 1);
    const int64_t most = std::min({std::max<int64_t>(config_.block_m, 1), fit, share, shape_.all_tiles});
    blocks_ = ceil_div(shape_.all_tiles, most);
    tiles_ = std::max<int64_t>(ceil_div(shape_.all_tiles, blocks_), config_.tile_m);
    tile_point_ = odd_lines(tiles_ * shape_.tile_row);
    sums_point_ = odd_lines(tiles_ * shape_.sums_row);
    thread_bytes_ = thread_share(shape_.points * (tile_point_ + sums_point_));
    zeros_.assign(static_cast<size_t>(shape_.groups_at_once * shape_.channels), 0.0f);
    set_arguments();
  }

  void run_unchecked(const Buffers& buffers) const override {
    char* space = static_cast<char*>(buffers.workspace ? buffers.workspace : thread_arena(workspace_bytes()));
    char* panels = space + busy_threads() * thread_bytes_;
    tsr::WinogradArgs args = arguments_;
    set_epilogue(args.epilogue, buffers);
    const bool sums = args.epilogue.alpha != 0.0f;  // otherwise A and B are not looked at
    for (int64_t first = 0; first < panels_; first += at_once_) {
      const int64_t last = std::min(first + at_once_, panels_);
      if (view_.b_prepacked) {
        panels = static_cast<char*>(const_cast<void*>(buffers.b));
      } else if (sums) {
        transform_filter(buffers.b, view_.b.group_stride, first, last, panels);
      }
      // Groups at once, the fastest index: their tiles are neighbours in memory.
      const int64_t turn_panels = shape_.panels * shape_.groups_at_once, turn = first / turn_panels,
                    turns = ceil_div(last, turn_panels) - turn;
      // Shares of the panels, the slowest: a thread begins with some that it has transformed.
      deal_out(shares_ * blocks_ * turns, busy_threads(), [&](int64_t i, int thread) {
        const int64_t share = i / turns / blocks_, begin = first + (last - first) * share / shares_,
                      end = first + (last - first) * (share + 1) / shares_;
        run_block(args, buffers, i / turns % blocks_, (turn + i % turns) * shape_.groups_at_once, begin, end,
                  panels + (begin - first) * shape_.panel_bytes, space + thread * thread_bytes_);
      });
    }
  }

  size_t workspace_bytes() const override {
    const int64_t panels = view_.b_prepacked ? 0 : at_once_ * shape_.panel_bytes;
    return static_cast<size_t>(busy_threads() * thread_bytes_ + panels);
  }
  size_t panels_bytes() const override {
    return view_.b_prepacked ? static_cast<size_t>(panels_ * shape_.panel_bytes) : 0;
  }

  void pack_b_unchecked(const void* b, void* packed, int64_t ldb) const override {
    const Operand filter = b_to_pack(ldb);
    transform_filter(b, filter.group_stride, 0, panels_, static_cast<char*>(packed));
    prefer_large_pages(packed, panels_bytes());
  }

 private:
  int busy_threads() const {
    return static_cast<int>(std::min<int64_t>(threads_, blocks_ * turns_ * shares_));
  }

  // What all calls have in common.
  void set_arguments() {
    const Window& window = *view_.window;
    const int64_t size = bytes_of(view_.a.type), weight = bytes_of(view_.b.type);
    tsr::WinogradArgs& args = arguments_;
    int64_t tap = (view_.b.row_block ? view_.b.block_stride : shape_.channels * view_.b.row_stride) * weight;
    for (size_t i = window.axes.size(); i-- > 0;) {
      const WindowAxis& x = window.axes[i];
      // A filter that is walked backwards is one walked forwards from its last tap.
      const bool turned = x.taps > 1 && x.spread < 0;
      args.tiles.axes[i] = {.positions = x.positions,
                            .tiles = shape_.tiles[i],
                            .shift = x.shift - (turned ? x.taps - 1 : 0),
                            .size = x.size,
                            .stride = x.stride * size,
                            .tap = turned ? -tap : tap};
      if (turned) filter_at_ += (x.taps - 1) * tap;
      tap *= x.taps;
    }
    args.channels = shape_.channels;
    args.columns = view_.n;
    args.groups = shape_.groups_at_once;
    args.panel_bytes = shape_.panel_bytes;
    args.point_bytes = shape_.point_bytes;
    args.filter_channel = view_.b.row_stride * weight;
    args.filter_column = view_.b.col_stride * weight;
    args.tiles.image_bytes = window.image_stride * size;
    args.tiles.zeros = zeros_.data();
    args.tiles.channels = shape_.groups_at_once * shape_.channels;
    args.tiles.row = shape_.tile_row;
    args.tiles.point = tile_point_;
    args.sums_row = shape_.sums_row;
    args.sums_point = sums_point_;
  }

  // Panels [first, last), counted through all groups, of the filter of all groups to `panels`. Where they are
  // fewer than the threads, each is cut along its channels.
  void transform_filter(const void* b, int64_t group_stride, int64_t first, int64_t last,
                        char* panels) const {
    constexpr int64_t kUnit = 16;  // channels: no vector is cut
    const int64_t units = ceil_div(shape_.channels, kUnit);
    const int64_t pieces = std::min(ceil_div(threads_, last - first), units);
    deal_out((last - first) * pieces, threads_, [&](int64_t task, int) {
      const int64_t i = task / pieces, piece = task % pieces, panel = first + i;
      const int64_t channel = units * piece / pieces * kUnit,
                    behind = std::min(units * (piece + 1) / pieces * kUnit, shape_.channels);
      tsr::WinogradArgs args = arguments_;
      args.phase = tsr::WinogradPhase::filter;
      args.filter = static_cast<const char*>(b) + filter_at_ +
                    panel / shape_.panels * group_stride * bytes_of(view_.b.type);
      args.panel_begin = panel % shape_.panels;
      args.panel_end = args.panel_begin + 1;
      args.panels = panels + i * shape_.panel_bytes + channel * config_.tile_n * 4;
      args.filter += channel * args.filter_channel;
      args.channels = behind - channel;
      entry_(&args);
    });
  }

  // A block of tiles of the groups from `group` on, of their panels those in [first, last).
  void run_block(tsr::WinogradArgs args, const Buffers& buffers, int64_t block, int64_t group, int64_t first,
                 int64_t last, char* panels, char* own) const {
    args.phase = tsr::WinogradPhase::block;
    set_group(args.epilogue, buffers, group);
    const int64_t begin = std::max(first, group * shape_.panels);
    args.panel_begin = begin % shape_.panels;
    args.panel_end = std::min(last, (group + 1) * shape_.panels) - group * shape_.panels;
    args.panels = panels + (begin - first) * shape_.panel_bytes;
    args.tiles.in = group_a(buffers, group);
    args.tiles.begin = shape_.all_tiles * block / blocks_;
    args.tiles.end = shape_.all_tiles * (block + 1) / blocks_;
    args.tiles.to = own;
    args.sums = own + shape_.points * tile_point_;
    entry_(&args);
  }

  WinogradShape shape_;
  int64_t panels_, turns_;  // of all groups, of which several take one turn
  int64_t blocks_ = 1, tiles_ = 1, tile_point_ = 0, sums_point_ = 0, thread_bytes_ = 0;
  int64_t at_once_ = 1;    // panels whose transformed filter is kept
  int64_t shares_ = 1;     // of the panels, that threads take
  int64_t filter_at_ = 0;  // bytes to the first tap as it is walked
  std::vector<float> zeros_;
  tsr::WinogradArgs arguments_{};
};

}  // namespace

std::unique_ptr<Kernel> make_winograd_kernel(std::shared_ptr<CpuModule> module, const ArchSpec& arch,
                                             const Problem& problem, const Choice& choice) {
  return std::make_unique<WinogradKernel>(std::move(module), arch, problem, choice);
}

}  // namespace tessera
