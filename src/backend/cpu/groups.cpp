#include "backend/cpu/groups.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "backend/cpu/arena.h"
#include "backend/cpu/deal_out.h"
#include "core/cache_line.h"
#include "core/caches.h"
#include "core/groups_shape.h"
#include "core/tile_math.h"
#include "cpu/groups_abi.h"

namespace tessera {
namespace {

// What each position along an axis meets. See GroupsArgs.
struct AxisTable {
  explicit AxisTable(const WindowAxis& a) {
    const int64_t common = std::gcd(a.divide, a.spread);
    tap_step = static_cast<int>(a.divide / common);
    at_step = static_cast<int>(a.spread / common);
    for (int64_t p = 0; p < a.positions; ++p) {
      tsr::GroupsAxis entry{0, 0, 0};
      for (int64_t t = 0; t < a.taps; ++t) {
        const int64_t at = p * a.step + t * a.spread + a.shift;
        if (at % a.divide != 0 || at < 0 || at / a.divide >= a.size) continue;
        if (entry.count++ == 0) {
          entry.first = static_cast<int>(t);
          entry.at = at / a.divide;
        }
      }
      entries.push_back(entry);
    }
  }

  std::vector<tsr::GroupsAxis> entries;
  int tap_step, at_step;
};

class GroupsKernel : public CpuKernel {
 public:
  GroupsKernel(std::shared_ptr<CpuModule> module, const ArchSpec& arch, const Problem& problem,
               const Choice& choice)
      : CpuKernel(std::move(module), arch, problem, choice),
        shape_(groups_shape(view_, config_)),
        axis_d_(shape_.axes[0]),
        axis_h_(shape_.axes[1]) {
    const auto& axes = shape_.axes;
    lines_ = view_.window->images * axes[0].positions * axes[1].positions;
    spare_threads();
    // Chunks take turns over as many lines as stay in the second-level cache.
    const double line_bytes = static_cast<double>(shape_.groups) *
                              static_cast<double>(axes[2].size * shape_.inner * bytes_of(view_.a.type) +
                                                  axes[2].positions * shape_.outer * bytes_of(view_.b.type));
    const bool slow = !last_level_is_fast(arch);
    // A fast last-level cache needs no asking ahead, while it holds the operands: lines asked for in vain
    // hold up those that are waited for. Planes that were met long ago are lost from it sooner.
    const double held = !shape_.gradient ? 1.0 / 3 : axes[0].taps > 1 ? 1.0 / 4 : 3.0 / 8;
    // A slow one does as soon as L2 does not hold them; what is read in order, as forward, the processor sees
    // coming where half of it is in L2 still.
    const double in_l2 =
        static_cast<double>(arch.l2.bytes) * (axes[2].spread > 0 && !shape_.gradient ? 2 : 1);
    fetch_ = view_.bytes() > (slow ? in_l2 : static_cast<double>(arch.l3.bytes) * held);
    // What a chunk meets once L1 holds it is asked for a line ahead, while that fits beside the lines it
    // meets again. Pixels that begin within lines of memory take more of them, and those of L2 come in time
    // as it is.
    const auto whole_lines = [&](DType type) { return shape_.groups * bytes_of(type) % kCacheLine == 0; };
    const int64_t met = axes[0].taps * axes[1].taps + 1, ahead = 2;
    fetch_line_ = axes[1].step == 1 && axes[2].step == 1 && whole_lines(view_.a.type) &&
                  whole_lines(view_.b.type) && view_.bytes() > static_cast<double>(arch.l2.bytes) &&
                  (met + ahead) * axes[2].size * shape_.chunk * bytes_of(view_.b.type) <= arch.l1.bytes;
    line_block_ =
        std::max<int64_t>(static_cast<int64_t>(static_cast<double>(arch.l2.bytes) / 4 / line_bytes), 2);
    // The longer lines are on their way, the more of that cache they need. A result's chunk is worth its
    // preparation for a few tiles.
    if (slow) {
      constexpr int64_t kLeastTiles = 8;
      const int64_t tiles = ceil_div(axes[2].positions, shape_.columns);
      const int64_t least = shape_.gradient ? 2 : std::max<int64_t>(ceil_div(kLeastTiles, tiles), 2);
      line_block_ = std::max(line_block_ / 2, std::min(least, line_block_));
    }
    // A gradient's chunk passes over its lines once for every channel of a group that lanes take.
    if (shape_.gradient && shape_.steps > 1) {
      const int64_t chunk = shape_.chunk, across = shape_.across();
      const int64_t chunk_bytes =
          axes[2].size * ceil_div(chunk * shape_.inner, across) * bytes_of(view_.b.type) +
          axes[2].positions * ceil_div(chunk * shape_.outer, across) * bytes_of(view_.a.type);
      line_block_ = std::clamp<int64_t>(arch.l1.bytes / 2 / chunk_bytes, 2, line_block_);
    }
    // Chunks that begin anywhere share cache lines with their neighbours.
    if (shape_.gradient && shape_.chunks > 1 &&
        shape_.groups * shape_.outer * bytes_of(view_.a.type) % kCacheLine != 0)
      line_block_ = std::clamp<int64_t>(static_cast<int64_t>(static_cast<double>(arch.l1.bytes) / line_bytes),
                                        2, line_block_);
    // What is asked for ahead is dropped while many reads wait for L2: with few columns at a time, the lines
    // that neighbouring lines of a result share are met again in L1. Narrow pixels lie one after the other as
    // it is.
    constexpr int64_t kPixel = 128;
    const int64_t lines_under = slow ? 2 : 4;
    tile_block_ = axes[2].positions;
    if (fetch_ && !shape_.gradient && axes[2].spread > 0 && axes[2].step > 1 &&
        shape_.groups * shape_.inner * bytes_of(view_.a.type) >= kPixel) {
      tile_block_ = 1;
      line_block_ = std::min(line_block_, lines_under);
    }
    // Planes take turns where what they share of the lines read would be lost from that cache between them.
    band_h_ = axes[1].positions;
    const double in_line = static_cast<double>(shape_.groups * shape_.inner * axes[2].size *
                                               bytes_of((shape_.gradient ? view_.b : view_.a).type));
    const auto bytes_in_turn = [&](int64_t lines) {
      const WindowAxis& h = axes[1];
      const int64_t rows =
          std::min(h.size, ((lines - 1) * h.step + (h.taps - 1) * std::abs(h.spread)) / h.divide + 1);
      return static_cast<double>(lines) * (line_bytes - in_line) +
             static_cast<double>(axes[0].taps * rows) * in_line;
    };
    if (axes[0].taps > 2 && axes[0].divide == 1 && axes[0].positions > 1 && !shape_.blocked) {
      int64_t lines = band_h_;
      while (lines > 1 && bytes_in_turn(lines) > static_cast<double>(arch.l2.bytes) * 3 / 4) --lines;
      if (lines > 1) band_h_ = ceil_div(band_h_, ceil_div(band_h_, lines));  // bands of one height
    }
    by_lines_ = shape_.takes_lines(lines_, threads_, view_.bytes());
    parts_ = shape_.gradient && by_lines_ ? std::min<int64_t>(threads_, lines_) : 1;
    put_results_apart(arch);
  }

