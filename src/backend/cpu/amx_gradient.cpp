#include "backend/cpu/amx_gradient.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "backend/cpu/ahead.h"
#include "backend/cpu/arena.h"
#include "backend/cpu/deal_out.h"
#include "backend/cpu/line_blocks.h"
#include "backend/cpu/pack_tiles.h"
#include "backend/cpu/tile_configuration.h"
#include "core/cache_line.h"
#include "core/lines_shape.h"
#include "core/tile_math.h"

namespace tessera {
namespace {

constexpr int64_t kStepPixels = 32, kWordBytes = 64;  // of a tile; of 16 channels of two pixels

// C's tiles are cut into pieces whose sums stay in the second-level cache. A task takes one piece of some
// groups: blocks of lines are copied a group at a time, and their products added to its sums. Where there are
// fewer tasks than threads, each is shared: threads take some of the blocks, and their sums are added up.
class AmxGradientKernel : public PartKernel {
 public:
  AmxGradientKernel(std::shared_ptr<CpuModule> module, const ArchSpec& arch, StridedPart part,
                    const Problem& problem, const Choice& choice)
      : PartKernel(std::move(module), arch, std::move(part.view), problem, choice),
        lines_(*view_.window),
        shape_(lines_.shape),
        blocks_(*view_.window, shape_),
        row_tiles_(ceil_div(view_.m, 16)),
        channel_tiles_(ceil_div(view_.window->channels, 16)) {
    spare_threads();
    cut(arch.l2.bytes / 4);
    choose_blocks(arch.l2.bytes / 4);
    share_blocks();
    place_lines();
    place_tiles();
    zeros_.assign(static_cast<size_t>(std::max(view_.m, view_.window->channels) * kElement), char{0});
  }

  void run_unchecked(const Buffers& buffers) const override {
    const tsr::EpilogueArgs epilogue = epilogue_args(buffers);
    char* space = static_cast<char*>(buffers.workspace ? buffers.workspace : thread_arena(workspace_bytes()));
    const bool reads = epilogue.alpha != 0.0f;  // BLAS: alpha 0 reads neither operand
    if (shares_ == 1 || !reads) {
      deal_out(tasks(), threads_, [&](int64_t task, int thread) {
        char* own = space + thread * thread_bytes();
        char* const sums = own + copies_bytes();
        if (reads) return add_blocks(buffers, task, 0, blocks_.count(), own, sums, &epilogue);
        std::memset(sums, 0, static_cast<size_t>(groups_at_once_ * sums_bytes()));
        leave(buffers, task, epilogue, sums);
      });
      return;
    }
    char* const sums = space + busy_threads() * thread_bytes();
    const int64_t count = blocks_.count(), bytes = share_bytes();
    deal_out(tasks() * shares_, threads_, [&](int64_t i, int thread) {
      const int64_t share = i % shares_;
      add_blocks(buffers, i / shares_, count * share / shares_, count * (share + 1) / shares_,
                 space + thread * thread_bytes(), sums + i * bytes, nullptr);
    });
    // Before tasks leave, pieces of their sums are added up, as many as there are threads for.
    const int64_t pieces = ceil_div(threads_, tasks()), tiles = groups_at_once_ * sums_bytes() / kTileBytes;
    deal_out(tasks() * pieces, threads_, [&](int64_t i, int) {
      const int64_t piece = i % pieces, first = tiles * piece / pieces, behind = tiles * (piece + 1) / pieces;
      add_up(sums + i / pieces * shares_ * bytes + first * kTileBytes, behind - first);
    });
    deal_out(tasks(), threads_,
             [&](int64_t task, int) { leave(buffers, task, epilogue, sums + task * shares_ * bytes); });
  }

  size_t workspace_bytes() const override {
    const int64_t shared = shares_ == 1 ? 0 : tasks() * shares_ * share_bytes();
    return static_cast<size_t>(busy_threads() * thread_bytes() + shared);
  }
  size_t panels_bytes() const override { return 0; }
  void pack_b_unchecked(const void*, void*, int64_t) const override {}

