#include "backend/cpu/amx_lines.h"

#include <omp.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "backend/cpu/arena.h"
#include "backend/cpu/copy_pieces.h"
#include "backend/cpu/cpu_kernel.h"
#include "backend/cpu/gather.h"
#include "backend/cpu/pack.h"
#include "backend/cpu/tile_configuration.h"
#include "core/lines_shape.h"
#include "core/tile_math.h"

namespace tessera {
namespace {

// Lines [line0, line0 + lines) of the planes (image, position along z) [plane0, plane0 + planes), which are
// whole where there are several.
struct Block {
  int64_t plane0, planes, line0, lines;
};

// Memory that is asked for ahead, in equal shares.
struct Ahead {
  const char *begin = nullptr, *end = nullptr;
  void fetch(int64_t share, int64_t shares) const {
    const int64_t lines = (end - begin) / 64;
    for (int64_t i = lines * share / shares; i < lines * (share + 1) / shares; ++i)
      __builtin_prefetch(begin + i * 64, 0, 2);
  }
};

class AmxLinesKernel : public CpuKernel {
 public:
  AmxLinesKernel(std::shared_ptr<CpuModule> module, const ArchSpec& arch, StridedPart part,
                 const Problem& problem, const Choice& choice)
      : CpuKernel(std::move(module), arch, std::move(part.view), problem, choice),
        element_(bytes_of(view_.a.type)),
        group_(k_group(compute_type(view_.a.type, inst_))),
        step_(inst_.k),
        shape_(lines_shape(*view_.window, group_, step_)),
        steps_(view_.k > 0 ? shape_.steps() : 0),
        tails_apart_(lines_have_tails(lower(problem), group_, step_)) {
    order_taps(std::move(part.taps));
    place_lines(arch);
    place_steps();
  }

  void run_unchecked(const Buffers& buffers) const override {
    const tsr::EpilogueArgs epilogue = epilogue_args(buffers);
    char* space = static_cast<char*>(buffers.workspace ? buffers.workspace : thread_arena(workspace_bytes()));
    const bool reads = epilogue.alpha != 0.0f && steps_ > 0;  // BLAS: alpha 0 reads neither operand
    const char* packed = static_cast<const char*>(buffers.b);
    if (!view_.b_prepacked) {
      if (reads) pack_groups(static_cast<const char*>(buffers.b), view_.b, space);
      packed = space;
      space += packed_bytes();
    }
    // Groups are cut too where blocks are too few for the threads.
    const int64_t cuts = std::min(view_.groups, ceil_div(threads_, blocks()));
    const int64_t tasks = blocks() * cuts;
    auto task = [&](int64_t t, char* own) {
      run_block(buffers, t / cuts, view_.groups * (t % cuts) / cuts, view_.groups * (t % cuts + 1) / cuts,
                reads, packed, epilogue, own);
    };
    if (busy_threads() == 1) {
      for (int64_t t = 0; t < tasks; ++t) task(t, space);
      return;
    }
#pragma omp parallel for num_threads(busy_threads()) schedule(dynamic)
    for (int64_t t = 0; t < tasks; ++t) task(t, space + omp_get_thread_num() * thread_bytes());
  }

  size_t workspace_bytes() const override {
    return static_cast<size_t>((view_.b_prepacked ? 0 : packed_bytes()) + busy_threads() * thread_bytes());
  }
  size_t packed_b_bytes() const override {
    return view_.b_prepacked ? static_cast<size_t>(packed_bytes()) : 0;
  }
  void pack_b(const void* b, void* packed, int64_t ldb) const override {
    pack_groups(static_cast<const char*>(b), b_to_pack(ldb), static_cast<char*>(packed));
    prefer_large_pages(packed, packed_b_bytes());
  }

 private:
  // Lines of a block for each that it reads beyond its own.
  static constexpr int64_t kLinesPerExtra = 3;

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

