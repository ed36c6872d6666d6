#include "backend/cpu/amx_gradient.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "backend/cpu/ahead.h"
#include "backend/cpu/amx_gradient_copies.h"
#include "backend/cpu/amx_gradient_plan.h"
#include "backend/cpu/arena.h"
#include "backend/cpu/deal_out.h"
#include "backend/cpu/line_blocks.h"
#include "backend/cpu/tile_configuration.h"
#include "core/tile_math.h"

namespace tessera {
namespace {

// A task takes one piece of some groups: blocks of lines are copied a group at a time, and their products
// added to its sums. Where there are fewer tasks than threads, each is shared: threads take some of the
// blocks, and their sums are added up.
class AmxGradientKernel : public PartKernel {
 public:
  AmxGradientKernel(std::shared_ptr<CpuModule> module, const ArchSpec& arch, StridedPart part,
                    const Problem& problem, const Choice& choice)
      : PartKernel(std::move(module), arch, std::move(part.view), problem, choice),
        plan_(view_, arch, spare_threads()),
        copies_(view_, plan_) {
    for (int64_t c = 0; c < plan_.channel_tiles(); ++c) {
      const int64_t live = std::min<int64_t>(16, view_.window->channels - c * 16);
      for (int64_t t = 0; t < plan_.taps(); ++t)
        columns_.push_back({t * view_.window->channels + c * 16, live});
    }
  }

  void run_unchecked(const Buffers& buffers) const override {
    const tsr::EpilogueArgs epilogue = epilogue_args(buffers);
    char* space = static_cast<char*>(buffers.workspace ? buffers.workspace : thread_arena(workspace_bytes()));
    const bool reads = epilogue.alpha != 0.0f;  // BLAS: alpha 0 reads neither operand
    if (plan_.shares() == 1 || !reads) {
      deal_out(plan_.tasks(), threads_, [&](int64_t task, int thread) {
        char* own = space + thread * thread_bytes();
        char* const sums = own + copies_bytes();
        if (reads) return add_blocks(buffers, task, 0, plan_.blocks().count(), own, sums, &epilogue);
        std::memset(sums, 0, static_cast<size_t>(plan_.groups_at_once() * plan_.sums_bytes()));
        leave(buffers, task, epilogue, sums);
      });
      return;
    }
    char* const sums = space + busy_threads() * thread_bytes();
    const int64_t count = plan_.blocks().count(), bytes = share_bytes();
    deal_out(plan_.tasks() * plan_.shares(), threads_, [&](int64_t i, int thread) {
      const int64_t share = i % plan_.shares();
      add_blocks(buffers, i / plan_.shares(), count * share / plan_.shares(),
                 count * (share + 1) / plan_.shares(), space + thread * thread_bytes(), sums + i * bytes,
                 nullptr);
    });
    // Before tasks leave, pieces of their sums are added up, as many as there are threads for.
    const int64_t pieces = ceil_div(threads_, plan_.tasks()),
                  tiles = plan_.groups_at_once() * plan_.sums_bytes() / kTileBytes;
    deal_out(plan_.tasks() * pieces, threads_, [&](int64_t i, int) {
      const int64_t piece = i % pieces, first = tiles * piece / pieces, behind = tiles * (piece + 1) / pieces;
      add_up(sums + i / pieces * plan_.shares() * bytes + first * kTileBytes, behind - first);
    });
    deal_out(plan_.tasks(), threads_, [&](int64_t task, int) {
      leave(buffers, task, epilogue, sums + task * plan_.shares() * bytes);
    });
  }

  size_t workspace_bytes() const override {
    const int64_t shared = plan_.shares() == 1 ? 0 : plan_.tasks() * plan_.shares() * share_bytes();
    return static_cast<size_t>(busy_threads() * thread_bytes() + shared);
  }
  size_t panels_bytes() const override { return 0; }
  void pack_b_unchecked(const void*, void*, int64_t) const override {}

 private:
  static constexpr int64_t kElement = AmxGradientPlan::kElement;

  int64_t copies_bytes() const {
    return copies_.left_bytes() + copies_.right_bytes() + copies_.table_bytes();
  }
  int64_t thread_bytes() const {
    return thread_share(plan_.groups_at_once() * plan_.sums_bytes() + copies_bytes());
  }
  int64_t share_bytes() const { return thread_share(plan_.groups_at_once() * plan_.sums_bytes()); }
  int64_t busy_threads() const { return std::min<int64_t>(threads_, plan_.tasks() * plan_.shares()); }

  // So many tiles of the first share's sums and the others'.
  void add_up(char* sums, int64_t tiles) const {
    auto* all = reinterpret_cast<float*>(sums);
    const int64_t floats = tiles * kTileBytes / static_cast<int64_t>(sizeof(float));
    for (int64_t share = 1; share < plan_.shares(); ++share) {
      const auto* other = reinterpret_cast<const float*>(sums + share * share_bytes());
      for (int64_t i = 0; i < floats; ++i) all[i] += other[i];
    }
  }

