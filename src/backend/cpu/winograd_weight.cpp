#include <algorithm>
#include <cstring>
#include <vector>

#include "backend/cpu/arena.h"
#include "backend/cpu/deal_out.h"
#include "backend/cpu/winograd.h"
#include "core/cache_line.h"
#include "core/tile_math.h"
#include "core/winograd_shape.h"
#include "cpu/winograd_abi.h"

namespace tessera {
namespace {

// Of the workspace: the tiles of a block, those that are transformed before they are multiplied, and all of
// threads that each take their own turn.
constexpr int64_t kMostBlock = int64_t{4} << 20, kMostTiles = int64_t{16} << 20,
                  kMostTurns = int64_t{48} << 20;

// A turn computes the gradients of some groups: blocks of tiles are transformed, and their products added to
// the sums of all points, in the order of the tiles whatever the threads. Threads share a turn, or each takes
// its own where there are as many.
class WinogradWeightKernel : public CpuKernel {
 public:
  WinogradWeightKernel(std::shared_ptr<CpuModule> module, const ArchSpec& arch, const Problem& problem,
                       const Choice& choice)
      : CpuKernel(std::move(module), arch, problem, choice),
        shape_(winograd_weight_shape(view_, config_)),
        turns_(view_.groups / shape_.groups_at_once) {
    spare_threads();
    const int64_t fit = std::max<int64_t>(kMostBlock / shape_.tile_bytes(), 1);
    blocks_ = ceil_div(shape_.all_tiles, std::min(std::max<int64_t>(config_.block_m, 1), fit));
    block_tiles_ = ceil_div(shape_.all_tiles, blocks_);
    place(1);
    apart_ = turns_ >= threads_ && threads_ * turn_bytes_ <= kMostTurns;
    const int64_t most = std::max<int64_t>(kMostTiles / (block_tiles_ * shape_.tile_bytes()), 1);
    if (!apart_) place(std::min<int64_t>({threads_, blocks_, most}));
    sharing_ = apart_ ? 1 : threads_;
    zeros_.assign(static_cast<size_t>(shape_.groups_at_once * std::max(shape_.rows, shape_.channels)), 0.0f);
    set_arguments();
  }

  void run_unchecked(const Buffers& buffers) const override {
    char* space = static_cast<char*>(buffers.workspace ? buffers.workspace : thread_arena(workspace_bytes()));
    tsr::EpilogueArgs epilogue;
    set_epilogue(epilogue, buffers);
    deal_out(turns_, turns_at_once(), [&](int64_t turn, int thread) {
      run_turn(buffers, epilogue, turn * shape_.groups_at_once, space + thread * turn_bytes_);
    });
  }

  size_t workspace_bytes() const override { return static_cast<size_t>(turns_at_once() * turn_bytes_); }
  size_t panels_bytes() const override { return 0; }
  void pack_b_unchecked(const void*, void*, int64_t) const override {}

 private:
  int turns_at_once() const { return apart_ ? threads_ : 1; }

  // Lays out the workspace of a turn that transforms so many blocks before it multiplies.
  void place(int64_t blocks_at_once) {
    blocks_at_once_ = blocks_at_once;
    const int64_t tiles = blocks_at_once * block_tiles_;
    left_point_ = odd_lines(tiles * shape_.left_row);
    right_point_ = odd_lines(tiles * shape_.right_row);
    turn_bytes_ = thread_share(shape_.points * (left_point_ + right_point_) + shape_.sums_bytes());
  }

  // What all calls have in common.
  void set_arguments() {
    const Window& window = *view_.window;
    const int64_t size = bytes_of(view_.b.type);
    int64_t position = view_.a.col_stride * bytes_of(view_.a.type);
    for (size_t i = window.axes.size(); i-- > 0;) {
      const WindowAxis& x = window.axes[i];
      tsr::WinogradAxis& image = images_.axes[i];
      image.tiles = shape_.tiles[i];
      image.shift = x.shift;
      image.size = x.size;
      image.stride = x.stride * size;
      tsr::WinogradAxis& gradient = gradients_.axes[i];
      gradient = image;
      gradient.shift = 0;
      gradient.size = x.positions;
      gradient.stride = position;
      position *= x.positions;
    }
    images_.image_bytes = window.image_stride * size;
    images_.channels = shape_.groups_at_once * shape_.channels;
    images_.row = shape_.right_row;
    images_.point = right_point_;
    gradients_.image_bytes = position;
    gradients_.channels = shape_.groups_at_once * shape_.rows;
    gradients_.row = shape_.left_row;
    gradients_.point = left_point_;
    images_.zeros = gradients_.zeros = zeros_.data();
  }