  // How many lines make a block, and where they lie.
  void place_lines(const ArchSpec& arch) {
    const int64_t line = shape_.width * shape_.pixel * element_, cache = arch.l2.bytes / 4;
    const int64_t deep = std::max<int64_t>(shape_.z.taps, 1), whole = shape_.y.positions;
    planes_ = view_.window->images * shape_.z.positions;
    line_bytes_ = line;
    // All groups of a block are read one after the other, from lines of memory that they share.
    auto bytes = [&](int64_t lines) { return shape_.lines_read(lines) * deep * line * view_.groups; };
    const int64_t extra = shape_.lines_read(1) - shape_.lines_read(0) > 0 ? shape_.lines_read(1) - 1 : 0;
    const int64_t least = std::min(whole, std::max<int64_t>(kLinesPerExtra * extra, 1));
    block_lines_ = whole;
    while (block_lines_ > least &&
           (bytes(block_lines_) > cache || block_lines_ * shape_.walked > kLinesBlockRows))
      block_lines_ = std::max(least, ceil_div(block_lines_, 2));
    block_lines_ = ceil_div(whole, ceil_div(whole, block_lines_));
    block_planes_ = 1;
    if (block_lines_ == whole) {
      const int64_t tiles = shape_.tiles_of(whole);
      block_planes_ = std::clamp<int64_t>(
          std::min(cache / std::max<int64_t>(bytes(whole), 1), kLinesBlockRows / (tiles * kLinesTileRows)), 1,
          planes_);
      if (planes_ >= threads_) block_planes_ = std::min(block_planes_, planes_ / threads_);
    }
  }

  // Where tiles of rows begin, and each step from there.
  void place_steps() {
    const LinesAxis& y = shape_.y;
    row_bytes_ = shape_.x.step * shape_.pixel * element_;
    // Lines by their remainder by the step along y: neighbours of the result read neighbours of one
    // remainder.
    phase_lines_.assign(static_cast<size_t>(y.step), 0);
    for (int64_t t = 0; t < y.taps; ++t) {
      int64_t& lines = phase_lines_[static_cast<size_t>(t * y.spread % y.step)];
      lines = std::max(lines, block_lines_ + t * y.spread / y.step);
    }
    std::vector<int64_t> phase_at;
    tap_plane_ = 0;
    for (const int64_t lines : phase_lines_) {
      phase_at.push_back(tap_plane_);
      tap_plane_ += lines * line_bytes_;
    }
    plane_bytes_ = tap_plane_ * shape_.z.taps;
    std::vector<long long> runs;
    for (int64_t z = 0; steps_ > 0 && z < shape_.z.taps; ++z) {
      for (int64_t t = 0; t < y.taps; ++t) {
        const int64_t tap = y.reversed ? y.taps - 1 - t : t, down = tap * y.spread;
        const int64_t plane = shape_.z.reversed ? shape_.z.taps - 1 - z : z;
        const int64_t line =
            plane * tap_plane_ + phase_at[static_cast<size_t>(down % y.step)] + down / y.step * line_bytes_;
        for (int64_t i = 0; i < shape_.x.taps; i += shape_.run) {
          const int64_t across = shape_.run == 1 && shape_.x.reversed ? shape_.x.taps - 1 - i : i;
          runs.push_back(line + across * shape_.x.spread * shape_.pixel * element_);
        }
      }
    }
    for (const long long run : runs) {
      for (int64_t s = 0; s < shape_.whole; ++s) step_at_.push_back(run + s * 64);
    }
    for (const long long run : runs) {
      if (shape_.tail > 0) step_at_.push_back(run + shape_.whole * 64);
    }
    const bool as_one = shape_.as_one(block_lines_);
    for (int64_t p = 0; p < block_planes_; ++p) {
      for (int64_t line = 0; line < (as_one ? 1 : block_lines_); ++line) {
        const int64_t tiles =
            as_one ? shape_.tiles_of(block_lines_) : ceil_div(shape_.x.positions, kLinesTileRows);
        for (int64_t t = 0; t < tiles; ++t)
          tile_at_.push_back(p * plane_bytes_ + line * line_bytes_ + t * kLinesTileRows * row_bytes_);
      }
    }
    // The last tile reads rows that are none of C's behind the lines.
    int64_t end = block_planes_ * plane_bytes_ + shape_.x.blank() * shape_.pixel * element_;
    for (const long long at : step_at_)
      end = std::max<int64_t>(end, tile_at_.back() + at + (kLinesTileRows - 1) * row_bytes_ + 64);
    copy_bytes_ = round_up(end, 64);
  }