 private:
  static constexpr int64_t kElement = 2;  // bytes

  int64_t taps() const { return view_.window->taps(); }
  int64_t tasks() const { return ceil_div(view_.groups, groups_at_once_) * row_cuts_ * channel_cuts_; }
  int64_t piece_rows() const { return ceil_div(row_tiles_, row_cuts_); }
  int64_t piece_channels() const { return ceil_div(channel_tiles_, channel_cuts_); }
  int64_t sums_bytes() const { return taps() * piece_rows() * piece_channels() * kTileBytes; }
  int64_t pixels_bytes() const {
    return round_up((lines_.pitch() + 1) * static_cast<int64_t>(sizeof(const char*)), 64);
  }
  int64_t copies_bytes() const { return left_bytes_ + right_bytes_ + pixels_bytes(); }
  int64_t thread_bytes() const { return thread_share(groups_at_once_ * sums_bytes() + copies_bytes()); }
  int64_t share_bytes() const { return thread_share(groups_at_once_ * sums_bytes()); }
  int64_t busy_threads() const { return std::min<int64_t>(threads_, tasks() * shares_); }

  // So many tiles of the first share's sums and the others'.
  void add_up(char* sums, int64_t tiles) const {
    auto* all = reinterpret_cast<float*>(sums);
    const int64_t floats = tiles * kTileBytes / static_cast<int64_t>(sizeof(float));
    for (int64_t share = 1; share < shares_; ++share) {
      const auto* other = reinterpret_cast<const float*>(sums + share * share_bytes());
      for (int64_t i = 0; i < floats; ++i) all[i] += other[i];
    }
  }

  // Copying the images for another piece of rows costs their copies, turning gradients for another one of
  // channels the gradients.
  void cut(int64_t most) {
    const int64_t images = channel_tiles_ * lines_.copies, gradients = row_tiles_ * 2;
    const int64_t pixels = blocks_.planes * blocks_.lines * blocks_.positions;
    while ((sums_bytes() > most || tasks() * std::max<int64_t>(pixels / kLinesSharePixels, 1) < threads_) &&
           (row_cuts_ < row_tiles_ || channel_cuts_ < channel_tiles_)) {
      const bool rows = channel_cuts_ == channel_tiles_ || (row_cuts_ < row_tiles_ && images < gradients);
      ++(rows ? row_cuts_ : channel_cuts_);
    }
    // Groups are summed at once where they share lines of memory.
    const int64_t all = view_.groups / threads_, fit = 2 * most / sums_bytes();
    const bool share = std::min(view_.m, view_.window->channels) * kElement < kCacheLine;
    if (row_cuts_ * channel_cuts_ == 1 && all > 1 && (fit >= all || share))
      groups_at_once_ = ceil_div(view_.groups, ceil_div(view_.groups, std::clamp<int64_t>(fit, 1, all)));
  }

  int64_t line_bytes() const { return lines_.pitch() / 2 * kWordBytes; }
  // Of one group's piece and so many lines of a plane of the result.
  int64_t images_bytes(int64_t lines) const {
    return piece_channels() * shape_.z.taps * lines_.copies * shape_.lines_read(lines) * line_bytes();
  }
  int64_t gradients_bytes(int64_t lines) const { return piece_rows() * lines_.steps(lines) * kTileBytes; }

  void choose_blocks(int64_t cache) {
    // Groups of a task are read one after the other, from lines of memory that they share.
    const int64_t pixel = groups_at_once_ > 1 ? groups_at_once_ * kElement : 0;
    auto shared = [&](int64_t lines) {
      return pixel * (shape_.z.taps * shape_.lines_read(lines) * shape_.width * view_.window->channels +
                      lines * shape_.x.positions * view_.m);
    };
    auto bytes = [&](int64_t lines) {
      return std::max(images_bytes(lines) + gradients_bytes(lines), shared(lines) / 2);
    };
    blocks_.choose_lines(shape_.lines_read(1) - shape_.y.step,
                         [&](int64_t lines) { return bytes(lines) <= cache; });
    blocks_.cut_lines(lines_.shape, cache, kStepPixels, bytes);
    if (blocks_.block_lines == blocks_.lines && blocks_.pieces() == 1)
      blocks_.block_planes = std::clamp<int64_t>(cache / bytes(blocks_.lines), 1, blocks_.planes);
  }

