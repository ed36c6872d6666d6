#include "core/groups_shape.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "core/cache_line.h"
#include "core/caches.h"
#include "core/tile_math.h"
#include "cpu/groups_lanes.h"

namespace tessera {
namespace {

// An axis walked `block` pixels at a time: of a gradient of the input a multiple of the stride.
struct BlockAxis {
  WindowAxis axis;
  int64_t first, origin;
};
BlockAxis block_axis(const WindowAxis& a, int64_t block) {
  if (a.spread > 0) {
    BlockAxis b{.axis = a, .first = 0, .origin = 0};
    b.axis.positions = ceil_div(a.positions, block);
    b.axis.step = block * a.step;
    b.axis.taps = (block - 1) * a.step + (a.taps - 1) * a.spread + 1;
    b.axis.spread = 1;
    return b;
  }
  BlockAxis b{.axis = a, .first = -((a.taps - 1) * -a.spread / a.divide), .origin = 0};
  const int64_t begin = a.shift / block;
  b.origin = begin * block - a.shift;
  b.axis.positions = ceil_div(a.shift + a.positions, block) - begin;
  b.axis.step = block / a.divide;
  b.axis.taps = (block - 1) / a.divide - b.first + 1;
  b.axis.spread = 1;
  b.axis.shift = b.axis.step * begin + b.first;
  b.axis.divide = 1;
  return b;
}

// How many pixels of a line fill a vector: the channels of the only group's result leave room for them, those
// of the operand read can feed them, and each pixel meets the coordinate of its own number and no other.
int64_t joined_pixels(const GemmView& v, const KernelConfig& c, const GroupsShape& s, int64_t vector) {
  const WindowAxis& w = v.window->axes[2];
  const bool alike = w.taps == 1 && w.step == 1 && w.divide == 1 && w.shift == 0 && w.size == w.positions;
  const bool takes_d = std::any_of(v.epilogue.begin(), v.epilogue.end(),
                                   [](const EpilogueStep& step) { return info(step.kind).takes_d; });
  // What is packed is in one order whatever the epilogue: with D tensors rule groups_blocks refuses it.
  const bool apart = takes_d && !v.b_prepacked;
  if (v.groups > 1 || v.b.patches || !alike || apart || vector % s.outer != 0 || s.steps > vector) return 1;
  const int lanes = tsr::groups_lanes(static_cast<int>(s.steps), static_cast<int>(s.outer),
                                      static_cast<int>(vector), c.inst_k > 1);
  const int64_t pixels = vector / s.outer;
  return lanes == vector && w.positions % pixels == 0 ? pixels : 1;
}

// The block whose pixels take the fewest products; none where the channels of one per stride fill a vector,
// and forward none where lanes that hold channels alone take fewer.
void choose_block(GroupsShape& s, const GemmView& v, int64_t vector) {
  const WindowAxis &h = v.window->axes[1], &w = v.window->axes[2];
  const bool forward = w.spread > 0;
  const int64_t pixels = vector / s.outer;
  double best = forward && s.steps <= vector ? static_cast<double>(h.taps * w.taps) : HUGE_VAL;
  for (int64_t bh = h.divide; bh <= std::min(pixels, h.positions + h.divide - 1); bh += h.divide) {
    for (int64_t bw = w.divide; bw * bh <= pixels; bw += w.divide) {
      const double products = static_cast<double>(block_axis(h, bh).axis.taps * block_axis(w, bw).axis.taps) /
                              static_cast<double>(bh * bw);
      if (products >= best) continue;
      best = products;
      s.blocked = true;
      s.block_h = bh;
      s.block_w = bw;
    }
  }
}

// Whether lanes of different pixels take the same steps: a result's own D tensors.
bool pixels_alike(const GemmView& v) {
  return std::all_of(v.epilogue.begin(), v.epilogue.end(), [](const EpilogueStep& s) {
    return !info(s.kind).takes_d || info(s.kind).broadcast == Broadcast::none;
  });
}

// What a line of taps of a gradient takes of a tile's columns, in instructions of the ports that arithmetic
// shares with shuffles: `chosen` columns are, for lanes that are `outer` channels of a group and take
// `inner`.
double chosen_cost(const GroupsShape& s, int64_t inner, int64_t outer, int64_t vector, int64_t chosen) {
  const int from = static_cast<int>(inner), to = static_cast<int>(outer), lanes = static_cast<int>(vector);
  const int used = tsr::groups_lanes(from, to, lanes, false);
  if (used == 0) return HUGE_VAL;
  const int loads = tsr::groups_loads(tsr::groups_reach(from, to, used), lanes, false);
  return static_cast<double>(s.columns * s.axes[2].taps + chosen * loads) / used;
}

// Whether the lanes of a gradient of the filter had better be channels of the operand read. Lanes of the one
// walked choose from those at each column that a line of taps meets, lanes of the one read once from each
// column walked; but lanes that take a single channel pass over their lines once. Elements of 16 bits that
// are not chosen would be converted as often.
bool better_turned(const GemmView& v, const KernelConfig& c, const GroupsShape& s, int64_t vector) {
  const bool floats = c.inst_k <= 1 && v.a.type == DType::f32 && v.b.type == DType::f32;
  if (!s.gradient || !floats || s.groups == 1 || s.inner == 1 || std::max(s.inner, s.outer) >= vector)
    return false;
  return chosen_cost(s, s.outer, s.inner, vector, s.columns) <
         chosen_cost(s, s.inner, s.outer, vector, s.columns_read);
}

// Which channels are lanes, and what feeds them.
void choose_lanes(GroupsShape& s, const GemmView& v, const KernelConfig& c, int64_t vector) {
  s.turned = better_turned(v, c, s, vector);
  if (s.turned) s.steps = s.outer;
  s.alone = s.groups == 1 && !s.gradient && s.outer % std::max(c.tile_n, 1) != 0;
  constexpr int64_t kMost = 65536;  // channels of a group that no number of lanes takes
  const bool few = std::max(s.inner, s.outer) <= kMost;
  const int steps = static_cast<int>(few ? s.steps : 1), outer = static_cast<int>(few ? s.across() : 1),
            lanes = static_cast<int>(vector), vectors = static_cast<int>(c.tile_n / vector);
  if (few && !s.gradient && !s.alone) s.apart = tsr::groups_apart(steps, outer, lanes, vectors);
  s.spread = few && (s.alone || s.apart || outer % vector == 0);
  s.lanes = s.spread ? vector : few ? tsr::groups_lanes(steps, outer, lanes, c.inst_k > 1) : 0;
  const DType read = (s.gradient ? v.b : v.a).type;
  if (s.lanes > 0 && !s.gradient && (read == DType::f32 || c.inst_k > 1))
    s.folds = tsr::groups_folds(steps, outer, lanes);
  if (s.folds > 1) {
    s.lanes = vector / s.folds;
    s.steps /= s.folds;
  } else if (s.lanes > 0 && !s.spread && (steps > 1 || outer > 1))
    s.vectors_read = tsr::groups_loads(tsr::groups_reach(steps, outer, static_cast<int>(s.lanes)), lanes,
                                       vector == 16 && c.inst_k == 1 && read == DType::bf16);
  s.chunk = std::max<int64_t>(s.apart ? vectors / s.apart * s.outer : vectors * s.lanes, 1);
}

// Whether lines that go past the caches, so many bytes of each pixel, meet the same part of memory pixel
// after pixel, since these lie apart by a power of two. Measured on Zen 3, where stores of 64 bytes to pixels
// of 2 KiB, or of 128 to such of 4, take two to four times as long. A Xeon, with vectors of 512 bits, does
// not mind.
bool stores_collide(int64_t pixel, int64_t bytes, const ArchSpec& a) {
  constexpr int64_t kApart = 2048;
  return a.vector_bits == 256 && pixel % (kApart * std::max<int64_t>(bytes / kCacheLine, 1)) == 0;
}

}  // namespace

GroupsShape groups_shape(const GemmView& v, const KernelConfig& c) {
  GroupsShape s{};
  s.gradient = v.b.patches;
  s.inner = v.window->channels;
  s.outer = s.gradient ? v.m : v.n;
  s.axes = v.window->axes;
  s.block_h = s.block_w = s.vectors_read = 1;
  s.folds = 1;
  s.steps = ceil_div(s.inner, std::max(c.inst_k, 1));
  const int64_t vector = std::clamp(c.inst_n, 1, 64);
  const WindowAxis& w = s.axes[2];
  s.joined = joined_pixels(v, c, s, vector);
  s.groups = v.groups * s.joined;
  if (s.joined > 1) {
    s.axes[2].size /= s.joined;
    s.axes[2].positions /= s.joined;
  } else if (v.groups == 1 && !s.gradient && s.outer <= vector / 2 &&
             (w.spread < 0 || v.b_prepacked || pixels_alike(v))) {
    choose_block(s, v, vector);
  }
  if (s.blocked) {
    const BlockAxis h = block_axis(s.axes[1], s.block_h), columns = block_axis(s.axes[2], s.block_w);
    s.first_h = h.first;
    s.first_w = columns.first;
    s.origin_h = h.origin;
    s.origin_w = columns.origin;
    s.axes[1] = h.axis;
    s.axes[2] = columns.axis;
    s.lanes = vector;
    s.chunk = s.outer;
  }
  const int64_t step = w.spread < 0 ? w.divide : 1;  // columns of a tile are a multiple of this
  s.columns = ceil_div(std::max(c.tile_m, 1), step) * step;
  s.columns_read = ((s.columns - 1) * w.step + (w.taps - 1) * std::abs(w.spread)) / w.divide + 1;
  if (!s.blocked) choose_lanes(s, v, c, vector);
  s.chunks = ceil_div(s.groups * s.across(), s.chunk);
  s.chunk_floats = saturated_product({s.taps(), s.steps, c.tile_n});
  return s;
}

// Counted in cycles of one vector of the filter, which takes half a cycle with a pixel of the result. Threads
// with lines read the panels, or sums, that others have written; threads with chunks meet their neighbours'
// lines of memory, and few bytes of each pixel, which the processor does not see coming.
bool GroupsShape::takes_lines(const GemmView& v, const ArchSpec& a, int threads) const {
  const double sums = static_cast<double>(saturated_product({chunks, chunk_floats, 4}));
  if (threads == 1) return !gradient || sums <= v.bytes() / 4;
  const int64_t lines = v.window->images * axes[0].positions * axes[1].positions,
                most = ceil_div(chunks, threads);
  if (gradient && sums * static_cast<double>(std::min<int64_t>(threads, lines)) > v.bytes()) return false;
  const auto at_once = [&](int64_t pieces) {
    return static_cast<double>(pieces) / static_cast<double>(ceil_div(pieces, threads));
  };
  constexpr int kFloats = 16;  // of a vector
  const double others = kFloats * cycles_of_others(a) * (1 - 1.0 / threads),
               work = static_cast<double>(lines * axes[2].positions) / 2,
               piece = static_cast<double>(most * chunk * bytes_of(v.a.type));
  return work / at_once(lines) + others <= work * (1.2 + 512 / piece) / at_once(chunks);
}

bool groups_stream(const GemmView& v, const KernelConfig& c, const ArchSpec& a) {
  const GroupsShape s = groups_shape(v, c);
  const int64_t size = bytes_of(v.c.type), pixel = v.groups * s.outer * size;
  return !s.gradient && !s.blocked && v.epilogue.empty() &&
         (v.c.type == DType::f32 || v.c.type == DType::bf16) && result_past_caches(v, a) &&
         pixel % kCacheLine == 0 && s.chunk * s.folds == c.tile_n && s.chunk * size % kCacheLine == 0 &&
         !stores_collide(pixel, s.chunk * size, a);
}

}  // namespace tessera