  int64_t columns() const { return ceil_div(view_.n, config_.tile_n); }
  int64_t panel_bytes() const { return steps_ * 64 * config_.tile_n; }
  int64_t packed_bytes() const { return view_.groups * columns() * panel_bytes(); }
  int64_t sums_bytes() const { return int64_t{config_.tile_m} * config_.tile_n * 4; }
  int64_t table_bytes() const {
    return round_up(
        static_cast<int64_t>(tile_at_.size()) * kLinesTileRows * static_cast<int64_t>(sizeof(long long)), 64);
  }
  int64_t thread_bytes() const { return sums_bytes() + table_bytes() + copy_bytes_; }
  int64_t blocks() const {
    return block_planes_ > 1 ? ceil_div(planes_, block_planes_)
                             : planes_ * ceil_div(shape_.y.positions, block_lines_);
  }
  int busy_threads() const { return static_cast<int>(std::min<int64_t>(threads_, blocks() * view_.groups)); }

  Block block(int64_t i) const {
    if (block_planes_ > 1) {
      return {i * block_planes_, std::min(block_planes_, planes_ - i * block_planes_), 0, block_lines_};
    }
    const int64_t cuts = ceil_div(shape_.y.positions, block_lines_), line0 = i % cuts * block_lines_;
    return {i / cuts, 1, line0, std::min(block_lines_, shape_.y.positions - line0)};
  }

  // ---- B: panels of columns, each the whole steps of all runs and then their shorter ones.

  void pack_groups(const char* b, const Operand& o, char* out) const {
    const int64_t panels = columns(), all = view_.groups * panels;
    auto pack = [&](int64_t i) {
      const int64_t g = i / panels, n = i % panels * config_.tile_n;
      pack_columns(b + g * o.group_stride * element_, o, n, out + i * panel_bytes());
    };
    constexpr double kWorthThreads = 1 << 18;  // elements
    if (threads_ == 1 ||
        static_cast<double>(view_.k) * static_cast<double>(view_.n * view_.groups) < kWorthThreads) {
      for (int64_t i = 0; i < all; ++i) pack(i);
      return;
    }
#pragma omp parallel for num_threads(threads_) schedule(static)
    for (int64_t i = 0; i < all; ++i) pack(i);
  }

  void pack_columns(const char* b, const Operand& o, int64_t n, char* out) const {
    const int64_t step_bytes = int64_t{64} * config_.tile_n;
    char* tails = out + shape_.runs * shape_.whole * step_bytes;
    for (int64_t run = 0; run < shape_.runs; ++run) {
      if (shape_.whole > 0)
        pack_steps(b, o, run, 0, shape_.whole * step_, n, out + run * shape_.whole * step_bytes);
      if (shape_.tail > 0)
        pack_steps(b, o, run, shape_.whole * step_, shape_.tail, n, tails + run * step_bytes);
    }
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
      std::memset(strip, 0, sizeof strip);
      for (int64_t i = 0; i < piece.depth; ++i) {
        const int64_t at = from + k + i, tap = run * shape_.run + at / shape_.pixel, c = at % shape_.pixel;
        if (c >= channels) continue;
        const int64_t row = o.plain() ? (tap * channels + c) * o.row_stride
                                      : taps_[static_cast<size_t>(tap)] * o.block_stride + c * o.row_stride;
        for (int64_t lane = 0; lane < shape.live; ++lane) {
          std::memcpy(strip + (lane * kStep + i) * element_, b_at(words, row + (n + lane) * o.col_stride),
                      static_cast<size_t>(element_));
        }
      }
      PanelSource lines = words;
      lines.data = strip;
      lines.k_stride = 1;
      lines.lane_stride = kStep;
      pack_panel_avx512(lines, piece, out + k / step_ * 64 * config_.tile_n);
    }
  }
  const char* b_at(const PanelSource& s, int64_t element) const { return s.data + element * element_; }

  // ---- A: copies of lines.

