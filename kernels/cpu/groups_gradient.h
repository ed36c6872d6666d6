// cpu_groups for the gradient of the filter: the lines of dY are walked with those of X that each tap meets,
// and the sums of as many lines of the filter as fit stay in registers. Lanes are channels of dY, for which
// those of X are chosen at every column; turned, channels of X, for which those of dY are, once for all
// lines.
#pragma once

#include "cpu/groups_finish.h"
#include "cpu/groups_load.h"

namespace tsr {

template <class C>
struct GroupsGradient {
  using M = GroupsMath<C>;
  using Load = GroupsLoad<C>;
  using F = typename M::F;
  using U = typename M::U;
  using Chunk = typename M::Chunk;
  static constexpr int L = M::L, V = M::V, kTaps = M::kTaps, kLines = M::kLines;
  static constexpr long long kSlot = M::kSlot;
  // Sums that are kept at a time beside `columns` of dY: of channels of the operand read, where all of a
  // vector's lanes take the same one, and then of lines of the filter.
#ifdef __AVX512VL__
  static constexpr int kRegisters = 31;
#else
  static constexpr int kRegisters = 15;
#endif
  static constexpr int channels_of(int columns) {
    const int sums = (kRegisters - columns * V - V) / (kTaps * V);
    int channels = M::kSpread && sums > 0 ? sums : 1;
    while (M::kInner % channels != 0) --channels;
    return channels;
  }
  static constexpr int bands_of(int columns) {
    const int sums = (kRegisters - columns * V - V) / (kTaps * V), fit = sums / channels_of(columns);
    return fit > 0 ? (kLines + fit - 1) / fit : kLines;
  }
  // Of a column of dY and its lanes, in cycles: two products each, or one vector that is read, since it may
  // lie across lines of memory.
  static constexpr double cost_of(int columns) {
    const double products = 0.5 * kLines * kTaps,
                 reads = static_cast<double>(kLines) * M::columns_of(columns) / columns + bands_of(columns);
    return products > reads ? products : reads;
  }
  // Columns of dY in registers: fewer where fewer passes over the lines are the better of it.
  static constexpr int B = [] {
    int best = C::tile_m;
    for (int columns = best; columns >= 2 && !M::kGrouped; --columns) {
      const double gain = cost_of(best) - cost_of(columns);
      if (gain > 0 || (gain == 0 && bands_of(columns) < bands_of(best))) best = columns;
    }
    return best;
  }();
  static constexpr int kChannels = channels_of(B), kBands = bands_of(B);
  static constexpr typename M::template Columns<B> kColumns{};
  static constexpr int kBand = (kLines + kBands - 1) / kBands;
  // Several products for each vector leave time between columns for a steady trickle of what is asked for
  // ahead; one pass over lines, for what the next line adds in L1 as well.
  static constexpr bool kBetween = kTaps > 1 && M::kStride == 1 && !M::kGrouped, kNextLine = kBands == 1;

  // The operand whose channels are the lanes, dY unless turned: they are taken as they lie.
  struct Lanes {
    long long base;
    Part part[V];
    long long beyond = 0;  // elements that whole vectors read behind the last channel of a pixel
    TSR_INLINE Lanes(const GroupsArgs& args, long long chunk)
        : base(M::first_channel(args, chunk) * M::kOtherSize) {
      each<V>([&](auto v) __attribute__((always_inline)) {
        constexpr int kMost = M::kPairs ? 2 * L : M::kUsed, kRead = M::kPairs ? 2 * L : L;
        const long long live = M::outer_channels(args) - (M::first_channel(args, chunk) + v.value * M::kUsed);
        if (!M::kPairs || v.value % 2 == 0) beyond = most(beyond, kRead - live);
        part[v.value] = Part(live > kMost ? kMost : live > 0 ? live : 0);
      });
    }
  };
  template <bool kWhole>
  static TSR_INLINE void load_lanes(F (&y)[V], const char* p, const Lanes& lanes) {
    each<V>([&](auto vi) __attribute__((always_inline)) {
      constexpr int v = decltype(vi)::value;
      if constexpr (!M::kPairs) {
        y[v] = Load::template floats<M::kOther, kWhole>(p + v * M::kUsed * M::kOtherSize, lanes.part[v]);
        hold(y[v]);
      } else if constexpr (v % 2 == 0) {
        const char* from = p + v * L * M::kOtherSize;
        const U u = kWhole ? load_whole<U>(from) : load_copy16<U>(from, lanes.part[v]);
        Load::split(as_float<L>(u), y[v], y[v + 1]);
      }
    });
  }