  // Blocks of fewer planes or lines where a task's are too few for the threads that share it.
  void share_blocks() {
    if (tasks() >= threads_) return;
    const int64_t wanted = ceil_div(threads_, tasks());
    blocks_.block_planes = std::clamp<int64_t>(blocks_.planes / wanted, 1, blocks_.block_planes);
    const int64_t line = std::max<int64_t>(blocks_.positions, 1),
                  least = ceil_div(kLinesSharePixels / 4, line);
    if (blocks_.count() < wanted)
      blocks_.block_lines =
          std::min(blocks_.block_lines, std::max(blocks_.lines * blocks_.planes / wanted, least));
    shares_ = std::min(wanted, blocks_.count());
  }

  // A plane of the copy: [16 channels][tap along z][copy][remainder of lines by the step][line]. What a line
  // reads beyond its end are the blanks that the next one begins with; behind the last one are zeros, as many
  // as the last tap and the last step read there: other channels' numbers, zero times which is none if they
  // are infinite, must not be met.
  void place_lines() {
    const LinesAxis& y = shape_.y;
    phase_lines_ = lines_by_remainder(y, blocks_.block_lines);
    lines_before_ = std::max<int64_t>(y.taps - 1, 0) * y.spread;
    copy_bytes_ = 0;
    const int64_t blank = ceil_div(shape_.x.blank(), 2) * kWordBytes;
    int64_t tail = 0;
    for (int64_t lines = 1; lines <= blocks_.block_lines; ++lines)
      tail = std::max(tail, beyond(lines) - (blocks_.block_lines - lines) * line_bytes());
    for (const int64_t lines : phase_lines_) {
      phase_at_.push_back(copy_bytes_);
      copy_bytes_ += lines * line_bytes() + blank + tail;
    }
    behind_bytes_ = blank + kTileBytes;
    depth_bytes_ = lines_.copies * copy_bytes_;
    channels_bytes_ = shape_.z.taps * depth_bytes_;
    plane_bytes_ = piece_channels() * channels_bytes_;
  }

  // Bytes that the last step reads behind so many lines.
  int64_t beyond(int64_t lines) const { return lines_.steps(lines) * kTileBytes - lines * line_bytes(); }

  // Column tiles of a piece: 16 channels after the other, the taps of each as the filter has them.
  void place_tiles() {
    const LinesAxis &z = shape_.z, &y = shape_.y, &x = shape_.x;
    for (int64_t c = 0; c < piece_channels(); ++c) {
      for (int64_t tz = 0; tz < z.taps; ++tz) {
        for (int64_t ty = 0; ty < y.taps; ++ty) {
          const int64_t down = ty * y.spread;
          const int64_t line = phase_at_[static_cast<size_t>(down % y.step)] + down / y.step * line_bytes();
          for (int64_t tx = 0; tx < x.taps; ++tx) {
            tile_at_.push_back(c * channels_bytes_ + tz * depth_bytes_ + lines_.copy_of(tx) * copy_bytes_ +
                               line + lines_.words_before(tx) * kWordBytes);
          }
        }
      }
    }
    for (int64_t c = 0; c < channel_tiles_; ++c) {
      const int64_t live = std::min<int64_t>(16, view_.window->channels - c * 16);
      for (int64_t t = 0; t < taps(); ++t) columns_.push_back({t * view_.window->channels + c * 16, live});
    }
    left_bytes_ = blocks_.block_planes * gradients_bytes(blocks_.block_lines);
    const int64_t last = *std::max_element(tile_at_.begin(), tile_at_.end());
    right_bytes_ =
        std::max(blocks_.block_planes * plane_bytes_, (blocks_.block_planes - 1) * plane_bytes_ + last +
                                                          lines_.steps(blocks_.block_lines) * kTileBytes);
  }

