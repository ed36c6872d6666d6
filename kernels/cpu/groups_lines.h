// cpu_groups for results with channels: lines of the result are walked, the sums of a few columns staying in
// registers while each column that is read feeds every tap it meets.
#pragma once

#include "cpu/groups_lines_job.h"
#include "cpu/groups_lines_store.h"
#include "cpu/groups_load.h"
#include "cpu/groups_weights.h"
#include "cpu/stream.h"

namespace tsr {

template <class C>
struct GroupsLines {
  using M = GroupsMath<C>;
  using Load = GroupsLoad<C>;
  using Job = GroupsLinesJob<C>;
  using Store = GroupsLinesStore<C>;
  using E = typename M::E;
  using F = typename M::F;
  using U = typename M::U;
  using Chunk = typename M::Chunk;
  static constexpr int L = M::L, V = M::V, kSums = M::kSums, kTaps = M::kTaps;
  static constexpr long long kSlot = M::kSlot;
  static constexpr int kUnit = Job::kUnit, B = Job::B, kStep = Job::kStep;
  static constexpr bool kStreams = Job::kStreams;
  static constexpr typename M::template Columns<B> kColumns{};

  // A line of the result, the same for all chunks of channels.
  struct Line {
    long long in, panel;         // from the first ones to where its first tap lies: bytes, floats
    long long d_count, h_count;  // lines of the filter that it meets
    long long room;              // elements that may be read behind every pixel
    long long row, plane, block_line;
  };
  static constexpr int kMostLines = 64;

  // Neighbouring tiles of a line: where the first one begins, and how many reach over the line's ends before
  // and behind those inside.
  struct Span {
    long long in_col, out_col, before, inside, behind;
  };

  // Tiles of lines, one beside the other: of a span the first and the last ones are at an edge. Where the
  // next tile reads and stores is known before this one is done.
  template <bool kWhole>
  static __attribute__((noinline)) TSR_OWN_ADDRESSES void tiles(Job& at, const Span& span, const Line* l,
                                                                const Line* end) {
    const EpilogueArgs& e = at.args->epilogue;
    constexpr int kSize = bytes_of(C::type_out);
    const char* first_in = at.in + span.in_col * at.pixel;
    char* first_out = static_cast<char*>(e.c) + (span.out_col * e.c_stride + at.o) * kSize;
    const long long pixel = e.c_stride * kSize, in_step = kStep * at.pixel, out_step = B * pixel;
    const long long count = span.before + span.inside + span.behind;
    for (; l < end; ++l) {
      at.line_panel = at.panel + l->panel;
      at.d_count = l->d_count;
      at.h_count = l->h_count;
      at.row = l->row;
      at.image = l->plane;
      at.block_line = l->block_line;
      at.in_col = span.in_col;
      at.out_col = span.out_col;
      const char* in = first_in + l->in;
      char* out = first_out + l->row * pixel;
      for (long long i = 0; i < count; ++i) {
        if (at.fetches) {
          at.next_in.fetch();
          at.next_out.fetch();
          at.leaving.turn();
        }
        if (kWhole && within(i - span.before, span.inside)) {
          tile<false, true>(at, in, out);
        } else {
          tile<true, kWhole>(at, in, out);
        }
        at.in_col += kStep;
        at.out_col += B;
        in += in_step;
        out += out_step;
      }
    }
  }

  // Registers are few, and no vector of a pixel takes what another one does: one is read at a time, and where
  // the weights of all of them do not fit beside the sums, a line is gone through once for each.
  static constexpr bool kOneVector =
      kFewRegisters && (M::kBeside || (M::kChosen && !M::kShared)) && !M::kPairs && M::kAtOnce == 1;
  static constexpr int kVectors = (B + kTaps + M::kChosen) * V + 1 <= 16 ? V : 1;