  void copy_lines(const char* images, const Block& block, char* out) const {
    const Window& w = *view_.window;
    const LinesAxis &y = shape_.y, &z = shape_.z;
    for (int64_t p = 0; p < block.planes; ++p) {
      const int64_t plane = block.plane0 + p, position = plane % z.positions;
      for (int64_t tap = 0; tap < z.taps; ++tap) {
        const int64_t depth = z.coordinate(position * z.step + tap * z.spread);
        char* to = out + p * plane_bytes_ + tap * tap_plane_;
        for (int64_t phase = 0; phase < y.step; ++phase) {
          const int64_t slots = phase_lines_[static_cast<size_t>(phase)];
          for (int64_t s = 0; s < slots - (block_lines_ - block.lines); ++s) {
            const int64_t at = y.coordinate((block.line0 + s) * y.step + phase);
            const bool inside = depth >= 0 && depth < z.size && at >= 0 && at < y.size;
            copy_line(inside ? images + (plane / z.positions * w.image_stride + depth * w.axes[0].stride +
                                         at * w.axes[1].stride) *
                                            element_
                             : nullptr,
                      to + s * line_bytes_);
          }
          to += slots * line_bytes_;
        }
      }
    }
    // What the last line reads beyond its columns.
    std::memset(out + block_planes_ * plane_bytes_, 0,
                static_cast<size_t>(shape_.x.blank() * shape_.pixel * element_));
  }

  void copy_line(const char* line, char* out) const {
    const LinesAxis& x = shape_.x;
    const int64_t channels = view_.window->channels, pixel = shape_.pixel * element_;
    if (!line) {
      std::memset(out, 0, static_cast<size_t>(line_bytes_));
      return;
    }
    const int64_t begin = std::min(x.blank(), shape_.width);
    const int64_t end = std::clamp(x.filled(), begin, shape_.width);
    const bool dense = x.every == 1 && view_.window->axes[2].stride == channels;
    const bool widens = channels != shape_.pixel && dense && element_ == 2;
    if (channels != shape_.pixel && !widens) {
      std::memset(out, 0, static_cast<size_t>(line_bytes_));
    } else {
      std::memset(out, 0, static_cast<size_t>(begin * pixel));
      std::memset(out + end * pixel, 0, static_cast<size_t>(line_bytes_ - end * pixel));
    }
    const int64_t stride = view_.window->axes[2].stride * element_;
    const char* from = line + x.coordinate(begin) * stride;
    if (widens) {
      widen_pixels_avx512(out + begin * pixel, from, channels, shape_.pixel, end - begin);
    } else if (dense && channels == shape_.pixel) {
      std::memcpy(out + begin * pixel, from, static_cast<size_t>((end - begin) * pixel));
    } else {
      copy_pieces(out + begin * pixel, pixel, from, x.every * stride, channels * element_, end - begin);
    }
  }

  // ---- the product

  // Where rows of the tiles lie in C; -1 for those between the lines and behind them. Returns how many tiles.
  int64_t place_rows(const Block& block, long long* rows) const {
    const int64_t across = shape_.x.positions, down = shape_.y.positions;
    const int64_t apart = view_.c_rows ? view_.c_rows->step[2] : 1;
    const bool as_one = shape_.as_one(block_lines_);
    const int64_t pitch = as_one ? shape_.walked : round_up(across, kLinesTileRows);
    const int64_t plane_rows =
        as_one ? round_up((block.lines - 1) * pitch + across, kLinesTileRows) : block.lines * pitch;
    std::fill(rows, rows + block.planes * plane_rows, -1LL);
    for (int64_t p = 0; p < block.planes; ++p) {
      for (int64_t line = 0; line < block.lines; ++line) {
        const int64_t first = ((block.plane0 + p) * down + block.line0 + line) * across;
        const int64_t row = view_.c_rows ? view_.c_rows->row(first) : first;
        long long* to = rows + p * plane_rows + line * pitch;
        for (int64_t i = 0; i < across; ++i) to[i] = row + i * apart;
      }
    }
    return block.planes * plane_rows / kLinesTileRows;
  }