  // Groups that read parts of lines of memory, which the hardware does not see coming, share the next block
  // among them; where they are too few for that the first one asks for an image's lines.
  bool shares_lines() const {
    return groups_at_once_ == view_.groups && view_.groups > 1 && blocks_.pieces() == 1;
  }
  bool fetches_blocks() const { return shares_lines() && view_.groups >= kLeastShares; }
  bool fetches_lines() const { return shares_lines() && view_.groups < kLeastShares; }
  Ahead gradients_of(const Buffers& buffers, const LineBlock& b) const {
    const int64_t line = shape_.x.positions * view_.a.col_stride * kElement, down = shape_.y.positions;
    const char* begin = static_cast<const char*>(buffers.a) + (b.plane0 * down + b.line0) * line;
    return {begin, begin + ((b.planes - 1) * down + b.lines) * line};
  }

  // What a task computes: groups, and tiles of rows and of channels.
  struct Piece {
    int64_t group0, group1, row0, row1, channel0, channel1;
  };
  Piece piece(int64_t task) const {
    const int64_t cuts = row_cuts_ * channel_cuts_, row_cut = task % cuts / channel_cuts_;
    const int64_t channel_cut = task % channel_cuts_;
    const int64_t group0 = task / cuts * groups_at_once_;
    const int64_t group1 = std::min(group0 + groups_at_once_, view_.groups);
    const int64_t row0 = row_tiles_ * row_cut / row_cuts_, row1 = row_tiles_ * (row_cut + 1) / row_cuts_;
    const int64_t channel0 = channel_tiles_ * channel_cut / channel_cuts_,
                  channel1 = channel_tiles_ * (channel_cut + 1) / channel_cuts_;
    return {group0, group1, row0, row1, channel0, channel1};
  }
  tsr::AmxGradientArgs arguments(const Piece& p) const {
    tsr::AmxGradientArgs args{};
    args.tile_at = tile_at_.data();
    args.right_plane_bytes = plane_bytes_;
    args.columns = columns_.data() + p.channel0 * taps();
    args.row_tiles = p.row1 - p.row0;
    args.col_tiles = (p.channel1 - p.channel0) * taps();
    args.row0 = p.row0 * 16;
    args.rows = std::min(p.row1 * 16, view_.m) - args.row0;
    return args;
  }

  // Products of the blocks [begin, end), at least one, to a task's sums, and from there to C where `whole`
  // says how.
  void add_blocks(const Buffers& buffers, int64_t task, int64_t begin, int64_t end, char* space, char* sums,
                  const tsr::EpilogueArgs* whole) const {
    const Piece p = piece(task);
    const auto [group0, group1, row0, row1, channel0, channel1] = p;
    char* left = space;
    char* right = left + left_bytes_;
    auto* pixels = reinterpret_cast<const char**>(right + right_bytes_);
    tsr::AmxGradientArgs args = arguments(p);
    args.left = left;
    args.right = right;
    // Steps reach beyond lines, where gradients are zeros: what they meet must be zeros too.
    std::memset(right, 0, static_cast<size_t>(right_bytes_));
    tsr::EpilogueArgs epilogue{};
    if (whole) epilogue = *whole;
    args.epilogue = &epilogue;
    const TileConfiguration tiles;
    for (int64_t i = begin; i < end; ++i) {
      const LineBlock b = blocks_.block(i);
      args.first = i == begin;
      args.last = whole && i == end - 1;
      args.planes = b.planes;
      args.steps = lines_.steps(b.lines);
      args.left_tile_bytes = b.planes * args.steps * kTileBytes;
      Ahead images, gradients;
      if (fetches_blocks() && i + 1 < end) {
        const LineBlock next = blocks_.block(i + 1);
        images = images_of(next, *view_.window, shape_, static_cast<const char*>(buffers.b), kElement);
        gradients = gradients_of(buffers, next);
      }
      for (int64_t g = group0; g < group1; ++g) {
        images.fetch(g - group0, group1 - group0);
        gradients.fetch(g - group0, group1 - group0);
        turn_gradients(group_a(buffers, g), b, row0, row1, left);
        copy_images(group_b(buffers, g), b, channel0, channel1, fetches_lines() && g == group0, right,
                    pixels);
        args.sums = reinterpret_cast<float*>(sums + (g - group0) * sums_bytes());
        if (whole) set_group(epilogue, buffers, g);
        entry_(&args);
      }
    }
  }