  // A line of dY: its first column, and what the filter's first tap meets there, which may lie outside.
  struct Line {
    const char *out, *in;
    int first_d, count_d, first_h, count_h;  // taps that meet lines of X
  };
  static constexpr int kMostLines = 64;  // of a block

  struct Job {
    const GroupsArgs* args;
    const Chunk* chunk;
    const Lanes* lanes;
    U index[V];
    int lines;
    long long inside_begin, inside_end;  // columns whose steps meet X only inside, and that are whole
    int tap_line;                        // first of the band
    int channel;                         // of a group of the operand read; the first one
    bool add;                            // to sums there are
    float* sums;                         // of that line of the filter, and those behind it
    Stream<false> next_in, next_out;
    long long in_line, out_line;  // bytes
    Line line[kMostLines];
  };

  static TSR_INLINE void fetch_blocks(Job& at) {
    at.next_in.fetch();
    at.next_out.fetch();
  }

  // Pixels of a chunk at the columns of a step, into L1.
  template <int kSize>
  static TSR_INLINE void fetch_pixels(const char* p, long long apart) {
    each<B>([&](auto) __attribute__((always_inline)) {
      each<(V * L * kSize + 63) / 64>([&](auto i) __attribute__((always_inline)) {
        __builtin_prefetch(p + i.value * 64, 0, 3);
      });
      p += apart;
      hold(p);
    });
  }
  // What the next line adds to this one, or at the last one the first line of the next chunk.
  static TSR_INLINE void fetch_line(const Job& at, const char* out, const char* in,
                                    const long long (&apart)[kBand], bool last) {
    const long long pixel = at.args->in_channels * M::kInSize,
                    out_pixel = at.args->out_channels * M::kOtherSize;
    if (!last) {
      fetch_pixels<M::kOtherSize>(out + at.out_line, out_pixel);
      fetch_pixels<M::kInSize>(in + apart[kBand - 1] + at.in_line, pixel);
    } else {
      fetch_pixels<M::kOtherSize>(out + V * L * M::kOtherSize - (at.lines - 1) * at.out_line, out_pixel);
      each<kBand>([&](auto r) __attribute__((always_inline)) {
        fetch_pixels<M::kInSize>(in + apart[r.value] + V * L * M::kInSize - (at.lines - 1) * at.in_line,
                                 pixel);
      });
    }
  }

  // What column `col` of X adds to the sums of a line of the filter.
  template <bool kWhole>
  static TSR_INLINE void meet(F (&acc)[kChannels][kTaps][V], const F (&y)[B][V], const Job& at,
                              const char* from, int col) {
    constexpr int kTwo = M::kSpread && M::kIn == Type::bf16 && kChannels % 2 == 0 ? 2 : 1;
    TSR_UNROLL for (int c = 0; c < kChannels; c += kTwo) {
      F x[2][V];
      if constexpr (M::kTurned) {
        load_lanes<kWhole>(x[0], from, *at.lanes);
      } else if constexpr (kTwo == 2) {
        Load::spread_two(x, from + c * M::kInSize, *at.chunk);
      } else {
        Load::template load<kWhole>(x, from + c * M::kInSize, *at.chunk, at.index);
      }
      TSR_UNROLL for (int two = 0; two < kTwo; ++two) {
        TSR_UNROLL for (int t = 0; t < kTaps; ++t) {
          const int b = kColumns.met[col][t];
          if (b < 0) continue;
          TSR_UNROLL for (int v = 0; v < V; ++v) M::add_product(acc[c + two][t][v], x[two][v], y[b][v]);
        }
      }
    }
  }

  // B columns of a line. kAll: every tap of the band meets a line.
  template <bool kEdge, bool kAll, bool kWhole>
  static TSR_INLINE void step(F (&acc)[kBand][kChannels][kTaps][V], const Job& at, const char* out,
                              long long out_left, const char* in, const long long (&apart)[kBand],
                              const bool (&live)[kBand], long long in_col) {
    const GroupsArgs& args = *at.args;
    const long long pixel = args.in_channels * M::kInSize, out_pixel = args.out_channels * M::kOtherSize;
    F y[B][V];
    TSR_UNROLL for (int b = 0; b < B; ++b) {
      const char* from = out;
      out += out_pixel;
      hold(out);
      if (kEdge && b >= out_left) {
        TSR_UNROLL for (int v = 0; v < V; ++v) y[b][v] = F{};
      } else if constexpr (M::kTurned) {
        Load::template load<kWhole>(&y[b], from, *at.chunk, at.index);
      } else {
        load_lanes<kWhole>(y[b], from, *at.lanes);
      }
    }
    // Of all lines at once, neighbouring products go to different sums.
    constexpr int kAtOnce = kAll ? kBand : 1;
    TSR_UNROLL for (int r0 = 0; r0 < kBand; r0 += kAtOnce) {
      if (!kAll && !live[r0]) continue;
      long long to[kAtOnce] = {};
      const char* p = kAll ? in : in + apart[r0];
      TSR_UNROLL for (int r = 0; kAll && r < kBand; ++r) {
        to[r] = apart[r];
        hold(to[r]);
      }
      TSR_UNROLL for (int col = 0; col < kColumns.kCount; ++col) {
        const char* from = p;
        p += pixel;
        hold(p);
        if (!kColumns.used[col] || (kEdge && !within(in_col + col, args.in_w))) continue;
        TSR_UNROLL for (int r = 0; r < kAtOnce; ++r) meet<kWhole>(acc[r0 + r], y, at, from + to[r], col);
      }
    }
  }

