#include "backend/cpu/groups.h"

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <numeric>
#include <vector>

#include "backend/cpu/arena.h"
#include "backend/cpu/deal_out.h"
#include "backend/cpu/groups_plan.h"
#include "core/cache_line.h"
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
    spare_threads();
    plan_ = groups_plan(view_, config_, shape_, arch, threads_);
  }

  void run_unchecked(const Buffers& buffers) const override {
    tsr::GroupsArgs args = arguments();
    set_epilogue(args.epilogue, buffers);
    args.epilogue.c_stride *= shape_.joined;
    char* space = static_cast<char*>(buffers.workspace ? buffers.workspace : thread_arena(workspace_bytes()));
    args.panels = static_cast<float*>(view_.b_prepacked ? const_cast<void*>(buffers.b) : space);
    if (args.epilogue.beta == 0.0f && plan_.apart_bytes > 0) args.apart = space + space_for_panels();
    args.in = shape_.gradient ? buffers.b : buffers.a;
    args.other = shape_.gradient ? buffers.a : buffers.b;
    using enum tsr::GroupsPhase;
    if (!shape_.gradient && !view_.b_prepacked) over_chunks(args, panel_threads(), {weights});
    if (plan_.by_lines) {
      over_lines(args);
      if (shape_.gradient) over_chunks(args, panel_threads(), {finish});
    } else if (shape_.gradient) {
      over_chunks(args, threads_, {lines, finish});
    } else {
      over_chunks(args, threads_, {lines});
    }
  }

  size_t workspace_bytes() const override {
    return space_for_panels() + static_cast<size_t>(threads_ * 2 * plan_.apart_bytes);
  }
  size_t panels_bytes() const override { return view_.b_prepacked ? static_cast<size_t>(panel_bytes()) : 0; }

  void pack_b_unchecked(const void* b, void* packed, int64_t ldb) const override {
    b_to_pack(ldb);  // refuses what cannot be packed
    tsr::GroupsArgs args = arguments();
    args.other = b;
    args.panels = static_cast<float*>(packed);
    over_chunks(args, panel_threads(), {tsr::GroupsPhase::weights});
  }

 private:
  size_t space_for_panels() const {
    if (view_.b_prepacked) return 0;
    const int64_t apart = shape_.gradient && !plan_.by_lines ? threads_ * kPageBytes : 0;
    return static_cast<size_t>(plan_.parts * thread_share(panel_bytes()) + apart);
  }
  int64_t panel_bytes() const {
    return shape_.chunks * shape_.chunk_floats * static_cast<int64_t>(sizeof(float));
  }

  tsr::GroupsArgs arguments() const {
    const auto& axes = shape_.axes;
    tsr::GroupsArgs args{};
    args.panel_part = thread_share(panel_bytes()) / static_cast<int64_t>(sizeof(float));
    args.parts = static_cast<int>(plan_.parts);
    args.in_channels = shape_.groups * shape_.inner;
    args.out_channels = shape_.groups * shape_.outer;
    args.in_d = axes[0].size;
    args.in_h = axes[1].size;
    args.in_w = axes[2].size;
    args.out_d = axes[0].positions;
    args.out_h = axes[1].positions;
    args.out_w = axes[2].positions;
    args.in_pixels = view_.window->images * axes[0].size * axes[1].size * axes[2].size;
    args.out_pixels = plan_.lines * axes[2].positions;
    args.pad_w = axes[2].spread < 0 ? axes[2].shift : -axes[2].shift;
    args.axis_d = axis_d_.entries.data();
    args.axis_h = axis_h_.entries.data();
    args.tap_step_d = axis_d_.tap_step;
    args.tap_step_h = axis_h_.tap_step;
    args.at_step_d = axis_d_.at_step;
    args.at_step_h = axis_h_.at_step;
    args.taps_d = axes[0].taps;
    args.taps_h = axes[1].taps;
    args.band_h = plan_.band_h;
    args.line_begin = 0;
    args.line_end = plan_.lines;
    args.chunk_begin = 0;
    args.chunk_end = shape_.chunks;
    args.line_block = plan_.line_block;
    args.tile_block = plan_.tile_block;
    args.fetch = plan_.fetch;
    args.fetch_line = plan_.fetch_line;
    args.apart_bytes = plan_.apart_bytes;
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

  // Of a phase that reads and writes panels alone.
  int panel_threads() const { return threads_for(plan_.parts * panel_bytes(), threads_); }

  // Each thread goes through the phases with its chunks. Sums that only it meets lie apart from the others'.
  void over_chunks(const tsr::GroupsArgs& whole, int most,
                   std::initializer_list<tsr::GroupsPhase> phases) const {
    const int64_t threads = std::min<int64_t>(most, shape_.chunks);
    auto part = [&](int64_t p, int) {
      tsr::GroupsArgs args = whole;
      if (phases.size() > 1) args.panels += p * kPageBytes / static_cast<int64_t>(sizeof(float));
      args.chunk_begin = shape_.chunks * p / threads;
      args.chunk_end = shape_.chunks * (p + 1) / threads;
      for (const tsr::GroupsPhase phase : phases) {
        args.phase = phase;
        entry_(&args);
      }
    };
    deal_out(threads, static_cast<int>(threads), part);
  }

  // Sums of the filter's gradient go to a panel for each part.
  void over_lines(const tsr::GroupsArgs& whole) const {
    const int parts =
        static_cast<int>(shape_.gradient ? plan_.parts : std::min<int64_t>(threads_, plan_.lines));
    auto part = [&](int64_t p, int) {
      tsr::GroupsArgs args = whole;
      args.phase = tsr::GroupsPhase::lines;
      if (shape_.gradient) args.panels += p * args.panel_part;
      if (args.apart) args.apart += p * 2 * plan_.apart_bytes;
      args.line_begin = plan_.lines * p / parts;
      args.line_end = plan_.lines * (p + 1) / parts;
      entry_(&args);
    };
    deal_out(parts, parts, part);
  }

  GroupsShape shape_;
  AxisTable axis_d_, axis_h_;
  GroupsPlan plan_;
};

}  // namespace

std::unique_ptr<Kernel> make_groups_kernel(std::shared_ptr<CpuModule> module, const ArchSpec& arch,
                                           const Problem& problem, const Choice& choice) {
  return std::make_unique<GroupsKernel>(std::move(module), arch, problem, choice);
}

}  // namespace tessera