  // A task's sums to C.
  void leave(const Buffers& buffers, int64_t task, tsr::EpilogueArgs epilogue, char* sums) const {
    const Piece p = piece(task);
    tsr::AmxGradientArgs args = arguments(p);
    args.epilogue = &epilogue;
    args.last = 1;
    const TileConfiguration tiles;
    for (int64_t g = p.group0; g < p.group1; ++g) {
      args.sums = reinterpret_cast<float*>(sums + (g - p.group0) * sums_bytes());
      set_group(epilogue, buffers, g);
      entry_(&args);
    }
  }

  // Lines of a plane follow each other `pitch` pixels apart, zeros between them.
  void turn_gradients(const char* data, const LineBlock& b, int64_t row0, int64_t row1, char* out) const {
    const int64_t across = blocks_.positions, down = blocks_.lines, steps = lines_.steps(b.lines);
    const int64_t pixel = view_.a.col_stride * kElement, tile_bytes = b.planes * steps * kTileBytes;
    const char* pixels[kStepPixels];
    for (int64_t p = 0; p < b.planes; ++p) {
      const char* line = data + (((b.plane0 + p) * down + b.line0) * across + b.first) * pixel;
      int64_t l = 0, x = 0;
      for (int64_t s = 0; s < steps; ++s, out += kTileBytes) {
        for (const char*& at : pixels) {
          at = x < b.positions && l < b.lines ? line + x * pixel : zeros_.data();
          if (++x == lines_.pitch()) {
            x = 0;
            ++l;
            line += across * pixel;
          }
        }
        for (int64_t row = row0; row < row1; ++row) {
          const int live = static_cast<int>(std::min<int64_t>(16, view_.m - row * 16));
          turn_pixels(pixels, row * 16 * kElement, live, out + (row - row0) * tile_bytes);
        }
      }
    }
  }

  void copy_images(const char* images, const LineBlock& b, int64_t channel0, int64_t channel1, bool fetches,
                   char* out, const char** pixels) const {
    const Window& w = *view_.window;
    const LinesAxis &y = shape_.y, &z = shape_.z;
    for (int64_t p = 0; p < b.planes; ++p, out += plane_bytes_) {
      const int64_t plane = b.plane0 + p, position = plane % z.positions;
      for (int64_t tz = 0; tz < z.taps; ++tz) {
        const int64_t depth = z.coordinate(position * z.step + tz * z.spread);
        // In memory's order.
        for (int64_t i = 0; i < lines_before_ + b.lines * y.step; ++i) {
          const int64_t phase = i % y.step, l = i / y.step;
          if (l >= phase_lines_[static_cast<size_t>(phase)] - (blocks_.block_lines - b.lines)) continue;
          const int64_t at = y.coordinate(b.line0 * y.step + i);
          const bool inside = depth >= 0 && depth < z.size && at >= 0 && at < y.size;
          const int64_t element =
              plane / z.positions * w.image_stride + depth * w.axes[0].stride + at * w.axes[1].stride;
          if (fetches && inside && at + 1 < y.size) {
            const char* next = images + (element + w.axes[1].stride) * kElement;
            Ahead{next, next + shape_.x.size * w.axes[2].stride * kElement}.fetch(0, 1);
          }
          copy_line(inside ? images + element * kElement : nullptr, channel0, channel1, b.first,
                    out + tz * depth_bytes_ + phase_at_[static_cast<size_t>(phase)] + l * line_bytes(),
                    pixels);
        }
        if (b.lines < blocks_.block_lines) clear_behind(b, channel0, channel1, out + tz * depth_bytes_);
      }
    }
  }

