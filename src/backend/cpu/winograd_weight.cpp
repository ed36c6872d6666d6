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

// Bytes of the tiles of a block, at most.
constexpr int64_t kMostBlock = int64_t{4} << 20;

// Blocks of tiles are transformed, and their products added to the sums of all points.
class WinogradWeightKernel : public CpuKernel {
 public:
  WinogradWeightKernel(std::shared_ptr<CpuModule> module, const ArchSpec& arch, const Problem& problem,
                       const Choice& choice)
      : CpuKernel(std::move(module), arch, problem, choice),
        shape_(winograd_weight_shape(view_, config_)),
        turns_(winograd_weight_turns(view_, shape_, config_, arch, spare_threads())) {
    // Threads that share no blocks have one each.
    const int64_t most_block =
        turns_.shared ? kMostBlock : std::min(kMostBlock, kMostWinogradTiles / threads_);
    const int64_t fit = std::max<int64_t>(most_block / shape_.tile_bytes(), 1);
    blocks_ = ceil_div(shape_.all_tiles, std::min(std::max<int64_t>(config_.block_m, 1), fit));
    block_tiles_ = ceil_div(shape_.all_tiles, blocks_);
    if (turns_.shared) {
      const int64_t most = std::max<int64_t>(kMostWinogradTiles / (block_tiles_ * shape_.tile_bytes()), 1);
      blocks_at_once_ = std::min<int64_t>({threads_, blocks_, most});
    }
    const int64_t tiles = blocks_at_once_ * block_tiles_;
    left_point_ = odd_lines(tiles * shape_.left_row);
    right_point_ = odd_lines(tiles * shape_.right_row);
    tiles_bytes_ = thread_share(shape_.points * (left_point_ + right_point_));
    sums_bytes_ = thread_share(shape_.sums_bytes());
    zeros_.assign(static_cast<size_t>(shape_.groups_at_once * std::max(shape_.rows, shape_.channels)), 0.0f);
    set_arguments();
  }

  void run_unchecked(const Buffers& buffers) const override {
    char* space = static_cast<char*>(buffers.workspace ? buffers.workspace : thread_arena(workspace_bytes()));
    char* sums = space + spaces() * tiles_bytes_;
    tsr::EpilogueArgs epilogue;
    set_epilogue(epilogue, buffers);
    if (turns_.shared) {
      for (int64_t turn = 0; turn < turns_.turns; ++turn) {
        add_products(buffers, epilogue, turn, 0, blocks_, threads_, space, sums);
        weights(buffers, epilogue, turn, turn + 1, threads_, sums);
      }
      return;
    }
    deal_out(turns_.turns * turns_.parts, threads_, [&](int64_t i, int thread) {
      const int64_t turn = i / turns_.parts, part = i % turns_.parts;
      char* own = sums + (turns_.parts > 1 ? i : thread) * sums_bytes_;
      add_products(buffers, epilogue, turn, blocks_ * part / turns_.parts,
                   blocks_ * (part + 1) / turns_.parts, 1, space + thread * tiles_bytes_, own);
      if (turns_.parts == 1) weights(buffers, epilogue, turn, turn + 1, 1, own);
    });
    if (turns_.parts > 1) weights(buffers, epilogue, 0, turns_.turns, threads_, sums);
  }

  size_t workspace_bytes() const override {
    const int64_t sums = turns_.parts > 1 ? turns_.turns * turns_.parts : spaces();
    return static_cast<size_t>(spaces() * tiles_bytes_ + sums * sums_bytes_);
  }
  size_t panels_bytes() const override { return 0; }
  void pack_b_unchecked(const void*, void*, int64_t) const override {}

 private:
  // Of transformed tiles.
  int64_t spaces() const {
    return turns_.shared ? 1 : std::min<int64_t>(threads_, turns_.turns * turns_.parts);
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

  // The products of blocks [first, last), whose sums are computed in the order of the blocks.
  void add_products(const Buffers& buffers, const tsr::EpilogueArgs& epilogue, int64_t turn, int64_t first,
                    int64_t last, int sharing, char* space, char* sums) const {
    const int64_t group = turn * shape_.groups_at_once, first_tile = first * block_tiles_,
                  behind = std::min(last * block_tiles_, shape_.all_tiles);
    tsr::WinogradTiles gradients = gradients_, images = images_;
    gradients.in = group_a(buffers, group);
    gradients.to = space;
    images.in = group_b(buffers, group);
    images.to = gradients.to + shape_.points * left_point_;
    const bool looks = epilogue.alpha != 0.0f;  // otherwise A and B are not looked at
    if (!looks || first_tile >= behind) std::memset(sums, 0, static_cast<size_t>(shape_.sums_bytes()));
    for (int64_t begin = first_tile, end; looks && begin < behind; begin = end) {
      end = std::min(begin + blocks_at_once_ * block_tiles_, behind);
      deal_out(sharing, sharing, [&](int64_t i, int) {
        const int64_t from = begin + (end - begin) * i / sharing,
                      to = begin + (end - begin) * (i + 1) / sharing;
        transform(tsr::WinogradWeightPhase::images, images, begin, from, to);
        transform(tsr::WinogradWeightPhase::gradients, gradients, begin, from, to);
      });
      deal_out(shape_.groups_at_once * shape_.points * shape_.panels, sharing,
               [&](int64_t i, int) { multiply(i, gradients.to, images.to, sums, begin, end, first_tile); });
    }
  }

  // The gradients of the groups of turns [first, last), from the sums of their parts.
  void weights(const Buffers& buffers, const tsr::EpilogueArgs& epilogue, int64_t first, int64_t last,
               int sharing, char* sums) const {
    const int64_t pieces = std::min<int64_t>(sharing, shape_.rows), groups = shape_.groups_at_once;
    deal_out((last - first) * groups * pieces, sharing, [&](int64_t i, int) {
      const int64_t turn = i / pieces / groups, g = i / pieces % groups, piece = i % pieces;
      tsr::WinogradWeightArgs args = arguments(tsr::WinogradWeightPhase::weights);
      args.sums = sums + turn * turns_.parts * sums_bytes_ + g * shape_.group_sums();
      args.parts = turns_.parts;
      args.part_bytes = sums_bytes_;
      args.row_begin = shape_.rows * piece / pieces;
      args.row_end = shape_.rows * (piece + 1) / pieces;
      args.epilogue = epilogue;
      set_group(args.epilogue, buffers, (first + turn) * groups + g);
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

  // Of the groups of a turn and their points the i-th panel of channels, over tiles [begin, end). There are
  // no sums before `first_tile`.
  void multiply(int64_t i, const char* left, const char* right, char* sums, int64_t begin, int64_t end,
                int64_t first_tile) const {
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
      args.first = tile == first_tile;
      entry_(&args);
    }
  }

  WinogradWeightShape shape_;
  WinogradWeightTurns turns_;
  int64_t blocks_ = 1, block_tiles_ = 1, blocks_at_once_ = 1;
  int64_t left_point_ = 0, right_point_ = 0, tiles_bytes_ = 0, sums_bytes_ = 0;  // bytes
  std::vector<float> zeros_;
  tsr::WinogradTiles images_{}, gradients_{};
};

}  // namespace

std::unique_ptr<Kernel> make_winograd_weight_kernel(std::shared_ptr<CpuModule> module, const ArchSpec& arch,
                                                    const Problem& problem, const Choice& choice) {
  return std::make_unique<WinogradWeightKernel>(std::move(module), arch, problem, choice);
}

}  // namespace tessera