  // Groups that read parts of lines of memory, which the hardware does not see coming, share the next block
  // among them; where they are too few for that the first one asks for an image's lines.
  bool shares_lines() const {
    return plan_.groups_at_once() == view_.groups && view_.groups > 1 && plan_.blocks().pieces() == 1;
  }
  bool fetches_blocks() const { return shares_lines() && view_.groups >= kLeastShares; }
  bool fetches_lines() const { return shares_lines() && view_.groups < kLeastShares; }
  Ahead gradients_of(const Buffers& buffers, const LineBlock& b) const {
    const int64_t line = plan_.shape().x.positions * view_.a.col_stride * kElement,
                  down = plan_.shape().y.positions;
    const char* begin = static_cast<const char*>(buffers.a) + (b.plane0 * down + b.line0) * line;
    return {begin, begin + ((b.planes - 1) * down + b.lines) * line};
  }

  tsr::AmxGradientArgs arguments(const AmxGradientPiece& p) const {
    tsr::AmxGradientArgs args{};
    args.tile_at = copies_.tile_at().data();
    args.right_plane_bytes = copies_.plane_bytes();
    args.columns = columns_.data() + p.channel0 * plan_.taps();
    args.row_tiles = p.row1 - p.row0;
    args.col_tiles = (p.channel1 - p.channel0) * plan_.taps();
    args.row0 = p.row0 * 16;
    args.rows = std::min(p.row1 * 16, view_.m) - args.row0;
    return args;
  }

  // Products of the blocks [begin, end), at least one, to a task's sums, and from there to C where `whole`
  // says how.
  void add_blocks(const Buffers& buffers, int64_t task, int64_t begin, int64_t end, char* space, char* sums,
                  const tsr::EpilogueArgs* whole) const {
    const AmxGradientPiece p = plan_.piece(task);
    const auto [group0, group1, row0, row1, channel0, channel1] = p;
    char* left = space;
    char* right = left + copies_.left_bytes();
    auto* pixels = reinterpret_cast<const char**>(right + copies_.right_bytes());
    tsr::AmxGradientArgs args = arguments(p);
    args.left = left;
    args.right = right;
    // Steps reach beyond lines, where gradients are zeros: what they meet must be zeros too.
    std::memset(right, 0, static_cast<size_t>(copies_.right_bytes()));
    tsr::EpilogueArgs epilogue{};
    if (whole) epilogue = *whole;
    args.epilogue = &epilogue;
    const TileConfiguration tiles;
    for (int64_t i = begin; i < end; ++i) {
      const LineBlock b = plan_.blocks().block(i);
      args.first = i == begin;
      args.last = whole && i == end - 1;
      args.planes = b.planes;
      args.steps = plan_.lines().steps(b.lines);
      args.left_tile_bytes = b.planes * args.steps * kTileBytes;
      Ahead images, gradients;
      if (fetches_blocks() && i + 1 < end) {
        const LineBlock next = plan_.blocks().block(i + 1);
        images = images_of(next, *view_.window, plan_.shape(), static_cast<const char*>(buffers.b), kElement);
        gradients = gradients_of(buffers, next);
      }
      for (int64_t g = group0; g < group1; ++g) {
        images.fetch(g - group0, group1 - group0);
        gradients.fetch(g - group0, group1 - group0);
        copies_.turn_gradients(group_a(buffers, g), b, row0, row1, left);
        copies_.copy_images(group_b(buffers, g), b, channel0, channel1, fetches_lines() && g == group0, right,
                            pixels);
        args.sums = reinterpret_cast<float*>(sums + (g - group0) * plan_.sums_bytes());
        if (whole) set_group(epilogue, buffers, g);
        entry_(&args);
      }
    }
  }

  // A task's sums to C.
  void leave(const Buffers& buffers, int64_t task, tsr::EpilogueArgs epilogue, char* sums) const {
    const AmxGradientPiece p = plan_.piece(task);
    tsr::AmxGradientArgs args = arguments(p);
    args.epilogue = &epilogue;
    args.last = 1;
    const TileConfiguration tiles;
    for (int64_t g = p.group0; g < p.group1; ++g) {
      args.sums = reinterpret_cast<float*>(sums + (g - p.group0) * plan_.sums_bytes());
      set_group(epilogue, buffers, g);
      entry_(&args);
    }
  }

  AmxGradientPlan plan_;
  AmxGradientCopies copies_;
  std::vector<tsr::AmxColumns> columns_;  // of all
};

}  // namespace

std::unique_ptr<PartKernel> make_amx_gradient(std::shared_ptr<CpuModule> module, const ArchSpec& arch,
                                              StridedPart part, const Problem& problem,
                                              const Choice& choice) {
  return std::make_unique<AmxGradientKernel>(std::move(module), arch, std::move(part), problem, choice);
}

}  // namespace tessera