  // Of a tap along z, what lies behind the lines of a block that has fewer than the one before it.
  void clear_behind(const LineBlock& b, int64_t channel0, int64_t channel1, char* out) const {
    for (int64_t c = channel0; c < channel1; ++c, out += channels_bytes_) {
      for (int64_t copy = 0; copy < lines_.copies; ++copy) {
        for (size_t phase = 0; phase < phase_at_.size(); ++phase) {
          const int64_t lines = std::max<int64_t>(phase_lines_[phase] - (blocks_.block_lines - b.lines), 0);
          const int64_t begin = copy * copy_bytes_ + phase_at_[phase] + lines * line_bytes();
          const int64_t end =
              copy * copy_bytes_ + (phase + 1 < phase_at_.size() ? phase_at_[phase + 1] : copy_bytes_);
          std::memset(out + begin, 0, static_cast<size_t>(std::min(end - begin, behind_bytes_)));
        }
      }
    }
  }

  // From position `first` on; zeros where there is no line.
  void copy_line(const char* line, int64_t channel0, int64_t channel1, int64_t first, char* out,
                 const char** pixels) const {
    const LinesAxis& x = shape_.x;
    const int64_t stride = view_.window->axes[2].stride * kElement;
    int64_t remainder = -1;
    for (int64_t copy = 0; copy < lines_.copies; ++copy, out += copy_bytes_) {
      if (line && lines_.remainder(copy) != remainder) {
        remainder = lines_.remainder(copy);
        for (int64_t i = 0; i <= lines_.pitch(); ++i) {
          const int64_t at = x.coordinate((first + i) * x.step + remainder);
          pixels[i] = at >= 0 && at < x.size ? line + at * stride : zeros_.data();
        }
      }
      for (int64_t c = channel0; c < channel1; ++c) {
        char* to = out + (c - channel0) * channels_bytes_;
        const int live = static_cast<int>(std::min<int64_t>(16, view_.window->channels - c * 16));
        if (line) {
          pair_pixels(pixels + lines_.later(copy), lines_.pitch() / 2, c * 16 * kElement, live, to);
        } else {
          std::memset(to, 0, static_cast<size_t>(line_bytes()));
        }
      }
    }
  }

  GradientLines lines_;
  const LinesShape& shape_;
  LineBlocks blocks_;
  int64_t row_tiles_, channel_tiles_;  // tiles of 16 of all of C's rows and of a tap's channels
  int64_t row_cuts_ = 1, channel_cuts_ = 1, groups_at_once_ = 1;
  int64_t shares_ = 1;                           // of a task's blocks
  int64_t lines_before_ = 0;                     // of an image, up to where the last tap meets the first line
  std::vector<int64_t> phase_lines_, phase_at_;  // by a line's remainder: how many, and bytes before them
  int64_t behind_bytes_ = 0;                     // that steps read behind lines, at most
  int64_t copy_bytes_ = 0, depth_bytes_ = 0, channels_bytes_ = 0, plane_bytes_ = 0;
  int64_t left_bytes_ = 0, right_bytes_ = 0;
  std::vector<long long> tile_at_;        // of a piece's column tiles
  std::vector<tsr::AmxColumns> columns_;  // of all
  std::vector<char> zeros_;               // a pixel of either operand
};

}  // namespace

std::unique_ptr<PartKernel> make_amx_gradient(std::shared_ptr<CpuModule> module, const ArchSpec& arch,
                                              StridedPart part, const Problem& problem,
                                              const Choice& choice) {
  return std::make_unique<AmxGradientKernel>(std::move(module), arch, std::move(part), problem, choice);
}

}  // namespace tessera
