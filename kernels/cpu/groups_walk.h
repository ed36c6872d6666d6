// The order in which cpu_groups walks lines, and what of the operand read is asked for ahead.
#pragma once

#include "cpu/groups_abi.h"
#include "cpu/stream.h"
#include "cpu/unpacked.h"

namespace tsr {

TSR_INLINE bool within(long long x, long long size) {
  return static_cast<unsigned long long>(x) < static_cast<unsigned long long>(size);
}

// A line of the operand walked. Lines are numbered image by image, and in an image band by band: what planes
// share of the operand read is met again before the caches have lost it.
struct GroupsLine {
  const GroupsArgs& args;
  long long image, d, h;
  long long low, high;  // the band's lines of every plane

  TSR_INLINE GroupsLine(const GroupsArgs& a, long long number) : args(a) {
    const long long whole = a.out_d * a.out_h, full = a.out_d * a.band_h;
    image = number / whole;
    number -= image * whole;
    low = number / full * a.band_h;
    number -= low * a.out_d;
    high = least(low + a.band_h, a.out_h);
    d = number / (high - low);
    h = low + number - d * (high - low);
  }
  TSR_INLINE void next() {
    if (++h < high) return;
    h = low;
    if (++d < args.out_d) return;
    d = 0;
    h = low = high < args.out_h ? high : 0;
    if (low == 0) ++image;
    high = least(low + args.band_h, args.out_h);
  }

  TSR_INLINE const GroupsAxis& axis_d() const { return args.axis_d[d]; }
  TSR_INLINE const GroupsAxis& axis_h() const { return args.axis_h[h]; }
  TSR_INLINE long long plane() const { return image * args.out_d + d; }
  TSR_INLINE long long line() const { return plane() * args.out_h + h; }  // in memory

  // The last plane of the operand read that this line meets, and its lines up to the last one met.
  TSR_INLINE long long last_plane() const {
    const GroupsAxis& axis = axis_d();
    return image * args.in_d + axis.at + (args.at_step_d > 0 ? (axis.count - 1) * args.at_step_d : 0);
  }
  TSR_INLINE long long lines_to() const {
    const GroupsAxis& axis = axis_h();
    return last_plane() * args.in_h + axis.at +
           (args.at_step_h > 0 ? (axis.count - 1) * static_cast<long long>(args.at_step_h) : 0) + 1;
  }
  // Elements that may be read behind every pixel that this line's taps meet: they belong to the lines behind.
  TSR_INLINE long long room() const { return args.in_channels * (args.in_pixels - lines_to() * args.in_w); }
};

// The number of the line up to which a chunk that begins at l0 goes. Lines of a block are neighbours in
// memory.
TSR_INLINE long long groups_block_end(const GroupsArgs& args, long long l0, long long l1) {
  if (args.band_h >= args.out_h) return l1;
  const GroupsLine line(args, l0);
  return least(l1, l0 + line.high - line.h);
}

// Of the operand read, what the lines from l1 to l2 meet first, after those up to l1: in a band of planes
// what the last one adds, else what lies behind in every plane, which other lines have met too long ago.
template <int kSize>
TSR_INLINE Stream<false> groups_next_lines(const GroupsArgs& args, long long l1, long long l2,
                                           long long turns) {
  if (!args.fetch || l1 >= l2) return {};
  const GroupsLine first(args, l1), last(args, l2 - 1);
  const bool again = args.band_h < args.out_h && first.d > 0;
  const GroupsAxis& h = first.axis_h();
  const long long begin =
      again ? first.last_plane() * args.in_h + h.at +
                  (args.at_step_h < 0 ? (h.count - 1) * static_cast<long long>(args.at_step_h) : 0)
            : GroupsLine(args, l1 - 1).lines_to();
  const long long end = last.lines_to();
  if (begin < 0 || begin >= end || end * args.in_w > args.in_pixels) return {};
  const long long line = args.in_w * args.in_channels * kSize;
  const long long step = args.at_step_d > 0 ? args.at_step_d : -args.at_step_d;
  const long long planes = again ? 1 : most(least(last.axis_d().count, begin / (args.in_h * step) + 1), 1);
  const char* in = static_cast<const char*>(args.in);
  return Stream<false>(in + begin * line, in + end * line, turns, planes, -step * args.in_h * line);
}

}  // namespace tsr
