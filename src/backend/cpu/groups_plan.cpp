#include "backend/cpu/groups_plan.h"

#include <algorithm>
#include <cstdlib>

#include "core/cache_line.h"
#include "core/caches.h"
#include "core/tile_math.h"

namespace tessera {
namespace {

// One function for each of the plan's decisions.
struct Planner {
  const GemmView& v;
  const KernelConfig& c;
  const GroupsShape& s;
  const ArchSpec& a;
  const WindowAxis &z = s.axes[0], &y = s.axes[1], &x = s.axes[2];
  const bool slow = !last_level_is_fast(a);

  bool forward() const { return !s.gradient && x.spread > 0; }

  int64_t lines() const { return v.window->images * z.positions * y.positions; }
  // Bytes of a line of the operand read, and of both; a result is counted as wide as the filter's elements.
  double in_line() const {
    return static_cast<double>(s.groups * s.inner * x.size * bytes_of((s.gradient ? v.b : v.a).type));
  }
  double line_bytes() const {
    return static_cast<double>(s.groups) * static_cast<double>(x.size * s.inner * bytes_of(v.a.type) +
                                                               x.positions * s.outer * bytes_of(v.b.type));
  }

  // A fast last-level cache needs no asking ahead, while it holds the operands: lines asked for in vain hold
  // up those that are waited for. A core's share of it does that whole; where none is stated, a part of it
  // does, less for planes, which were met long ago. A slow one does as soon as L2 does not hold them; what is
  // read in order, as forward, the processor sees coming where half of it is in L2 still.
  bool fetch() const {
    const double part = !s.gradient  ? 1.0 / 3
                        : z.taps > 1 ? 1.0 / 4
                                     : 3.0 / 8,
                 held = a.l3.bytes_per_core ? 1 : part;
    const double in_l2 = static_cast<double>(a.l2.bytes) * (forward() ? 2 : 1);
    return v.bytes() > (slow ? in_l2 : static_cast<double>(own_last_level(a)) * held);
  }

  // What a chunk meets once L1 holds it is asked for a line ahead, while that fits beside the lines it meets
  // again. Pixels that begin within lines of memory take more of them, and those of L2 come in time as it is.
  bool fetch_line() const {
    const auto whole_lines = [&](DType type) { return s.groups * bytes_of(type) % kCacheLine == 0; };
    const int64_t met = z.taps * y.taps + 1, ahead = 2;
    return y.step == 1 && x.step == 1 && whole_lines(v.a.type) && whole_lines(v.b.type) &&
           v.bytes() > static_cast<double>(a.l2.bytes) &&
           (met + ahead) * x.size * s.chunk * bytes_of(v.b.type) <= a.l1.bytes;
  }

  // What is asked for ahead is dropped while many reads wait for L2: with few columns at a time, the lines
  // that neighbouring lines of a result share are met again in L1. Narrow pixels lie one after the other as
  // it is.
  bool few_columns() const {
    constexpr int64_t kPixel = 128;
    return fetch() && forward() && x.step > 1 && s.groups * s.inner * bytes_of(v.a.type) >= kPixel;
  }

  // Chunks take turns over as many lines as stay in the second-level cache, or where something else bounds
  // them, over fewer; a gradient's over two at least.
  int64_t line_block() const {
    int64_t block =
        std::max<int64_t>(static_cast<int64_t>(static_cast<double>(a.l2.bytes) / 4 / line_bytes()), 2);
    // A chunk is worth its preparation for a few tiles, and a gradient's, whose sums are loaded and stored,
    // for some more, while lines do not take long to come. The longer they do, the more of that cache they
    // need.
    const auto lines_of = [&](int64_t tiles) { return ceil_div(tiles, ceil_div(x.positions, s.columns)); };
    if (slow) {
      constexpr int64_t kLeastTiles = 8;
      const int64_t least = s.gradient ? 2 : std::max<int64_t>(lines_of(kLeastTiles), 2);
      block = std::max(block / 2, std::min(least, block));
    } else if (s.gradient) {
      constexpr int64_t kLeastTiles = 16;
      block = std::max(block, std::min(lines_of(kLeastTiles), lines()));
    }
    // A gradient's chunk passes over its lines once for every channel of a group that lanes take.
    if (s.gradient && s.steps > 1) {
      const int64_t chunk_bytes = x.size * ceil_div(s.chunk * s.inner, s.across()) * bytes_of(v.b.type) +
                                  x.positions * ceil_div(s.chunk * s.outer, s.across()) * bytes_of(v.a.type);
      block = std::clamp<int64_t>(a.l1.bytes / 2 / chunk_bytes, 2, block);
    }
    // Chunks that begin anywhere share cache lines with their neighbours.
    if (s.gradient && s.chunks > 1 && s.groups * s.outer * bytes_of(v.a.type) % kCacheLine != 0)
      block =
          std::clamp<int64_t>(static_cast<int64_t>(static_cast<double>(a.l1.bytes) / line_bytes()), 2, block);
    if (few_columns()) block = std::min<int64_t>(block, slow ? 2 : 4);
    return block;
  }

  // Planes take turns where what they share of the lines read would be lost from L2 between them.
  int64_t band_h() const {
    const auto bytes_in_turn = [&](int64_t lines) {
      const int64_t rows =
          std::min(y.size, ((lines - 1) * y.step + (y.taps - 1) * std::abs(y.spread)) / y.divide + 1);
      return static_cast<double>(lines) * (line_bytes() - in_line()) +
             static_cast<double>(z.taps * rows) * in_line();
    };
    if (z.taps <= 2 || z.divide != 1 || z.positions <= 1 || s.blocked) return y.positions;
    int64_t lines = y.positions;
    while (lines > 1 && bytes_in_turn(lines) > static_cast<double>(a.l2.bytes) * 3 / 4) --lines;
    return lines > 1 ? ceil_div(y.positions, ceil_div(y.positions, lines)) : y.positions;  // of one height
  }

  // Lines of the result that go past the caches but not from the kernel's registers: so few in a block that
  // two of them stay in L2. Threads that share lines could not tell when one is complete.
  void put_results_apart(GroupsPlan& p) const {
    p.apart_bytes = 0;
    if (s.gradient || !p.by_lines || !result_past_caches(v, a) || groups_stream(v, c, a)) return;
    const int64_t line =
        v.c.row_stride * bytes_of(v.c.type) * v.window->axes[2].positions * (s.blocked ? s.block_h : 1);
    if (line > a.l2.bytes / 4) return;
    p.line_block = std::clamp<int64_t>(a.l2.bytes / 8 / line, 1, p.line_block);
    p.apart_bytes = round_up(p.line_block * line, kCacheLine) + kCacheLine;
  }
};

}  // namespace

GroupsPlan groups_plan(const GemmView& v, const KernelConfig& c, const GroupsShape& s, const ArchSpec& a,
                       int threads) {
  const Planner planner{v, c, s, a};
  GroupsPlan p{};
  p.lines = planner.lines();
  p.line_block = planner.line_block();
  p.tile_block = planner.few_columns() ? 1 : s.axes[2].positions;
  p.band_h = planner.band_h();
  p.fetch = planner.fetch();
  p.fetch_line = planner.fetch_line();
  p.by_lines = s.takes_lines(v, a, threads);
  p.parts = s.gradient && p.by_lines ? std::min<int64_t>(threads, p.lines) : 1;
  planner.put_results_apart(p);
  return p;
}

}  // namespace tessera