  void run_unchecked(const Buffers& buffers) const override {
    tsr::GroupsArgs args = arguments();
    set_epilogue(args.epilogue, buffers);
    args.epilogue.c_stride *= shape_.joined;
    char* space = static_cast<char*>(buffers.workspace ? buffers.workspace : thread_arena(workspace_bytes()));
    args.panels = static_cast<float*>(view_.b_prepacked ? const_cast<void*>(buffers.b) : space);
    if (args.epilogue.beta == 0.0f && apart_bytes_ > 0) args.apart = space + panels_bytes();
    args.in = shape_.gradient ? buffers.b : buffers.a;
    args.other = shape_.gradient ? buffers.a : buffers.b;
    if (!shape_.gradient && !view_.b_prepacked) over_chunks(args, tsr::GroupsPhase::weights);
    if (by_lines_) {
      over_lines(args);
    } else {
      over_chunks(args, tsr::GroupsPhase::lines);
    }
    if (shape_.gradient) over_chunks(args, tsr::GroupsPhase::finish);
  }

  size_t workspace_bytes() const override {
    return panels_bytes() + static_cast<size_t>(threads_ * 2 * apart_bytes_);
  }
  size_t packed_b_bytes() const override { return view_.b_prepacked ? panel_bytes() : 0; }

  void pack_b(const void* b, void* packed, int64_t ldb) const override {
    b_to_pack(ldb);  // refuses what cannot be packed
    tsr::GroupsArgs args = arguments();
    args.other = b;
    args.panels = static_cast<float*>(packed);
    over_chunks(args, tsr::GroupsPhase::weights);
  }

 private:
  // Lines of the result that go past the caches but not from the kernel's registers: so few in a block that
  // two of them stay in L2. Threads that share lines could not tell when one is complete.
  void put_results_apart(const ArchSpec& arch) {
    if (shape_.gradient || !by_lines_ || !result_past_caches(view_, arch) ||
        groups_stream(view_, config_, arch))
      return;
    const auto& axes = view_.window->axes;
    const int64_t line = view_.c.row_stride * bytes_of(view_.c.type) * axes[2].positions *
                         (shape_.blocked ? shape_.block_h : 1);
    if (line > arch.l2.bytes / 4) return;
    line_block_ = std::clamp<int64_t>(arch.l2.bytes / 8 / line, 1, line_block_);
    apart_bytes_ = round_up(line_block_ * line, kCacheLine) + kCacheLine;
  }

  size_t panels_bytes() const {
    return view_.b_prepacked ? 0 : static_cast<size_t>(round_up(parts_ * panel_bytes(), kCacheLine));
  }
  size_t panel_bytes() const {
    return static_cast<size_t>(shape_.chunks * shape_.chunk_floats) * sizeof(float);
  }