  // What the groups of a block read and write, where each takes parts of lines of memory that the hardware
  // does not see coming.
  Ahead input_of(const Buffers& buffers, const Block& block) const {
    const LinesAxis &y = shape_.y, &z = shape_.z;
    if (block.planes > 1 && z.positions > 1) return {};
    const Window& w = *view_.window;
    const int64_t from = std::clamp<int64_t>(y.coordinate(block.line0 * y.step), 0, y.size);
    const int64_t last =
        (block.line0 + block.lines - 1) * y.step + std::max<int64_t>(y.taps - 1, 0) * y.spread;
    const int64_t to = std::clamp<int64_t>(y.coordinate(last) + 1, from, y.size);
    const int64_t middle = block.plane0 % z.positions * z.step + z.taps / 2 * z.spread;
    const int64_t depth = std::clamp<int64_t>(z.coordinate(middle), 0, z.size - 1);
    const char* image = static_cast<const char*>(buffers.a) +
                        (block.plane0 / z.positions * w.image_stride + depth * w.axes[0].stride) * element_;
    return {image + from * w.axes[1].stride * element_,
            image + ((block.planes - 1) * w.image_stride + to * w.axes[1].stride) * element_};
  }
  Ahead output_of(const Buffers& buffers, const Block& block) const {
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
  void run_block(const Buffers& buffers, int64_t index, int64_t group0, int64_t group1, bool reads,
                 const char* packed, const tsr::EpilogueArgs& epilogue, char* space) const {
    const int64_t tail = shape_.tail * element_;
    if (tail > 0 && !tails_apart_) {
      const TileConfiguration tiles(tail, tsr::amx_registers(config_.tile_m / 16, config_.tile_n / 16));
      multiply_block(buffers, index, group0, group1, reads ? shape_.runs : 0, 0, packed, epilogue, space);
    } else {
      const TileConfiguration tiles(tail);
      multiply_block(buffers, index, group0, group1, reads ? shape_.runs * shape_.whole : 0,
                     reads && tail > 0 ? shape_.runs : 0, packed, epilogue, space);
    }
  }

  void multiply_block(const Buffers& buffers, int64_t index, int64_t group0, int64_t group1, int64_t steps,
                      int64_t tails, const char* packed, tsr::EpilogueArgs epilogue, char* space) const {
    auto* rows = reinterpret_cast<long long*>(space + sums_bytes());
    char* copy = space + sums_bytes() + table_bytes();
    const Block block = this->block(index);
    Ahead next_input, next_output;
    if (view_.groups > 1 && index + 1 < blocks()) {
      next_input = input_of(buffers, this->block(index + 1));
      next_output = output_of(buffers, this->block(index + 1));
    }
    tsr::AmxArgs args{};
    args.epilogue = &epilogue;
    args.partial = reinterpret_cast<float*>(space);
    args.first = args.last = 1;
    args.left = copy;
    args.left_stride = row_bytes_;
    args.tile_at = tile_at_.data();
    args.step_at = step_at_.data();
    args.steps = steps;
    args.tails = tails;
    args.rows = place_rows(block, rows) * kLinesTileRows;
    epilogue.rows = rows;
    for (int64_t g = group0; g < group1; ++g) {
      next_input.fetch(g - group0, group1 - group0);
      next_output.fetch(g - group0, group1 - group0);
      set_group(epilogue, buffers, g);
      if (steps + tails > 0) copy_lines(group_a(buffers, g), block, copy);
      for (int64_t p = 0; p < columns(); ++p) {
        args.right = packed + (g * columns() + p) * panel_bytes();
        args.col0 = p * config_.tile_n;
        args.cols = std::min<int64_t>(config_.tile_n, view_.n - args.col0);
        entry_(&args);
      }
    }
  }

  int64_t element_;
  int group_;
  int64_t step_;  // elements of k in one tile
  LinesShape shape_;
  int64_t steps_;
  bool tails_apart_;           // the unit's: some part has steps of both lengths
  std::vector<int64_t> taps_;  // of B's blocks, in the order of the runs
  std::vector<int64_t> phase_lines_;
  std::vector<long long> tile_at_, step_at_;
  int64_t planes_ = 1, block_lines_ = 1, block_planes_ = 1;
  int64_t line_bytes_ = 0, tap_plane_ = 0, plane_bytes_ = 0, row_bytes_ = 0, copy_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> make_amx_lines(std::shared_ptr<CpuModule> module, const ArchSpec& arch,
                                       StridedPart part, const Problem& problem, const Choice& choice) {
  return std::make_unique<AmxLinesKernel>(std::move(module), arch, std::move(part), problem, choice);
}

}  // namespace tessera