  template <bool kEdge, bool kWhole>
  static TSR_INLINE void add_line(const Job& at, const char* line, const float* taps, F (&acc)[B][V]) {
    const Chunk& chunk = *at.chunk;
    U step{};  // what it adds to the indices of the first channels
#pragma GCC unroll 1
    for (int c = 0; c < M::kSteps; ++c, taps += kSlot) {
      each<V / kVectors>([&](auto gi) __attribute__((always_inline)) {
        constexpr int g = decltype(gi)::value * kVectors;
        F w[kTaps][kVectors];
        each<kTaps * kVectors>([&](auto k) __attribute__((always_inline)) {
          F weight = load_whole<F>(taps + (k.value / kVectors * V + g + k.value % kVectors) * L);
          hold(weight);
          w[k.value / kVectors][k.value % kVectors] = weight;
        });
        U index[kVectors];
        each<kVectors>([&](auto v) __attribute__((always_inline)) {
          if constexpr (M::kChosen) index[v.value] = chunk.index[g + v.value] + step;
        });
        const char* p = line;
        TSR_UNROLL for (int col = 0; col < kColumns.kCount; ++col) {
          const char* from = p;
          p += at.pixel;
          hold(p);
          if (!kColumns.used[col] || (kEdge && !within(at.in_col + col, at.in_w))) continue;
          each<kVectors>([&](auto vi) __attribute__((always_inline)) {
            constexpr int v = g + decltype(vi)::value;
            const F x = Load::template vector<kWhole, v>(from, chunk, index[vi.value]);
            TSR_UNROLL for (int t = 0; t < kTaps; ++t) {
              const int b = kColumns.met[col][t];
              if (b >= 0) M::multiply(acc[b][v], x, w[t][vi.value]);
            }
          });
        }
      });
      if constexpr (M::kChosen) step += M::kNext;
    }
  }

  // Weights of all taps do not fit beside the sums: those of one are held, and each pixel that it meets is
  // spread again, which takes no register of its own for longer.
  static constexpr bool kByTaps =
      kFewRegisters && M::kShared && M::kAlike && M::kAtOnce == 1 && (B + kTaps) * V + 1 > 16;

  // The same of lanes that all take one channel.
  template <bool kEdge, bool kWhole>
  static TSR_INLINE void add_taps(const Job& at, const char* line, const float* taps, F (&acc)[B][V]) {
    constexpr int kNext = M::kBackward ? 1 : M::kStride;  // from a column that a tap meets to the next one
    const long long pixel = at.pixel, next = kNext * pixel, in_w = at.in_w, in_col = at.in_col;
#pragma GCC unroll 1
    for (int c = 0; c < M::kSteps; ++c, line += M::kInner / M::kSteps * M::kInSize, taps += kSlot) {
      each<kTaps>([&](auto ti) __attribute__((always_inline)) {
        constexpr int t = decltype(ti)::value, first = kColumns.first(t);
        F w[V];
        each<V>([&](auto v) __attribute__((always_inline)) {
          F weight = load_whole<F>(taps + (t * V + v.value) * L);
          hold(weight);
          w[v.value] = weight;
        });
        const char* p = line + first * pixel;
        asm volatile("" : "+r"(p));  // else a compiler keeps what other taps meet too
        TSR_UNROLL for (int col = first; col < kColumns.kCount; col += kNext, p += next) {
          const int b = kColumns.met[col][t];
          if (b < 0 || (kEdge && !within(in_col + col, in_w))) continue;
          const F x = Load::template vector<kWhole, 0>(p, *at.chunk, U{});
          TSR_UNROLL for (int v = 0; v < V; ++v) M::multiply(acc[b][v], x, w[v]);
        }
      });
    }
  }

  // The same of any lanes, channel by channel of a group.
  template <bool kEdge, bool kWhole>
  static TSR_INLINE void add_channels(const Job& at, const char* line, const float* taps, F (&acc)[B][V]) {
    const Chunk& chunk = *at.chunk;
    const long long pixel = at.pixel, in_w = at.in_w, in_col = at.in_col;
    U index[V];
    const Chunk* again = &chunk;
    if (M::kSteps > 1) hold(again);  // else the first indices would stay in registers too
    each<V>([&](auto v) __attribute__((always_inline)) { index[v.value] = again->index[v.value]; });
#pragma GCC unroll 1
    for (int c = 0; c < M::kSteps; c += M::kAtOnce, taps += M::kAtOnce * kSlot) {
      F w[M::kAtOnce][kTaps][V];
      each<M::kAtOnce * kTaps * V>([&](auto k) __attribute__((always_inline)) {
        F weight = load_whole<F>(taps + k.value * L);
        hold(weight);
        w[k.value / (kTaps * V)][k.value / V % kTaps][k.value % V] = weight;
      });
      const char* p = M::kAlike ? line + c * (M::kInner / M::kSteps) * M::kInSize : line;
      TSR_UNROLL for (int col = 0; col < kColumns.kCount; ++col) {
        const char* from = p;
        p += pixel;
        hold(p);
        if (!kColumns.used[col] || (kEdge && !within(in_col + col, in_w))) continue;
        F x[M::kAtOnce][V];
        Load::template load<kWhole>(x, from, chunk, index);
        TSR_UNROLL for (int t = 0; t < kTaps; ++t) {
          const int b = kColumns.met[col][t];
          if (b < 0) continue;
          TSR_UNROLL for (int a = 0; a < M::kAtOnce; ++a) {
            TSR_UNROLL for (int v = 0; v < V; ++v) M::multiply(acc[b][v], x[a][v], w[a][t][v]);
          }
        }
      }
      if constexpr (M::kChosen)
        each<V>([&](auto v) __attribute__((always_inline)) { index[v.value] += M::kNext; });
    }
  }