  tsr::GroupsArgs arguments() const {
    const auto& axes = shape_.axes;
    tsr::GroupsArgs args{};
    args.panel_part = shape_.chunks * shape_.chunk_floats;
    args.parts = static_cast<int>(parts_);
    args.in_channels = shape_.groups * shape_.inner;
    args.out_channels = shape_.groups * shape_.outer;
    args.in_d = axes[0].size;
    args.in_h = axes[1].size;
    args.in_w = axes[2].size;
    args.out_d = axes[0].positions;
    args.out_h = axes[1].positions;
    args.out_w = axes[2].positions;
    args.in_pixels = view_.window->images * axes[0].size * axes[1].size * axes[2].size;
    args.out_pixels = lines_ * axes[2].positions;
    args.pad_w = axes[2].spread < 0 ? axes[2].shift : -axes[2].shift;
    args.axis_d = axis_d_.entries.data();
    args.axis_h = axis_h_.entries.data();
    args.tap_step_d = axis_d_.tap_step;
    args.tap_step_h = axis_h_.tap_step;
    args.at_step_d = axis_d_.at_step;
    args.at_step_h = axis_h_.at_step;
    args.taps_d = axes[0].taps;
    args.taps_h = axes[1].taps;
    args.band_h = band_h_;
    args.line_begin = 0;
    args.line_end = lines_;
    args.chunk_begin = 0;
    args.chunk_end = shape_.chunks;
    args.line_block = line_block_;
    args.tile_block = tile_block_;
    args.fetch = fetch_;
    args.fetch_line = fetch_line_;
    args.apart_bytes = apart_bytes_;
    if (shape_.blocked) {
      const auto& whole = view_.window->axes;
      const bool forward = whole[2].spread > 0;
      const auto pixel = [&](const WindowAxis& x) { return static_cast<int>(forward ? -x.step : 1); };
      const auto at = [&](const WindowAxis& x) { return static_cast<int>(forward ? -1 : x.divide); };
      const auto dilation = [](const WindowAxis& x) { return static_cast<int>(std::abs(x.spread)); };
      const int64_t taps = view_.window->taps();
      args.blocks = {.filter_h = static_cast<int>(whole[1].taps),
                     .filter_w = static_cast<int>(whole[2].taps),
                     .pixel_h = pixel(whole[1]),
                     .pixel_w = pixel(whole[2]),
                     .at_h = at(whole[1]),
                     .at_w = at(whole[2]),
                     .dilation_h = dilation(whole[1]),
                     .dilation_w = dilation(whole[2]),
                     .first_h = static_cast<int>(shape_.first_h),
                     .first_w = static_cast<int>(shape_.first_w),
                     .outer_apart = forward ? taps * shape_.inner : 1,
                     .tap_apart = forward ? shape_.inner : shape_.outer,
                     .inner_apart = forward ? 1 : taps * shape_.outer,
                     .result_h = whole[1].positions,
                     .result_w = whole[2].positions,
                     .origin_h = shape_.origin_h,
                     .origin_w = shape_.origin_w};
    }
    return args;
  }

  void over_chunks(const tsr::GroupsArgs& whole, tsr::GroupsPhase phase) const {
    const int threads = static_cast<int>(std::min<int64_t>(threads_, shape_.chunks));
    auto part = [&](int64_t p, int) {
      tsr::GroupsArgs args = whole;
      args.phase = phase;
      args.chunk_begin = shape_.chunks * p / threads;
      args.chunk_end = shape_.chunks * (p + 1) / threads;
      entry_(&args);
    };
    deal_out(threads, threads, part);
  }

  // Sums of the filter's gradient go to a panel for each part.
  void over_lines(const tsr::GroupsArgs& whole) const {
    const int parts = static_cast<int>(shape_.gradient ? parts_ : std::min<int64_t>(threads_, lines_));
    auto part = [&](int64_t p, int) {
      tsr::GroupsArgs args = whole;
      args.phase = tsr::GroupsPhase::lines;
      if (shape_.gradient) args.panels += p * args.panel_part;
      if (args.apart) args.apart += p * 2 * apart_bytes_;
      args.line_begin = lines_ * p / parts;
      args.line_end = lines_ * (p + 1) / parts;
      entry_(&args);
    };
    deal_out(parts, parts, part);
  }

  GroupsShape shape_;
  AxisTable axis_d_, axis_h_;
  int64_t lines_ = 0, line_block_ = 1, tile_block_ = 1, band_h_ = 1, parts_ = 1;
  int64_t apart_bytes_ = 0;  // of a block of the result's lines put together apart; 0: none are
  bool by_lines_ = false, fetch_ = false, fetch_line_ = false;
};

}  // namespace

std::unique_ptr<Kernel> make_groups_kernel(std::shared_ptr<CpuModule> module, const ArchSpec& arch,
                                           const Problem& problem, const Choice& choice) {
  return std::make_unique<GroupsKernel>(std::move(module), arch, problem, choice);
}

}  // namespace tessera
