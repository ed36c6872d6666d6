#include "backend/cpu/amx_lines.h"

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>
#include <vector>

#include "backend/cpu/ahead.h"
#include "backend/cpu/amx_plan.h"
#include "backend/cpu/arena.h"
#include "backend/cpu/cpu_kernel.h"
#include "backend/cpu/deal_out.h"
#include "backend/cpu/gather.h"
#include "backend/cpu/line_copies.h"
#include "backend/cpu/pack.h"
#include "backend/cpu/tile_configuration.h"
#include "core/tile_math.h"

namespace tessera {
namespace {

class AmxLinesKernel : public PartKernel {
 public:
  AmxLinesKernel(std::shared_ptr<CpuModule> module, const ArchSpec& arch, StridedPart part,
                 const Problem& problem, const Choice& choice)
      : PartKernel(std::move(module), arch, std::move(part.view), problem, choice),
        element_(bytes_of(view_.a.type)),
        group_(k_group(compute_type(view_.a.type, inst_))),
        step_(inst_.k),
        lines_(view_, group_, step_, arch, threads_),
        shape_(lines_.shape()),
        steps_(view_.k > 0 ? shape_.steps() : 0),
        tails_apart_(lines_have_tails(lower(problem), group_, step_)),
        passing_(panel_bytes() * 2 > arch.l1.bytes ? tsr::kRightPasses : tsr::kNonePasses),
        streams_(streams_c(view_, config_, arch)),
        fetches_c_(!streams_ && (view_.groups >= kLeastShares || writes_fast(arch))),
        group_cuts_(std::min(view_.groups, ceil_div(threads_, blocks().count()))),
        panel_cuts_(std::clamp<int64_t>(threads_ / (blocks().count() * group_cuts_), 1, columns())) {
    order_taps(std::move(part.taps));
  }

  void run_unchecked(const Buffers& buffers) const override {
    const tsr::EpilogueArgs epilogue = epilogue_args(buffers);
    char* space = static_cast<char*>(buffers.workspace ? buffers.workspace : thread_arena(workspace_bytes()));
    const bool reads = epilogue.alpha != 0.0f && steps_ > 0;  // BLAS: alpha 0 reads neither operand
    const char* packed = static_cast<const char*>(buffers.b);
    if (!view_.b_prepacked) {
      if (reads) pack_groups(static_cast<const char*>(buffers.b), view_.b, space);
      packed = space;
      space += thread_share(packed_bytes());  // all threads read them
    }
    deal_out_in_turn(tasks(), busy_threads(), [&](int64_t t, int thread) {
      const int64_t cuts = group_cuts_ * panel_cuts_, group = t % cuts / panel_cuts_, panel = t % panel_cuts_;
      const Share share{.group0 = view_.groups * group / group_cuts_,
                        .group1 = view_.groups * (group + 1) / group_cuts_,
                        .panel0 = columns() * panel / panel_cuts_,
                        .panel1 = columns() * (panel + 1) / panel_cuts_};
      run_block(buffers, t / cuts, share, reads, packed, epilogue, space + thread * thread_bytes());
    });
  }

  size_t workspace_bytes() const override {
    return static_cast<size_t>((view_.b_prepacked ? 0 : thread_share(packed_bytes())) +
                               busy_threads() * thread_bytes());
  }
  size_t panels_bytes() const override { return view_.b_prepacked ? static_cast<size_t>(packed_bytes()) : 0; }
  void pack_b_unchecked(const void* b, void* packed, int64_t ldb) const override {
    pack_groups(static_cast<const char*>(b), b_to_pack(ldb), static_cast<char*>(packed));
    prefer_large_pages(packed, panels_bytes());
  }

 private:
  // B's taps as runs have them.
  void order_taps(std::vector<int64_t> taps) {
    const int64_t count = view_.window->taps();
    if (taps.empty()) {
      for (int64_t t = 0; t < count; ++t) taps.push_back(t);
    }
    if (shape_.x.reversed && shape_.run > 1) {
      for (int64_t t = 0; t < count; t += shape_.run)
        std::reverse(taps.begin() + t, taps.begin() + t + shape_.run);
    }
    taps_ = std::move(taps);
  }

  const LineBlocks& blocks() const { return lines_.blocks(); }
  int64_t columns() const { return ceil_div(view_.n, config_.tile_n); }
  int64_t panel_bytes() const { return steps_ * 64 * config_.tile_n; }
  int64_t packed_bytes() const { return view_.groups * columns() * panel_bytes(); }
  int64_t sums_bytes() const { return 2 * int64_t{config_.tile_m} * config_.tile_n * 4; }
  int64_t table_bytes() const {
    return round_up(static_cast<int64_t>(lines_.tile_at().size()) * kLinesTileRows *
                        static_cast<int64_t>(sizeof(long long)),
                    64);
  }
  int64_t thread_bytes() const { return thread_share(sums_bytes() + table_bytes() + lines_.bytes()); }
  int busy_threads() const { return static_cast<int>(std::min<int64_t>(threads_, tasks())); }
  int64_t tasks() const { return blocks().count() * group_cuts_ * panel_cuts_; }