  // kAhead: what is asked for ahead is, between columns.
  template <bool kWhole, bool kAhead = false>
  static __attribute__((noinline)) TSR_OWN_ADDRESSES void band(Job& at) {
    const GroupsArgs& args = *at.args;
    const long long pixel = args.in_channels * M::kInSize, out_pixel = args.out_channels * M::kOtherSize;
    F acc[kBand][kChannels][kTaps][V];
    each<kBand * kChannels * kTaps * V>([&](auto i) __attribute__((always_inline)) {
      acc[i.value / (kChannels * kTaps * V)][i.value / (kTaps * V) % kChannels][i.value / V % kTaps]
         [i.value % V] = F{};
    });
    int tap_d[kBand], tap_h[kBand];
    long long apart[kBand];  // from what the filter's first tap meets
    each<kBand>([&](auto r) __attribute__((always_inline)) {
      tap_d[r.value] = (at.tap_line + r.value) / C::taps_h;
      tap_h[r.value] = (at.tap_line + r.value) % C::taps_h;
      apart[r.value] = (tap_d[r.value] * args.at_step_d * args.in_h + tap_h[r.value] * args.at_step_h) *
                           args.in_w * pixel +
                       (M::kSpread ? at.channel * M::kInSize : 0);
    });
    for (int l = 0; l < at.lines; ++l) {
      if (!kAhead && args.fetch) fetch_blocks(at);
      const Line& line = at.line[l];
      bool live[kBand], any = false, all = kWhole;
      each<kBand>([&](auto r) __attribute__((always_inline)) {
        live[r.value] = within(tap_d[r.value] - line.first_d, line.count_d) &&
                        within(tap_h[r.value] - line.first_h, line.count_h);
        any |= live[r.value];
        all &= live[r.value];
      });
      if (!any) continue;
      const char *out = line.out + (M::kTurned ? at.chunk->begin : at.lanes->base),
                 *in = line.in + (M::kTurned ? at.lanes->base : at.chunk->begin);
      long long o = 0, in_col = -args.pad_w;
      for (; o < args.out_w;
           o += B, in_col += B * M::kStride, out += B * out_pixel, in += B * M::kStride * pixel) {
        if (kAhead && args.fetch) fetch_blocks(at);
        if (kAhead && kNextLine && args.fetch_line) fetch_line(at, out, in, apart, l + 1 == at.lines);
        if (!all) {
          step<true, false, kWhole>(acc, at, out, args.out_w - o, in, apart, live, in_col);
        } else if constexpr (kWhole) {
          if (o >= at.inside_begin && o < at.inside_end) {
            step<false, true, true>(acc, at, out, B, in, apart, live, in_col);
          } else {
            step<true, true, true>(acc, at, out, args.out_w - o, in, apart, live, in_col);
          }
        }
      }
    }
    each<kBand>([&](auto ri) __attribute__((always_inline)) {
      constexpr int r = decltype(ri)::value;
      if (at.tap_line + r < kLines) {
        float* to = at.sums + r * kSlot * M::kInner;
        each<kChannels * kTaps * V>([&](auto k) __attribute__((always_inline)) {
          F sum = acc[r][k.value / (kTaps * V)][k.value / V % kTaps][k.value % V];
          if (at.add) sum += load_whole<F>(to + k.value * L);
          store_whole(to + k.value * L, sum);
        });
      }
    });
  }

  // Whether whole vectors may be read along this line of dY.
  static TSR_INLINE bool lines_behind(const GroupsArgs& args, long long number, const Chunk& chunk,
                                      const Lanes& lanes) {
    const GroupsLine line(args, number);
    const long long room = args.out_channels * (args.out_pixels - (line.line() + 1) * args.out_w);
    return room >= (M::kTurned ? chunk.beyond : lanes.beyond) &&
           line.room() >= (M::kTurned ? lanes.beyond : chunk.beyond);
  }