  void run_turn(const Buffers& buffers, const tsr::EpilogueArgs& epilogue, int64_t group, char* space) const {
    tsr::WinogradTiles gradients = gradients_, images = images_;
    gradients.in = group_a(buffers, group);
    gradients.to = space;
    images.in = group_b(buffers, group);
    images.to = gradients.to + shape_.points * left_point_;
    char* sums = images.to + shape_.points * right_point_;
    const bool looks = epilogue.alpha != 0.0f;  // otherwise A and B are not looked at
    if (!looks) std::memset(sums, 0, static_cast<size_t>(shape_.sums_bytes()));
    for (int64_t block = 0; looks && block < blocks_; block += blocks_at_once_) {
      const int64_t begin = block * block_tiles_,
                    end = std::min(begin + blocks_at_once_ * block_tiles_, shape_.all_tiles);
      if (begin >= end) break;
      deal_out(sharing_, sharing_, [&](int64_t i, int) {
        const int64_t first = begin + (end - begin) * i / sharing_,
                      last = begin + (end - begin) * (i + 1) / sharing_;
        transform(tsr::WinogradWeightPhase::images, images, begin, first, last);
        transform(tsr::WinogradWeightPhase::gradients, gradients, begin, first, last);
      });
      deal_out(shape_.groups_at_once * shape_.points * shape_.panels, sharing_,
               [&](int64_t i, int) { multiply(i, gradients.to, images.to, sums, begin, end); });
    }
    const int64_t parts = std::min<int64_t>(sharing_, shape_.rows);
    deal_out(shape_.groups_at_once * parts, sharing_, [&](int64_t i, int) {
      const int64_t g = i / parts, part = i % parts;
      tsr::WinogradWeightArgs args = arguments(tsr::WinogradWeightPhase::weights);
      args.sums = sums + g * shape_.group_sums();
      args.row_begin = shape_.rows * part / parts;
      args.row_end = shape_.rows * (part + 1) / parts;
      args.epilogue = epilogue;
      set_group(args.epilogue, buffers, group + g);
      entry_(&args);
    });
  }

  tsr::WinogradWeightArgs arguments(tsr::WinogradWeightPhase phase) const {
    tsr::WinogradWeightArgs args{};
    args.phase = phase;
    args.left_row = shape_.left_row;
    args.right_row = shape_.right_row;
    args.sums_row = shape_.sums_row;
    args.sums_point = shape_.sums_point;
    args.rows = shape_.rows;
    args.channels = shape_.channels;
    return args;
  }

  // Tiles [first, last) of those whose rows begin with `begin`.
  void transform(tsr::WinogradWeightPhase phase, const tsr::WinogradTiles& tiles, int64_t begin,
                 int64_t first, int64_t last) const {
    tsr::WinogradWeightArgs args = arguments(phase);
    args.tiles = tiles;
    args.tiles.begin = first;
    args.tiles.end = last;
    args.tiles.to += (first - begin) * tiles.row;
    entry_(&args);
  }

  // Of the groups of a turn and their points the i-th panel of channels, over tiles [begin, end).
  void multiply(int64_t i, const char* left, const char* right, char* sums, int64_t begin,
                int64_t end) const {
    const int64_t panel = i % shape_.panels, point = i / shape_.panels % shape_.points,
                  g = i / shape_.panels / shape_.points;
    tsr::WinogradWeightArgs args = arguments(tsr::WinogradWeightPhase::products);
    args.sums = sums + g * shape_.group_sums() + point * shape_.sums_point;
    args.col_begin = panel * config_.tile_n;
    args.col_end = std::min<int64_t>(args.col_begin + config_.tile_n, shape_.channels);
    left += point * left_point_ + g * shape_.rows * 4;
    right += point * right_point_ + g * shape_.channels * 4;
    for (int64_t tile = begin; tile < end; tile += block_tiles_) {
      args.left = left + (tile - begin) * shape_.left_row;
      args.right = right + (tile - begin) * shape_.right_row;
      args.count = std::min(block_tiles_, end - tile);
      args.first = tile == 0;
      entry_(&args);
    }
  }

  WinogradWeightShape shape_;
  int64_t turns_, blocks_ = 1, block_tiles_ = 1, blocks_at_once_ = 1;
  int64_t left_point_ = 0, right_point_ = 0, turn_bytes_ = 0;  // bytes
  bool apart_ = false;                                         // threads take turns of their own
  int sharing_ = 1;                                            // threads that share a turn
  std::vector<float> zeros_;
  tsr::WinogradTiles images_{}, gradients_{};
};

}  // namespace

std::unique_ptr<Kernel> make_winograd_weight_kernel(std::shared_ptr<CpuModule> module, const ArchSpec& arch,
                                                    const Problem& problem, const Choice& choice) {
  return std::make_unique<WinogradWeightKernel>(std::move(module), arch, problem, choice);
}

}  // namespace tessera