  // ---- B: panels of columns, each the whole steps of all runs and then their shorter ones.

  void pack_groups(const char* b, const Operand& o, char* out) const {
    const int64_t panels = columns(), all = view_.groups * panels;
    constexpr double kWorthThreads = 1 << 14;  // elements
    const bool worth =
        static_cast<double>(view_.k) * static_cast<double>(view_.n * view_.groups) >= kWorthThreads;
    deal_out(all * shape_.runs, worth ? threads_ : 1, [&](int64_t i, int) {
      const int64_t panel = i / shape_.runs, g = panel / panels, n = panel % panels * config_.tile_n;
      pack_run(b + g * o.group_stride * element_, o, i % shape_.runs, n, out + panel * panel_bytes());
    });
  }

  // One run of a panel, whose first one lies at `out`.
  void pack_run(const char* b, const Operand& o, int64_t run, int64_t n, char* out) const {
    const int64_t step_bytes = int64_t{64} * config_.tile_n;
    char* tails = out + shape_.runs * shape_.whole * step_bytes;
    if (shape_.whole > 0)
      pack_steps(b, o, run, 0, shape_.whole * step_, n, out + run * shape_.whole * step_bytes);
    if (shape_.tail > 0)
      pack_steps(b, o, run, shape_.whole * step_, shape_.tail, n, tails + run * step_bytes);
  }

  // Elements [from, from + depth) of a run.
  void pack_steps(const char* b, const Operand& o, int64_t run, int64_t from, int64_t depth, int64_t n,
                  char* out) const {
    const int64_t channels = view_.window->channels;
    const PanelShape shape{depth, static_cast<int>(std::min<int64_t>(config_.tile_n, view_.n - n)),
                           config_.tile_n, false};
    PanelSource words{b, o.row_stride, o.col_stride, o.type, group_, false};
    const size_t written = tessera::panel_bytes(shape, group_);
    if (shape.live < shape.width) std::memset(out, 0, written);
    if (channels != shape_.pixel) {
      pack_filled_up(words, o, run, from, shape, n, out);
    } else if (o.plain()) {
      words.data += ((run * shape_.run * channels + from) * o.row_stride + n * o.col_stride) * element_;
      pack_panel_avx512(words, shape, out);
    } else {
      words.data += n * o.col_stride * element_;
      pack_block_panel(pack_panel_avx512, o, taps_, words, run * shape_.run * channels + from, shape, out);
    }
    std::fill(out + written, out + ceil_div(depth, step_) * 64 * config_.tile_n, char{0});
  }

  // Zeros behind the channels of each tap.
  void pack_filled_up(PanelSource words, const Operand& o, int64_t run, int64_t from, const PanelShape& shape,
                      int64_t n, char* out) const {
    const int64_t channels = view_.window->channels;
    constexpr int64_t kStep = 64;  // elements at most
    char strip[kStep * kStep * 4];
    PanelShape piece = shape;
    for (int64_t k = 0; k < shape.depth; k += piece.depth) {
      piece.depth = std::min(step_, shape.depth - k);
      std::memset(strip, 0, static_cast<size_t>(shape.live * kStep * element_));
      for (int64_t i = 0; i < piece.depth; ++i) {
        const int64_t at = from + k + i, tap = run * shape_.run + at / shape_.pixel, c = at % shape_.pixel;
        if (c >= channels) continue;
        const int64_t row = o.plain() ? (tap * channels + c) * o.row_stride
                                      : taps_[static_cast<size_t>(tap)] * o.block_stride + c * o.row_stride;
        const char* first = words.data + (row + n * o.col_stride) * element_;
        char* to = strip + i * element_;
        if (element_ == 2) {
          copy_lanes<2>(first, o.col_stride * 2, to, kStep * 2, shape.live);
        } else {
          copy_lanes<1>(first, o.col_stride, to, kStep, shape.live);
        }
      }
      PanelSource lines = words;
      lines.data = strip;
      lines.k_stride = 1;
      lines.lane_stride = kStep;
      pack_panel_avx512(lines, piece, out + k / step_ * 64 * config_.tile_n);
    }
  }
  template <size_t kSize>
  static void copy_lanes(const char* from, int64_t apart, char* to, int64_t to_apart, int64_t count) {
    for (; count > 0; --count, from += apart, to += to_apart) std::memcpy(to, from, kSize);
  }

  // ---- the product

  // Of a block, what one task computes: groups, and panels of columns of each.
  struct Share {
    int64_t group0, group1, panel0, panel1;
  };