  static TSR_INLINE void lines(const GroupsArgs& args) {
    Job job;
    job.args = &args;
    const long long chunk_floats = kLines * M::kInner * kSlot;
    if (args.epilogue.alpha == 0.0f || args.line_begin == args.line_end) {  // which hides what operands hold
      for (long long i = args.chunk_begin * chunk_floats; i < args.chunk_end * chunk_floats; i += L)
        store_whole(args.panels + i, F{});
      return;
    }
    const long long in_line = args.in_w * args.in_channels * M::kInSize,
                    out_line = args.out_w * args.out_channels * M::kOtherSize;
    job.in_line = in_line;
    job.out_line = out_line;
    const bool ahead = kBetween && (args.fetch || (kNextLine && args.fetch_line));
    // A step reads kColumns of X from o * stride - pad on.
    const long long last_inside = args.in_w + args.pad_w - kColumns.kCount;
    job.inside_begin = (args.pad_w + M::kStride - 1) / M::kStride;
    job.inside_end = last_inside < 0 ? 0 : least(last_inside / M::kStride, args.out_w - B) + 1;
    // Of the lines up to which all have enough behind them in both operands, for the last chunk and so for
    // all. Any line may meet the last one of X: taps that lie apart leave the image one by one.
    const Chunk last(args, args.chunk_end - 1);
    const Lanes last_lanes(args, args.chunk_end - 1);
    long long whole_end = args.line_begin;
    while (whole_end < args.line_end && lines_behind(args, whole_end, last, last_lanes)) ++whole_end;
    const auto block_end = [&](long long l0, long long end) {
      return groups_block_end(args, l0, least(l0 + least(args.line_block, kMostLines), end));
    };
    for (long long l0 = args.line_begin, l1; l0 < args.line_end; l0 = l1) {
      l1 = block_end(l0, l0 < whole_end ? whole_end : args.line_end);
      const long long l2 = l1 < args.line_end ? block_end(l1, args.line_end) : l1;
      const long long turns = (l1 - l0) * (args.chunk_end - args.chunk_begin) * kBands *
                              (ahead ? (args.out_w + B - 1) / B : M::kInner / kChannels);
      job.next_in = groups_next_lines<M::kInSize>(args, l1, l2, turns);
      if (args.fetch) {
        const char* dy = static_cast<const char*>(args.other) + GroupsLine(args, l1).line() * out_line;
        job.next_out = Stream<false>(dy, dy + (l2 - l1) * out_line, turns);
      }
      job.lines = static_cast<int>(l1 - l0);
      job.add = l0 > args.line_begin;
      GroupsLine at(args, l0);
      for (int l = 0; l < job.lines; ++l, at.next()) {
        const GroupsAxis &d = at.axis_d(), &h = at.axis_h();
        const long long in_d = d.at - d.first * static_cast<long long>(args.at_step_d),
                        in_h = h.at - h.first * static_cast<long long>(args.at_step_h);
        job.line[l] = {static_cast<const char*>(args.other) + at.line() * out_line,
                       static_cast<const char*>(args.in) +
                           ((at.image * args.in_d + in_d) * args.in_h + in_h) * in_line -
                           args.pad_w * args.in_channels * M::kInSize,
                       d.first,
                       d.count,
                       h.first,
                       h.count};
      }
      for (long long q = args.chunk_begin; q < args.chunk_end; ++q) {
        const Chunk chunk(args, q);
        const Lanes lanes(args, q);
        job.chunk = &chunk;
        job.lanes = &lanes;
        const bool whole = (chunk.beyond <= 0 && lanes.beyond <= 0) || l1 <= whole_end;
        for (job.tap_line = 0; job.tap_line < kLines; job.tap_line += kBand) {
          each<V>([&](auto v) __attribute__((always_inline)) { job.index[v.value] = chunk.index[v.value]; });
          job.sums = args.panels + q * chunk_floats + job.tap_line * M::kInner * kSlot;
          // Not unrolled: one body serves all input channels.
#pragma GCC unroll 1
          for (job.channel = 0; job.channel < M::kInner;
               job.channel += kChannels, job.sums += kChannels * kSlot) {
            if (!whole) {
              band<false>(job);
            } else if (kBetween && ahead) {
              band<true, kBetween>(job);
            } else {
              band<true>(job);
            }
            each<V>([&](auto v) __attribute__((always_inline)) { job.index[v.value] += M::kNext; });
          }
        }
      }
    }
  }

  static TSR_INLINE void run(const GroupsArgs& args) {
    args.phase == GroupsPhase::lines ? lines(args) : GroupsFinish<C>::run(args);
  }
};

}  // namespace tsr