  // What the lines of one plane of the filter add to a tile.
  template <bool kEdge, bool kWhole>
  static TSR_INLINE void add_lines(const Job& at, const char* line, const float* panel, F (&acc)[B][V]) {
    for (long long h = at.h_count; h > 0; --h, line += at.h_in, panel += at.h_panel) {
      if constexpr (kOneVector) {
        add_line<kEdge, kWhole>(at, line, panel, acc);
      } else if constexpr (kByTaps) {
        add_taps<kEdge, kWhole>(at, line, panel, acc);
      } else {
        add_channels<kEdge, kWhole>(at, line, panel, acc);
      }
    }
  }

  template <bool kEdge, bool kWhole>
  static TSR_INLINE void tile(const Job& at, const char* in, char* out) {
    F acc[B][V];
    each<B * V>([&](auto i) __attribute__((always_inline)) {
      F zero{};
      // Each its own: one that all share takes a register, and sums move from one to another.
      if constexpr (kFewRegisters) asm volatile("vxorps %0, %0, %0" : "=x"(zero));
      acc[i.value / V][i.value % V] = zero;
    });
    const float* panel = at.line_panel;
    if constexpr (C::taps_d == 1) {
      add_lines<kEdge, kWhole>(at, in, panel, acc);
    } else {
      for (long long d = at.d_count; d > 0; --d, in += at.d_in, panel += at.d_panel)
        add_lines<kEdge, kWhole>(at, in, panel, acc);
    }
    if constexpr (M::kJoins && C::type_out == Type::bf16 && E::kNoSteps) {
      if (kWhole && at.whole) return Store::template store_joined<kEdge>(at, out, acc);
    }
    each<B>([&](auto b) __attribute__((always_inline)) { M::in_order(acc[b.value]); });
    if constexpr (M::kFolds == 1) {
      Store::template put<kEdge, kWhole>(at, out, acc);
    } else {
      F sums[B][kSums];
      each<B>([&](auto b) __attribute__((always_inline)) { M::fold(acc[b.value], sums[b.value]); });
      Store::template put<kEdge, kWhole>(at, out, sums);
    }
  }

  // Tiles from q up to `end`, in columns or, backward, strides.
  static TSR_INLINE Span span(const GroupsArgs& args, long long q, long long end) {
    Span s;
    s.in_col = M::kBackward ? q + M::kFirst : q * M::kStride - args.pad_w;
    s.out_col = M::kBackward ? q * kUnit - args.pad_w : q;
    const long long count = (end - q + B / kUnit - 1) / (B / kUnit);
    const auto short_by = [](long long x, long long step) { return x < 0 ? (step - 1 - x) / step : 0; };
    const auto fit = [](long long room, long long step) { return room < 0 ? 0 : room / step + 1; };
    const long long last =
        least(fit(args.in_w - kColumns.kCount - s.in_col, kStep), fit(args.out_w - B - s.out_col, B));
    s.before = least(most(short_by(s.in_col, kStep), short_by(s.out_col, B)), count);
    s.inside = most(least(last, count) - s.before, 0);
    s.behind = count - s.before - s.inside;
    return s;
  }

  // Where line h of the plane that `at` walks begins in the result, in pixels.
  static TSR_INLINE long long begin_of(const GroupsLine& at, long long h) {
    const GroupsArgs& args = at.args;
    if constexpr (M::kBlocked) {
      const GroupsBlocks& blocks = args.blocks;
      const long long line = least(most(blocks.origin_h + h * C::block_h, 0), blocks.result_h);
      return (at.plane() * blocks.result_h + line) * blocks.result_w;
    }
    return (at.plane() * args.out_h + h) * args.out_w;
  }