  // Few steps of a large result take less time than the hardware needs to see its stores coming.
  bool writes_fast(const ArchSpec& arch) const {
    constexpr int64_t kFewSteps = 4;
    return !view_.c_rows && steps_ <= kFewSteps &&
           view_.c.extent * bytes_of(view_.c.type) > 2 * arch.l2.bytes;
  }

  // What all groups of a block write. Each takes parts of lines of memory, which the hardware does not see
  // coming; images_of says what they read.
  Ahead output_of(const Buffers& buffers, const LineBlock& block) const {
    const int64_t down = shape_.y.positions, across = shape_.x.positions;
    const int64_t first = (block.plane0 * down + block.line0) * across;
    const int64_t last = ((block.plane0 + block.planes - 1) * down + block.line0 + block.lines) * across - 1;
    auto row = [&](int64_t i) {
      return static_cast<const char*>(buffers.c) +
             (view_.c_rows ? view_.c_rows->row(i) : i) * view_.c.row_stride * bytes_of(view_.c.type);
    };
    return {row(first), row(last)};
  }

  // Where no part has whole and short steps no registers are set apart for short ones.
  void run_block(const Buffers& buffers, int64_t index, const Share& share, bool reads, const char* packed,
                 const tsr::EpilogueArgs& epilogue, char* space) const {
    const int64_t tail = shape_.tail * element_;
    if (tail > 0 && !tails_apart_) {
      const TileConfiguration tiles(tail, tsr::amx_registers(config_.tile_m / 16, config_.tile_n / 16));
      multiply_block(buffers, index, share, reads ? shape_.runs : 0, 0, packed, epilogue, space);
    } else {
      const TileConfiguration tiles(tail);
      multiply_block(buffers, index, share, reads ? shape_.runs * shape_.whole : 0,
                     reads && tail > 0 ? shape_.runs : 0, packed, epilogue, space);
    }
  }

  void multiply_block(const Buffers& buffers, int64_t index, const Share& share, int64_t steps, int64_t tails,
                      const char* packed, tsr::EpilogueArgs epilogue, char* space) const {
    auto* rows = reinterpret_cast<long long*>(space + sums_bytes());
    char* copy = space + sums_bytes() + table_bytes();
    const LineBlock block = blocks().block(index);
    Ahead next_input, next_output;
    if (const int64_t soon = index + std::max<int64_t>(busy_threads() / (group_cuts_ * panel_cuts_), 1);
        soon < blocks().count() && blocks().pieces() == 1) {
      const LineBlock next = blocks().block(soon);
      if (view_.groups >= kLeastShares)
        next_input = images_of(next, *view_.window, shape_, static_cast<const char*>(buffers.a), element_);
      if (fetches_c_) next_output = output_of(buffers, next);
    }
    tsr::AmxArgs args{};
    args.epilogue = &epilogue;
    args.partial = reinterpret_cast<float*>(space);
    args.first = args.last = 1;
    args.left = copy;
    args.left_stride = lines_.row_bytes();
    args.tile_at = lines_.tile_at().data();
    args.step_at = lines_.step_at().data();
    args.steps = steps;
    args.passing = passing_;
    args.tails = tails;
    args.rows = lines_.place_rows(block, rows) * kLinesTileRows;
    epilogue.rows = rows;
    args.col0 = share.panel0 * config_.tile_n;
    args.cols = std::min(share.panel1 * config_.tile_n, view_.n) - args.col0;
    for (int64_t g = share.group0; g < share.group1; ++g) {
      const int64_t part = g - share.group0, parts = share.group1 - share.group0;
      next_input.fetch(part, parts);
      std::tie(args.c_ahead, args.c_ahead_bytes) = next_output.share(part, parts);
      set_group(epilogue, buffers, g);
      args.far_c = far_c(streams_, epilogue.c);
      if (steps + tails > 0) lines_.copy(group_a(buffers, g), block, copy);
      args.right = packed + (g * columns() + share.panel0) * panel_bytes();
      args.right_panel_bytes = panel_bytes();
      entry_(&args);
    }
    if (streams_) fence_stores();
  }

  int64_t element_;
  int group_;
  int64_t step_;  // elements of k in one tile
  LineCopies lines_;
  const LinesShape& shape_;
  int64_t steps_;
  bool tails_apart_;      // the unit's: some part has steps of both lengths
  tsr::Passing passing_;  // B's panels, where half of L1 does not hold one
  bool streams_, fetches_c_;
  int64_t group_cuts_, panel_cuts_;  // of a block, where blocks are too few for the threads
  std::vector<int64_t> taps_;        // of B's blocks, in the order of the runs
};

}  // namespace

std::unique_ptr<PartKernel> make_amx_lines(std::shared_ptr<CpuModule> module, const ArchSpec& arch,
                                           StridedPart part, const Problem& problem, const Choice& choice) {
  return std::make_unique<AmxLinesKernel>(std::move(module), arch, std::move(part), problem, choice);
}

}  // namespace tessera