  static TSR_INLINE void lines(const GroupsArgs& args) {
    GroupsArgs own = args;
    Job job;
    job.args = &own;
    job.pixel = args.in_channels * M::kInSize;
    job.in_w = args.in_w;
    job.out_w = args.out_w;
    const long long line = job.in_w * job.pixel, plane = args.in_h * line, image = args.in_d * plane;
    const long long line_floats = M::kSteps * kSlot, chunk_floats = args.taps_d * args.taps_h * line_floats;
    job.d_in = args.at_step_d * plane;
    job.h_in = args.at_step_h * line;
    job.d_panel = args.tap_step_d * args.taps_h * line_floats;
    job.h_panel = args.tap_step_h * line_floats;
    // Backward tiles begin where the first tap of a stride does, counted from the padding.
    const long long first = M::kBackward ? args.pad_w / kUnit : 0;
    const long long last = M::kBackward ? (args.pad_w + args.out_w + kUnit - 1) / kUnit : args.out_w;
    const long long lines = least(args.line_block, kMostLines);
    const auto describe = [&](const GroupsLine& at) __attribute__((always_inline)) {
      const GroupsAxis &axis_d = at.axis_d(), &axis_h = at.axis_h();
      // A zero alpha hides what operands hold.
      const long long planes = args.epilogue.alpha == 0.0f ? 0 : axis_d.count;
      return Line{at.image * image + axis_d.at * plane + axis_h.at * line,
                  (axis_d.first * args.taps_h + axis_h.first) * line_floats,
                  planes,
                  planes > 0 ? axis_h.count : 0,
                  at.room(),
                  at.line() * args.out_w,
                  at.plane(),
                  args.blocks.origin_h + at.h * C::block_h};
    };
    Leaving<L> put;  // the block's results, where they are put together apart
    bool other = false;
    for (long long l0 = args.line_begin, l1; l0 < args.line_end; l0 = l1) {
      l1 = groups_block_end(args, l0, least(l0 + lines, args.line_end));
      const long long l2 =
          l1 < args.line_end ? groups_block_end(args, l1, least(l1 + lines, args.line_end)) : l1;
      const long long turns =
          (l1 - l0) * (args.chunk_end - args.chunk_begin) * ((last - first - 1) / (B / kUnit) + 1);
      job.fetches = args.fetch || args.apart;
      job.next_in = groups_next_lines<M::kInSize>(args, l1, l2, turns);
      char* c = static_cast<char*>(args.epilogue.c);
      const long long pixel = args.epilogue.c_stride * bytes_of(C::type_out);
      if (args.apart) {
        const GroupsLine from(args, l0), to(args, l1 - 1);
        const long long before = begin_of(from, from.h) * pixel;
        put = Leaving<L>(c + before, args.apart + other * args.apart_bytes,
                         begin_of(to, to.h + 1) * pixel - before);
        other = !other;
        own.epilogue.c = reinterpret_cast<void*>(reinterpret_cast<long long>(put.from) - before);
      } else if (args.fetch && !M::kBlocked && !kStreams) {
        const char* next = c + GroupsLine(args, l1).line() * args.out_w * pixel;
        job.next_out = Stream<true>(next, next + (l2 - l1) * args.out_w * pixel, turns);
      }
      Line block[kMostLines];
      GroupsLine at(args, l0);
      for (Line* l = block; l < block + (l1 - l0); ++l, at.next()) *l = describe(at);
      for (long long q = args.chunk_begin; q < args.chunk_end; ++q) {
        const Chunk chunk(args, q);
        job.chunk = &chunk;
        job.o = M::first_channel(args, q);
        job.fresh = q * M::kChannels;
        job.whole = args.epilogue.plain && M::kSumLanes == L && M::kApart == 0 &&
                    job.o + M::kChannels <= args.out_channels;
        if constexpr (kStreams) {
          constexpr int kSize = bytes_of(C::type_out);
          job.streams = (reinterpret_cast<unsigned long long>(args.epilogue.c) |
                         args.epilogue.c_stride * kSize | job.o * kSize) %
                            kLineBytes ==
                        0;
        }
        job.in = static_cast<const char*>(args.in) + chunk.begin;
        job.panel = args.panels + q * chunk_floats;
        const Line* end = block + (l1 - l0);
        for (long long t0 = first, t1; t0 < last; t0 = t1) {
          t1 = least(t0 + args.tile_block * (B / kUnit), last);
          const Span at_w = span(args, t0, t1);
          for (const Line *l = block, *to; l < end; l = to) {  // lines alike in what may be read behind them
            const bool whole = l->room >= chunk.beyond;
            for (to = l + 1; to < end && (to->room >= chunk.beyond) == whole; ++to) {}
            whole ? tiles<true>(job, at_w, l, to) : tiles<false>(job, at_w, l, to);
          }
        }
      }
      job.leaving.finish();
      job.leaving = put;
      job.leaving.begin(turns);
    }
    job.leaving.finish();
    if (kStreams || args.apart) fence_streams();
  }

  static TSR_INLINE void run(const GroupsArgs& args) {
    args.phase == GroupsPhase::lines ? lines(args) : GroupsWeights<C>::run(args);
  }
};

}  // namespace tsr
